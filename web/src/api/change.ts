// A change of an object as a merge patch of only what differs, refused where somebody else changed the same object.
import { declared, mergePatch } from "../model/declaration";
import { ProblemError, api, pathOf } from "./client";
import type { Obj } from "./types";

const STALE = 412;
const TRIES = 5;

/** Patches `seen` into `wanted`. That its status went on meanwhile does no harm: controllers write it all the time. */
export async function change(resource: string, seen: Obj, wanted: Obj, query: string): Promise<Obj> {
  const { namespace, name } = seen.metadata;
  const path = pathOf(resource, namespace, name);
  const body = mergePatch(declared(seen), wanted) ?? {};
  let version = seen.metadata.resourceVersion;
  for (let left = TRIES; ; left -= 1) {
    try {
      const headers = { "Content-Type": "application/merge-patch+json", "If-Match": `"${version}"` };
      return await api<Obj>("PATCH", path + query, { body, headers });
    } catch (error) {
      if (left === 0 || !(error instanceof ProblemError) || error.problem.status !== STALE) {
        throw error;
      }
      const now = await api<Obj>("GET", path);
      if (mergePatch(declared(seen), declared(now)) !== undefined) {
        throw error;
      }
      version = now.metadata.resourceVersion;
    }
  }
}
