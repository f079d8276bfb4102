// Delete, with what goes with it in numbers before anything goes.
import { type ReactElement, useState } from "react";

import { api, pathOf } from "../api/client";
import { address } from "../api/place";
import type { KindSchema, Obj } from "../api/types";
import { deleteCommands, kubectlName } from "../model/commands";
import { deletion } from "../model/consequences";
import { text } from "../model/text";
import { Confirmation } from "./confirmation";
import { GuardedButton } from "./rights";

interface Props {
  kind: KindSchema;
  object: Obj;
  /** Why the caller may not; empty where it is allowed. */
  why: string;
  gone: () => void;
}

export function DeleteButton({ kind, object, why, gone }: Props): ReactElement {
  const { namespace, name } = object.metadata;
  const [asks, setAsks] = useState(false);
  const subject = { resource: kind.name, kubectl: kubectlName(kind), namespaced: kind.namespaced, namespace, name };
  const remove = async () => {
    await api("DELETE", pathOf(kind.name, namespace, name));
    gone();
  };
  return (
    <>
      <GuardedButton variant="danger" why={why} onClick={() => setAsks(true)}>
        {text.object.remove}
      </GuardedButton>
      {asks ? (
        <Confirmation
          title={text.object.removeTitle(object.kind, name)}
          verb={text.object.remove}
          danger
          commands={() => deleteCommands(subject, address())}
          carryOut={remove}
          close={() => setAsks(false)}
        >
          {deletion(object).map((each) => (
            <p key={each}>{each}</p>
          ))}
        </Confirmation>
      ) : null}
    </>
  );
}
