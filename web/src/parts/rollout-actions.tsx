// The buttons of a rollout. Each says in numbers what it does before it does it; who lacks the right sees why.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type ReactElement, useState } from "react";
import { useNavigate } from "react-router";

import { api, pathOf } from "../api/client";
import { address } from "../api/place";
import type { Plan, Rollout } from "../api/types";
import { actionBody, actionCommands } from "../model/commands";
import { type Action, consequence, isDangerous, makesRollout } from "../model/consequences";
import { actionsFor } from "../model/states";
import { text } from "../model/text";
import { Confirmation } from "./confirmation";
import { GuardedButton, useRights } from "./rights";
import { Failure, Loading } from "./state";

export function RolloutActions({ rollout }: { rollout: Rollout }): ReactElement {
  const { namespace = "", name } = rollout.metadata;
  const [asked, setAsked] = useState<Action | null>(null);
  const rights = useRights("rollouts", namespace);
  return (
    <div className="ew-actions" role="group" aria-label={name}>
      {actionsFor(rollout).map((action) => (
        <GuardedButton
          key={action}
          variant={isDangerous(action) ? "danger" : "secondary"}
          why={rights.why(makesRollout(action) ? "create" : "patch")}
          onClick={() => setAsked(action)}
        >
          {text.actions[action]}
        </GuardedButton>
      ))}
      {asked ? <RolloutConfirmation action={asked} rollout={rollout} close={() => setAsked(null)} /> : null}
    </div>
  );
}

function RolloutConfirmation({ action, rollout, close }: { action: Action; rollout: Rollout; close: () => void }): ReactElement {
  const { namespace = "", name } = rollout.metadata;
  const [asked] = useState(() => new Date().toISOString());
  // An approval is of what was read: what another window did since then must not turn it into that of the next batch.
  const [seen] = useState(rollout);
  const meant = action === "approve" ? seen : rollout;
  const undoing = useUndoing(rollout, action === "undo");
  const navigate = useNavigate();
  const carryOut = async (reason: string) => {
    const done = await api<Rollout>("POST", actionPath(rollout, action), { body: actionBody(action, meant, reason) });
    close();
    if (makesRollout(action)) {
      await navigate(`/rollouts/${namespace}/${done.metadata.name}`);
    }
  };
  return (
    <Confirmation
      title={`${text.actions[action]} ${name}`}
      verb={text.actions[action]}
      danger={isDangerous(action)}
      reasoned
      commands={(reason) => actionCommands(action, meant, { reason, origin: address(), now: asked, undoing: undoing.data })}
      carryOut={carryOut}
      close={close}
    >
      <p>{consequence(action, meant)}</p>
      {action === "recall" ? (
        <Numbers rollout={rollout} spec={{ recall: { name, uid: rollout.metadata.uid } }} told={text.actions.confirm.recall} />
      ) : null}
      {undoing.error ? <Failure error={undoing.error} /> : null}
      {undoing.data ? (
        <Numbers rollout={rollout} spec={undoing.data.spec} told={(going) => text.actions.confirm.undo(going, undoing.data.spec.version ?? "")} />
      ) : null}
    </Confirmation>
  );
}

function actionPath(rollout: Rollout, action: Action): string {
  return `${pathOf("rollouts", rollout.metadata.namespace, rollout.metadata.name)}/${action}`;
}

/** The rollout that an undo would make: the server knows what came before. */
function useUndoing(rollout: Rollout, enabled: boolean) {
  return useQuery({
    enabled,
    queryKey: ["undo", rollout.metadata.uid],
    queryFn: () => api<Rollout>("POST", `${actionPath(rollout, "undo")}?dryRun=All`, { body: {} }),
    retry: false,
  });
}

/** How many devices a rollout that takes back reaches, and how many it cannot: the server's own plan of it. */
function Numbers({ rollout, spec, told }: { rollout: Rollout; spec: object; told: (going: number) => string }): ReactElement {
  const { namespace = "", uid, resourceVersion } = rollout.metadata;
  const plan = useQuery({
    // With each change of the rollout again: devices that are being flashed can go back a moment later.
    queryKey: ["plan", spec, uid, resourceVersion],
    placeholderData: keepPreviousData,
    queryFn: () => api<Plan>("POST", `${pathOf("rollouts", namespace)}/plan`, { body: { spec } }),
  });
  if (plan.error) {
    return <Failure error={plan.error} />;
  }
  if (!plan.data) {
    return <Loading />;
  }
  return (
    <>
      <p>{told(plan.data.batches.reduce((sum, each) => sum + each.size, 0))}</p>
      {plan.data.excludedCount ? (
        <ul>
          {Object.entries(reasons(plan.data.excluded)).map(([why, count]) => (
            <li key={why}>{text.actions.confirm.stays(count, why)}</li>
          ))}
        </ul>
      ) : null}
    </>
  );
}

/** How many devices there are for each reason. */
export function reasons(excluded: Record<string, string>): Record<string, number> {
  const found: Record<string, number> = {};
  for (const why of Object.values(excluded)) {
    found[why] = (found[why] ?? 0) + 1;
  }
  return found;
}
