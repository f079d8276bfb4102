// JSON pointers as the server names fields, and at which field of a form an error is shown. Pure.
import type { FieldError } from "../api/types";
import { type Schema, widgetOf } from "./schema";

export type Path = (string | number)[];

/** `#/spec/labels/a~1b` of a path. */
export function pointerOf(path: Path): string {
  return `#${path.map((each) => `/${String(each).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("")}`;
}

/** The steps of a pointer. */
export function stepsOf(pointer: string): string[] {
  const steps = pointer.replace(/^#/, "").split("/").slice(1);
  return steps.map((each) => decode(each).replaceAll("~1", "/").replaceAll("~0", "~"));
}

function decode(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

export interface Placed {
  /** What is wrong by the pointer of the field that shows it. */
  fields: Record<string, string[]>;
  /** What no field can show. */
  general: FieldError[];
}

/** Puts each error at the field that the form has for it, or at the nearest one around it. */
export function placed(errors: FieldError[], schema: Schema, value: unknown): Placed {
  const found: Placed = { fields: {}, general: [] };
  for (const error of errors) {
    const steps = stepsOf(error.pointer);
    const path = nearest(steps, schema, value);
    if (path.length === 0) {
      found.general.push(error);
    } else {
      const rest = steps.slice(path.length).join(".");
      (found.fields[pointerOf(path)] ??= []).push(rest ? `${rest}: ${error.detail}` : error.detail);
    }
  }
  return found;
}

/** How far a form can follow a path: into fields of the schema, items that are there, and entries that are there. */
function nearest(steps: string[], schema: Schema, value: unknown): Path {
  const path: Path = [];
  let node = schema;
  let at = value;
  for (const step of steps) {
    const next = into(node, at, step);
    if (!next) {
      break;
    }
    node = next;
    path.push(Array.isArray(at) ? Number(step) : step);
    at = at && typeof at === "object" ? (at as Record<string, unknown>)[step] : undefined;
  }
  return path;
}

function into(schema: Schema, value: unknown, step: string): Schema | undefined {
  switch (widgetOf(schema)) {
    case "object":
      return schema.properties?.[step];
    case "list":
      return Array.isArray(value) && Number(step) < value.length ? schema.items : undefined;
    case "map":
      return value && typeof value === "object" && step in value ? (schema.additionalProperties as Schema) : undefined;
    default:
      return undefined;
  }
}

/** Whether something is wrong with a field or with anything in it. */
export function isWrong(fields: Record<string, string[]>, path: Path): boolean {
  const pointer = pointerOf(path);
  return Object.keys(fields).some((each) => each === pointer || each.startsWith(`${pointer}/`));
}

/** The errors that still count after a change: those at fields whose value is what it was. */
export function standing(fields: Record<string, string[]>, before: unknown, after: unknown): Record<string, string[]> {
  return Object.fromEntries(Object.entries(fields).filter(([pointer]) => at(before, pointer) === at(after, pointer)));
}

function at(value: unknown, pointer: string): unknown {
  return stepsOf(pointer).reduce<unknown>(
    (inner, step) => (inner && typeof inner === "object" ? (inner as Record<string, unknown>)[step] : undefined),
    value,
  );
}
