// The steps of a flash, and which of them is done, by the phase that its log tells. Pure.
import type { FlashStep } from "../api/types";
import { text } from "./text";

export const PHASES = ["inspect", "fetch", "send", "verify"] as const;

export interface Step {
  name: string;
  standing: "done" | "current" | "later";
  /** What is known of the bytes; empty where nothing is. */
  told: string;
}

/** All steps of a flash that is at this one; none where its phase is not known. */
export function stepsAt(step: FlashStep | null | undefined): Step[] {
  const at = PHASES.findIndex((each) => each === step?.phase);
  if (!step || at < 0) {
    return [];
  }
  const known = step.percent !== null && step.bytes !== null;
  const sent = known ? text.now.sent(new Intl.NumberFormat(undefined, { style: "percent" }).format(step.percent! / 100), new Intl.NumberFormat().format(step.bytes!)) : "";
  return PHASES.map((phase, index) => ({
    name: text.now.steps[phase],
    standing: index < at ? "done" : index === at ? "current" : "later",
    told: index === at ? sent : "",
  }));
}
