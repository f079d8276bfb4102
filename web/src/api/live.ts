// Objects of one kind, kept current by the server's stream: it goes on after a cut, and says since when it is not live.
import { useEffect, useState } from "react";

import { ProblemError, send } from "./client";
import { EventParser, type ServerEvent } from "./events";
import type { Obj, Problem } from "./types";

export interface Live<T> {
  state: "loading" | "live" | "stale" | "failed";
  /** With stale: since when. */
  since?: Date;
  problem?: Problem;
  items: T[];
}

const FIRST_WAIT = 1000;
const LONGEST_WAIT = 15000;
/** Answers after which there is nothing to show. */
const REFUSED = new Set([400, 401, 403, 404]);
/** Those of them that no waiting changes. */
const FINAL = new Set([400, 401]);

/** What one event makes of the objects that are known; null: begin again. Pure. */
export function after<T extends Obj>(known: ReadonlyMap<string, T>, event: ServerEvent): Map<string, T> | null {
  if (event.event === "reset") {
    return null;
  }
  const next = new Map(known);
  if (event.event === "added" || event.event === "modified") {
    const object = JSON.parse(event.data) as T;
    next.set(object.metadata.uid ?? object.metadata.name, object);
  } else if (event.event === "deleted") {
    const object = JSON.parse(event.data) as T;
    next.delete(object.metadata.uid ?? object.metadata.name);
  }
  return next;
}

/** Follows the objects that the query names, such as `of=rollouts`; nothing is asked while the query is empty. */
export function useLive<T extends Obj>(query: string): Live<T> {
  const [live, setLive] = useState<Live<T>>({ state: "loading", items: [] });
  useEffect(() => {
    setLive({ state: "loading", items: [] });
    if (!query) {
      return;
    }
    const ended = new AbortController();
    void follow<T>(query, setLive, ended.signal);
    return () => ended.abort();
  }, [query]);
  return live;
}

async function follow<T extends Obj>(query: string, show: (live: Live<T>) => void, signal: AbortSignal): Promise<void> {
  let known = new Map<string, T>();
  let last = "";
  let wait = FIRST_WAIT;
  let synced = false;
  let lost: Date | undefined;
  const items = () => [...known.values()].sort(byName);
  while (!signal.aborted) {
    try {
      const answer = await send("GET", `/api/v1/stream?${query}`, {
        signal,
        headers: last ? { "Last-Event-ID": last } : {},
      });
      const parser = new EventParser();
      const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
      lost = undefined;
      if (last) {
        show({ state: "live", items: items() });
      }
      for (;;) {
        const { done, value } = await reader.read();
        if (done) {
          break;
        }
        let changed = false;
        for (const event of parser.push(value)) {
          last = event.id || last;
          wait = FIRST_WAIT;
          if (event.event === "problem") {
            throw new ProblemError(JSON.parse(event.data) as Problem);
          }
          const next = after(known, event);
          synced = next === null ? false : synced || event.event === "synced";
          known = next ?? new Map();
          changed = true;
        }
        if (changed && synced) {
          show({ state: "live", items: items() });
        }
      }
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      const problem = error instanceof ProblemError ? error.problem : undefined;
      if (problem && REFUSED.has(problem.status)) {
        // Nothing that is forbidden stays in sight. It may be allowed again: an API server that has just started refuses
        // everything until it has read the roles.
        [known, last, synced] = [new Map(), "", false];
      }
      if (problem && FINAL.has(problem.status)) {
        show({ state: "failed", problem, items: [] });
        return;
      }
      lost ??= new Date();
      show(synced ? { state: "stale", since: lost, problem, items: items() } : { state: "failed", problem, items: [] });
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

function byName(a: Obj, b: Obj): number {
  const left = `${a.metadata.namespace ?? ""}/${a.metadata.name}`;
  const right = `${b.metadata.namespace ?? ""}/${b.metadata.name}`;
  return left < right ? -1 : left > right ? 1 : 0;
}
