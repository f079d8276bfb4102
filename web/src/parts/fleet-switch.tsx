// The switch of the whole fleet: freeze it, so that no device is started, or end that; with the numbers before.
import { useQueryClient } from "@tanstack/react-query";
import { type ReactElement, useState } from "react";

import { api } from "../api/client";
import { address } from "../api/place";
import type { FleetSummary } from "../api/types";
import { switchCommands } from "../model/commands";
import { switching } from "../model/consequences";
import { text } from "../model/text";
import { Confirmation } from "./confirmation";
import { GuardedButton, useRights } from "./rights";

/** The button that turns the switch to where it is not. */
export function FleetSwitch({ fleet }: { fleet: FleetSummary }): ReactElement {
  const [asks, setAsks] = useState(false);
  const rights = useRights("fleets");
  const queries = useQueryClient();
  const action = fleet.freeze ? "unfreeze" : "freeze";
  const turn = async (reason: string) => {
    await api("POST", `/api/v1/fleet/${action}`, { body: reason ? { reason } : {} });
    await queries.invalidateQueries({ queryKey: ["fleet"] });
    setAsks(false);
  };
  return (
    <>
      <GuardedButton variant="secondary" why={rights.why("patch")} onClick={() => setAsks(true)}>
        {text.freeze[action]}
      </GuardedButton>
      {asks ? (
        <Confirmation
          title={text.freeze.title[action]}
          verb={text.freeze[action]}
          danger={action === "freeze"}
          reasoned
          commands={(reason) => switchCommands(action, reason, address())}
          carryOut={turn}
          close={() => setAsks(false)}
        >
          <p>{switching(action, fleet)}</p>
        </Confirmation>
      ) : null}
    </>
  );
}
