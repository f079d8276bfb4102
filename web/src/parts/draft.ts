// What somebody has written into the form of a new rollout, kept in this tab until the rollout is made or they sign out.
import { type Draft, draftOf } from "../model/new-rollout";

const KEY = "edgewright-new-rollout";

/** What was written before the page was loaded again; else an empty draft. */
export function keptDraft(): Draft {
  return draftOf(sessionStorage.getItem(KEY));
}

/** Remembers what is written now. */
export function keepDraft(draft: Draft): void {
  sessionStorage.setItem(KEY, JSON.stringify(draft));
}

/** Nothing of it is left. */
export function forgetDraft(): void {
  sessionStorage.removeItem(KEY);
}
