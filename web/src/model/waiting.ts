// What waits for somebody to decide. Pure.
import type { Rollout } from "../api/types";

export interface Awaiting {
  rollout: Rollout;
  /** The batch whose approval is waited for. */
  batch: string;
}

/** The rollouts that wait for an approval, in the namespaces where it may be given. */
export function awaiting(rollouts: Rollout[], may: (namespace: string) => boolean = () => true): Awaiting[] {
  return rollouts.flatMap((rollout) => {
    const batch = rollout.status?.batches?.find((each) => each.phase === "AwaitingApproval");
    return batch && may(rollout.metadata.namespace ?? "") ? [{ rollout, batch: batch.name }] : [];
  });
}
