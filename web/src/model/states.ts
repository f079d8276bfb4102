// Where things stand, as the page names and colours them: never by colour alone. Pure.
import type { Condition, Device, Obj, Rollout } from "../api/types";
import type { Action } from "./consequences";

export type Colour = "green" | "red" | "orange" | "blue" | "grey" | "purple";

export const STATES = ["failed", "quarantined", "unreachable", "updating", "ok"] as const;
export type DeviceState = (typeof STATES)[number];

const GOOD = new Set(["succeeded", "already-current"]);

/** Where a device stands; the same rule as the server's for counts. */
export function stateOf(device: Device): DeviceState {
  const status = device.status ?? {};
  const holds = (type: string) => (status.conditions ?? []).some((each) => each.type === type && each.status === "True");
  if (status.claim) {
    return "updating";
  }
  if (holds("Quarantined")) {
    return "quarantined";
  }
  if (status.lastFlash?.outcome && !GOOD.has(status.lastFlash.outcome)) {
    return "failed";
  }
  return holds("Stale") ? "unreachable" : "ok";
}

export const STATE_COLOUR: Record<string, Colour> = {
  failed: "red",
  quarantined: "purple",
  unreachable: "orange",
  updating: "blue",
  ok: "green",
};

/** One word on where an object of any kind stands: its phase, or its summary condition. The phase of an edge device is
 *  what it said last, which may be long ago: its condition tells whether it is heard. */
export function standing(object: Obj): string {
  const { phase, conditions = [] } = (object.status ?? {}) as { phase?: unknown; conditions?: Condition[] };
  const ready = conditions.find((each) => ["Ready", "Succeeded", "Deployed"].includes(each.type));
  if (typeof phase === "string" && phase && !(object.kind === "EdgeDevice" && ready)) {
    return phase;
  }
  return ready ? (ready.status === "True" ? ready.type : (ready.reason ?? `not ${ready.type}`)) : "";
}

/** The colour of a rollout's or a batch's phase. */
export function phaseColour(phase: string): Colour {
  if (["Completed", "Passed", "Deployed", "Running", "Ready"].includes(phase)) {
    return "green";
  }
  if (["Failed", "Aborted", "Recalled"].includes(phase)) {
    return "red";
  }
  if (["Paused", "Waiting", "AwaitingApproval"].includes(phase)) {
    return "orange";
  }
  return ["Progressing", "Soaking", "InProgress"].includes(phase) ? "blue" : "grey";
}

/** What may be done with a rollout as it is; the server decides in the end. */
export function actionsFor({ spec, status }: Rollout): Action[] {
  const phase = status?.phase ?? "";
  // A recall is undone by a rollout of one's own.
  const back: Action[] = spec.recall ? [] : ["recall", "undo"];
  if (phase === "Completed") {
    return [...back, "retry"];
  }
  if (["Aborted", "Recalled"].includes(phase)) {
    return back;
  }
  const awaiting = status?.batches?.some((each) => each.phase === "AwaitingApproval");
  const found: Action[] = spec.paused || phase === "Paused" || phase === "Failed" ? ["resume", "retry"] : ["pause"];
  return [...(awaiting ? (["approve"] as const) : []), ...found, "abort", ...back];
}
