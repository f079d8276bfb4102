// What a person declares of an object: without what the server writes, as a schema for the form, as a change. Pure.
import type { Obj } from "../api/types";
import type { Schema } from "./schema";

const SERVER_FIELDS = ["uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "deletionTimestamp"];
const TEXTS: Schema = { type: "object", additionalProperties: { type: "string" } };

/** An object without what the server writes. */
export function declared(object: Obj): Obj {
  const { apiVersion, kind, metadata: _metadata, status: _status, ...rest } = object;
  const metadata = Object.fromEntries(Object.entries(object.metadata).filter(([name]) => !SERVER_FIELDS.includes(name)));
  return { apiVersion, kind, metadata: metadata as unknown as Obj["metadata"], ...rest };
}

/** The schema of what can be declared: names and labels of the metadata, and everything but the status. */
export function declarable(schema: Schema, namespaced: boolean): Schema {
  const { apiVersion: _version, kind: _kind, metadata: _metadata, status: _status, ...rest } = schema.properties ?? {};
  const metadata: Schema = {
    type: "object",
    required: namespaced ? ["name", "namespace"] : ["name"],
    properties: {
      name: { type: "string" },
      ...(namespaced ? { namespace: { type: "string" } } : {}),
      labels: TEXTS,
      annotations: TEXTS,
    },
  };
  return { type: "object", properties: { metadata, ...rest }, required: ["metadata", ...(schema.required ?? [])] };
}

/** The JSON merge patch that makes one object into another; undefined where they are the same. */
export function mergePatch(before: unknown, after: unknown): unknown {
  if (!isRecord(before) || !isRecord(after)) {
    return JSON.stringify(before) === JSON.stringify(after) ? undefined : after;
  }
  const patch: Record<string, unknown> = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (after[name] === undefined) {
      if (before[name] !== undefined) {
        patch[name] = null;
      }
      continue;
    }
    const change = before[name] === undefined ? after[name] : mergePatch(before[name], after[name]);
    if (change !== undefined) {
      patch[name] = change;
    }
  }
  return Object.keys(patch).length > 0 ? patch : undefined;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
