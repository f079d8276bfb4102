// Delete, with what goes with it in numbers before anything goes.
import { Button, Modal, ModalBody, ModalFooter, ModalHeader } from "@patternfly/react-core";
import { type ReactElement, useState } from "react";

import { ProblemError, api, pathOf } from "../api/client";
import type { KindSchema, Obj, Problem } from "../api/types";
import { deleteCommands, kubectlName } from "../model/commands";
import { deletion } from "../model/consequences";
import { text } from "../model/text";
import { CopyAs } from "./copy-as";
import { GuardedButton } from "./rights";
import { ProblemAlert } from "./state";

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
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const close = () => {
    setAsks(false);
    setProblem(null);
  };
  const remove = async () => {
    setBusy(true);
    try {
      await api("DELETE", pathOf(kind.name, namespace, name));
      gone();
    } catch (error) {
      setBusy(false);
      if (!(error instanceof ProblemError)) {
        throw error;
      }
      setProblem(error.problem);
    }
  };
  return (
    <>
      <GuardedButton variant="danger" why={why} onClick={() => setAsks(true)}>
        {text.object.remove}
      </GuardedButton>
      {asks ? (
        <Modal variant="small" isOpen onClose={close} aria-labelledby="delete-title" aria-describedby="delete-body">
          <ModalHeader title={text.object.removeTitle(object.kind, name)} labelId="delete-title" />
          <ModalBody id="delete-body">
            {deletion(object).map((each) => (
              <p key={each}>{each}</p>
            ))}
            <CopyAs commands={deleteCommands({ resource: kind.name, kubectl: kubectlName(kind), namespaced: kind.namespaced, namespace, name }, window.location.origin)} />
            {problem ? <ProblemAlert problem={problem} /> : null}
          </ModalBody>
          <ModalFooter>
            <Button variant="danger" isDisabled={busy} isLoading={busy} onClick={() => void remove()}>
              {text.object.remove}
            </Button>
            <Button variant="link" onClick={close}>
              {text.actions.cancel}
            </Button>
          </ModalFooter>
        </Modal>
      ) : null}
    </>
  );
}
