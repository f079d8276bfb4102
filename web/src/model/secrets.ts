// Which values of an object are secrets, and the object as it may be shown to whoever looks over a shoulder. Pure.
import { isRecord } from "./declaration";
import type { Schema } from "./schema";

/** What stands in place of a secret; its length says nothing. */
export const MASK = "••••••••";
/** The same where it is another one than before. */
export const CHANGED_MASK = `${MASK} (changed)`;

const SECRET_FIELDS = new Set(["data", "stringData"]);

/** A value with every secret in it masked: what a schema calls a password, and all that a Secret holds. The value itself
 *  where there is none. With what it was `before`, secrets that differ are told apart. */
export function masked<T>(schema: Schema | undefined, value: T, before: unknown = value): T {
  return veil(schema, value, before) as T;
}

function veil(schema: Schema | undefined, value: unknown, before: unknown): unknown {
  if (value === undefined || value === null) {
    return value;
  }
  if (schema?.format === "password") {
    return mask(value, before);
  }
  if (Array.isArray(value)) {
    const made: unknown[] = value.map((each, at) => veil(schema?.items, each, Array.isArray(before) ? before[at] : undefined));
    return made.some((each, at) => each !== value[at]) ? made : value;
  }
  if (!isRecord(value)) {
    return value;
  }
  const was = isRecord(before) ? before : {};
  const entries = Object.entries(value).map(([name, each]): [string, unknown] => [
    name,
    isSecret(value) && SECRET_FIELDS.has(name) ? maskAll(each, was[name]) : veil(inside(schema, name), each, was[name]),
  ]);
  return entries.some(([name, each]) => each !== value[name]) ? Object.fromEntries(entries) : value;
}

function mask(value: unknown, before: unknown): string {
  return before === undefined || JSON.stringify(before) === JSON.stringify(value) ? MASK : CHANGED_MASK;
}

function maskAll(value: unknown, before: unknown): unknown {
  if (!isRecord(value)) {
    return value === undefined || value === null ? value : mask(value, before);
  }
  const was = isRecord(before) ? before : {};
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, mask(each, was[name])]));
}

/** Whether it is a Secret of Kubernetes, which a kind may have embedded. */
function isSecret(value: Record<string, unknown>): boolean {
  return value.kind === "Secret" && value.apiVersion === "v1";
}

function inside(schema: Schema | undefined, name: string): Schema | undefined {
  const more = schema?.additionalProperties;
  return schema?.properties?.[name] ?? (typeof more === "object" ? more : undefined);
}
