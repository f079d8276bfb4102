// The devices of a rollout as its page shows them: failures first, by outcome, a page at a time. Pure.
import type { FlashJob, FlashedDevice } from "../api/types";

/** Rows of a page: no more are in the document, however many devices there are. */
export const PAGE_ROWS = 200;
const ORDER: Record<string, number> = { Failed: 0, Flashing: 1, Waiting: 2 };
const OTHERS = 3;

/** The devices of a rollout's jobs: failures first, then those under way. */
export function devicesOf(jobs: FlashJob[]): FlashedDevice[] {
  const rank = (each: FlashedDevice) => ORDER[each.state ?? ""] ?? OTHERS;
  const named = jobs.flatMap((job) => job.status?.devices ?? []).map((each) => ({ each, rank: rank(each), name: each.device ?? each.uuid }));
  return named.sort((a, b) => a.rank - b.rank || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)).map(({ each }) => each);
}

/** How many devices there are of each outcome, those of failed devices first; who has none is not counted. */
export function outcomesOf(devices: FlashedDevice[]): [outcome: string, count: number][] {
  const counts = new Map<string, number>();
  for (const { outcome } of devices) {
    if (outcome) {
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    }
  }
  return [...counts]; // as they first come: failures first
}

export interface Rows {
  rows: FlashedDevice[];
  /** Which page it is, from 1 on; one that is not there is the last. */
  page: number;
  pages: number;
  /** How many devices are on all pages, and where this one begins. */
  all: number;
  first: number;
}

/** A page of the devices with an outcome; of all where none is named. */
export function rowsOf(devices: FlashedDevice[], outcome: string, wanted: number): Rows {
  const fitting = outcome ? devices.filter((each) => each.outcome === outcome) : devices;
  const pages = Math.max(1, Math.ceil(fitting.length / PAGE_ROWS));
  const page = Math.min(Math.max(1, Math.trunc(wanted) || 1), pages);
  const first = (page - 1) * PAGE_ROWS;
  return { rows: fitting.slice(first, first + PAGE_ROWS), page, pages, all: fitting.length, first: fitting.length ? first + 1 : 0 };
}
