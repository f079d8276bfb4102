// The buttons of a rollout. Each says in numbers what it does before it does it; who lacks the right sees why.
import { Button, Modal, ModalBody, ModalFooter, ModalHeader, TextInput } from "@patternfly/react-core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type ReactElement, useState } from "react";
import { useNavigate } from "react-router";

import { ProblemError, api, pathOf } from "../api/client";
import type { Plan, Problem, Rollout } from "../api/types";
import { actionBody, actionCommands } from "../model/commands";
import { type Action, consequence } from "../model/consequences";
import { actionsFor } from "../model/states";
import { text } from "../model/text";
import { CopyAs } from "./copy-as";
import { GuardedButton, useRights } from "./rights";
import { Failure, Loading, ProblemAlert } from "./state";

export function RolloutActions({ rollout }: { rollout: Rollout }): ReactElement {
  const { namespace = "", name } = rollout.metadata;
  const [asked, setAsked] = useState<Action | null>(null);
  const rights = useRights("rollouts", namespace);
  const awaiting = Boolean(rollout.status?.batches?.some((each) => each.phase === "AwaitingApproval"));
  const found = actionsFor(rollout.status?.phase ?? "", Boolean(rollout.spec.paused), awaiting) as Action[];
  return (
    <div className="ew-actions" role="group" aria-label={name}>
      {found.map((action) => (
        <GuardedButton
          key={action}
          variant={action === "abort" || action === "recall" ? "danger" : "secondary"}
          why={rights.why(action === "recall" ? "create" : "patch")}
          onClick={() => setAsked(action)}
        >
          {text.actions[action]}
        </GuardedButton>
      ))}
      {asked ? <Confirmation action={asked} rollout={rollout} close={() => setAsked(null)} /> : null}
    </div>
  );
}

function Confirmation({ action, rollout, close }: { action: Action; rollout: Rollout; close: () => void }): ReactElement {
  const { namespace = "", name } = rollout.metadata;
  const [reason, setReason] = useState("");
  const [asked] = useState(() => new Date().toISOString());
  // An approval is of what was read: what another window did since then must not turn it into that of the next batch.
  const [seen] = useState(rollout);
  const meant = action === "approve" ? seen : rollout;
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const navigate = useNavigate();
  const carryOut = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const done = await api<Rollout>("POST", `${pathOf("rollouts", namespace, name)}/${action}`, { body: actionBody(action, meant, reason) });
      close();
      if (action === "recall") {
        await navigate(`/rollouts/${namespace}/${done.metadata.name}`);
      }
    } catch (error) {
      setBusy(false);
      if (error instanceof ProblemError) {
        setProblem(error.problem);
      } else {
        throw error;
      }
    }
  };
  return (
    <Modal variant="small" isOpen onClose={close} aria-labelledby="confirm-title" aria-describedby="confirm-body">
      <ModalHeader title={`${text.actions[action]} ${name}`} labelId="confirm-title" />
      <ModalBody id="confirm-body">
        <p>{consequence(action, meant)}</p>
        {action === "recall" ? <RecallNumbers rollout={rollout} /> : null}
        <label htmlFor="reason">{text.actions.reason}</label>
        <TextInput id="reason" value={reason} onChange={(_, value) => setReason(value)} />
        <CopyAs commands={actionCommands(action, meant, reason, window.location.origin, asked)} />
        {problem ? <ProblemAlert problem={problem} /> : null}
      </ModalBody>
      <ModalFooter>
        <Button variant={action === "abort" || action === "recall" ? "danger" : "primary"} isLoading={busy} isDisabled={busy} onClick={() => void carryOut()}>
          {text.actions[action]}
        </Button>
        <Button variant="link" onClick={close}>
          {text.actions.cancel}
        </Button>
      </ModalFooter>
    </Modal>
  );
}

/** How many devices a recall takes back, and how many cannot go back: the server's own plan of it. */
function RecallNumbers({ rollout }: { rollout: Rollout }): ReactElement {
  const { namespace = "", name, uid, resourceVersion } = rollout.metadata;
  const plan = useQuery({
    // With each change of the rollout again: devices that are being flashed can go back a moment later.
    queryKey: ["plan", "recall", uid, resourceVersion],
    placeholderData: keepPreviousData,
    queryFn: () => api<Plan>("POST", `${pathOf("rollouts", namespace)}/plan`, { body: { spec: { recall: { name, uid } } } }),
  });
  if (plan.error) {
    return <Failure error={plan.error} />;
  }
  if (!plan.data) {
    return <Loading />;
  }
  const going = plan.data.batches.reduce((sum, each) => sum + each.size, 0);
  return (
    <>
      <p>{text.actions.confirm.recall(going)}</p>
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
