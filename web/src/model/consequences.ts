// What an action would do, in numbers, before it is done. Pure: the numbers are those of the object's own status.
import type { FlashJob, FleetSummary, Obj, Rollout } from "../api/types";
import { text } from "./text";

export type Action = "pause" | "resume" | "approve" | "abort" | "retry" | "recall" | "undo";
export type Switch = "freeze" | "unfreeze";

/** After these phases nothing is started any more. */
const ENDED = new Set(["Completed", "Failed", "Aborted", "Recalled"]);

/** Whether a rollout has come to its end. */
export function hasEnded(rollout: Rollout): boolean {
  return ENDED.has(rollout.status?.phase ?? "");
}

/** Whether an action takes devices back, by a rollout of its own. */
export function makesRollout(action: Action): boolean {
  return action === "recall" || action === "undo";
}

/** Whether an action ends a rollout for good. */
export function isDangerous(action: Action): boolean {
  return action === "abort" || makesRollout(action);
}

/** What an action would do to this rollout; what takes devices back has a plan of its own that tells its numbers. */
export function consequence(action: Action, rollout: Rollout): string {
  const counts = rollout.status?.counts;
  const batches = rollout.status?.batches ?? [];
  const at = batches.findIndex((each) => each.phase === "AwaitingApproval");
  const waits = batches[at];
  const [flashing, waiting] = [counts?.flashing ?? 0, counts?.waiting ?? 0];
  switch (action) {
    case "pause":
    case "abort":
      return text.actions.confirm[action](flashing, waiting);
    case "recall":
    case "undo":
      return hasEnded(rollout) ? "" : text.actions.confirm.abort(flashing, waiting);
    case "retry":
      return text.actions.confirm.retry(counts?.failed ?? 0);
    case "approve":
      return text.actions.confirm.approve(waits?.name ?? "", batches[at + 1]?.name ?? "", batches[at + 1]?.size ?? 0);
    case "resume":
      return text.actions.confirm.resume(waiting);
  }
}

/** What it would do to the fleet to freeze it, or to end that. */
export function switching(action: Switch, fleet: FleetSummary): string {
  const updating = fleet.states.updating ?? 0;
  return action === "freeze" ? text.freeze.confirm.freeze(updating, fleet.total - updating) : text.freeze.confirm.unfreeze(fleet.total - updating);
}

/** What goes with an object that is deleted. */
export function deletion(object: Obj): string[] {
  const said = [...ofKind(object)];
  const held = object.metadata.finalizers?.length ?? 0;
  if (held) {
    said.push(text.object.held(held));
  }
  return [...said, text.object.owned];
}

function ofKind(object: Obj): string[] {
  switch (object.kind) {
    case "FirmwareRollout": {
      const counts = (object as Rollout).status?.counts;
      return counts ? [text.object.rolloutGoes(counts.flashing ?? 0, counts.waiting ?? 0)] : [];
    }
    case "FlashJob": {
      const devices = (object as FlashJob).status?.devices ?? [];
      const flashing = devices.filter((each) => each.state === "Flashing").length;
      const waiting = devices.filter((each) => each.state === "Waiting").length;
      return [text.object.rolloutGoes(flashing, waiting)];
    }
    case "Device":
      return [text.object.deviceGoes(((object.status?.records as unknown[] | undefined) ?? []).length)];
    default:
      return [];
  }
}
