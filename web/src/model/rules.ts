// The rules of a rollout and how far they are from holding: what opens the next batch, and what stops it. Pure.
import type { BatchStatus, Rollout } from "../api/types";

/** How many per cent of a batch must succeed where it does not say. */
const DEFAULT_SUCCESS = 90;
const GOOD = new Set(["succeeded", "already-current"]);

interface Batch {
  name: string;
  size?: number | string;
  soakSeconds?: number;
  gate?: { successPercent?: number };
}

export interface StopRule {
  outcomes?: string[];
  threshold?: number | string;
  minSample?: number;
  action: "pause" | "abort" | "recall";
}

/** How many of a batch's devices have to succeed before the next opens; null where nothing waits for it. */
export function needed(batch: BatchStatus, rollout: Rollout): number | null {
  const meant = declared(batch, rollout);
  return meant ? Math.ceil(((batch.size ?? 0) * (meant.gate?.successPercent ?? DEFAULT_SUCCESS)) / 100) : null;
}

/** How many devices its size means for a batch that is open, or was; null where it has no size: it takes what there is. */
export function planned(batch: BatchStatus, rollout: Rollout): number | null {
  const size = batch.phase === "Planned" ? undefined : declared(batch, rollout)?.size;
  if (size === undefined) {
    return null;
  }
  const total = rollout.status?.counts?.total ?? 0;
  return String(size).endsWith("%") ? Math.ceil((total * Number.parseFloat(String(size))) / 100) : Number(size);
}

/** How many seconds a batch is still watched; null where it is not being watched. */
export function soaking(batch: BatchStatus, rollout: Rollout, now: Date): number | null {
  const seconds = declared(batch, rollout)?.soakSeconds ?? 0;
  if (batch.phase !== "Soaking" || !batch.ended || !seconds) {
    return null;
  }
  return Math.max(0, Math.ceil((new Date(batch.ended).getTime() - now.getTime()) / 1000 + seconds));
}

export interface Gauge {
  rule: StopRule;
  /** How many devices count towards it now. */
  counted: number;
  /** With so many it holds; of a share, of those that have ended by now. */
  limit: number;
}

/** How far each rule is that stops the rollout; none where somebody resumed it: earlier outcomes do not count then. */
export function gauges({ spec, status }: Rollout): Gauge[] {
  const outcomes = Object.entries(status?.outcomes ?? {});
  const ended = outcomes.reduce((sum, [, count]) => sum + count, 0);
  const rules = spec.resumeRequest ? [] : ((spec.stop as StopRule[] | undefined) ?? []);
  return rules.map((rule) => {
    const counts = (outcome: string) => (rule.outcomes?.length ? rule.outcomes.includes(outcome) : !GOOD.has(outcome));
    const counted = outcomes.filter(([outcome]) => counts(outcome)).reduce((sum, [, count]) => sum + count, 0);
    const threshold = String(rule.threshold ?? 1);
    const sample = Math.max(ended, rule.minSample ?? 1);
    const limit = threshold.endsWith("%") ? Math.max(1, Math.ceil((sample * Number.parseFloat(threshold)) / 100)) : Number(threshold);
    return { rule, counted, limit };
  });
}

function declared(batch: BatchStatus, rollout: Rollout): Batch | undefined {
  return ((rollout.spec.batches as Batch[] | undefined) ?? []).find((each) => each.name === batch.name);
}
