// What a schema of a custom resource asks for: which widget shows a field, what it says of it, what typed text means. Pure.

export interface Schema {
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: boolean | Schema;
  enum?: unknown[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  [word: string]: unknown;
}

/** How a field is shown; `yaml` is for what no form can show. */
export type Widget = "text" | "number" | "check" | "choice" | "object" | "list" | "map" | "yaml";

const NUMBERS = new Set(["integer", "number"]);

/** The types that a value may have, null left out: an empty field is a field that is not there. */
export function typesOf(schema: Schema): string[] {
  const types = schema.type === undefined ? [] : Array.isArray(schema.type) ? schema.type : [schema.type];
  return types.filter((each) => each !== "null");
}

export function widgetOf(schema: Schema): Widget {
  const types = typesOf(schema);
  if (schema["x-kubernetes-embedded-resource"]) {
    return "yaml";
  }
  if (schema.enum?.some((each) => each !== null) && !types.some((each) => each === "object" || each === "array")) {
    return "choice";
  }
  if (types.length > 1) {
    return types.every((each) => each === "string" || NUMBERS.has(each)) ? "text" : "yaml";
  }
  const hasFields = Object.keys(schema.properties ?? {}).length > 0;
  switch (types[0]) {
    case "boolean":
      return "check";
    case "integer":
    case "number":
      return "number";
    case "string":
      return "text";
    case "array":
      return schema.items ? "list" : "yaml";
    case "object":
      return hasFields ? "object" : typeof schema.additionalProperties === "object" ? "map" : "yaml";
    default:
      // A kind that takes one or several, such as a FlashJob's uuid, says no type: the several are shown.
      return schema.items ? "list" : hasFields ? "object" : "yaml";
  }
}

/** The choices of an enum. */
export function choicesOf(schema: Schema): unknown[] {
  return (schema.enum ?? []).filter((each) => each !== null);
}

/** What typed text means for a field; nothing where it is empty. What is no number stays text: the server says so. */
export function typed(schema: Schema, text: string): unknown {
  if (text === "") {
    return undefined;
  }
  const types = typesOf(schema);
  const number = types.includes("number") ? /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/ : /^-?\d+$/;
  return types.some((each) => NUMBERS.has(each)) && number.test(text.trim()) ? Number(text) : text;
}

/** A value as it stands in a text field. */
export function shown(value: unknown): string {
  return value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** The bounds that a schema states, as numbers or texts for hints. */
export function boundsOf(schema: Schema): { least?: number; most?: number; over?: number; under?: number } {
  return { least: schema.minimum, most: schema.maximum, over: schema.exclusiveMinimum, under: schema.exclusiveMaximum };
}

/** The first sentence of a description, and whether there is more of it. */
export function firstSentence(description = ""): { text: string; more: boolean } {
  const whole = description.trim().replace(/\s+/g, " ");
  const end = /[.:](?= )/.exec(whole);
  const text = end ? whole.slice(0, end.index + (whole[end.index] === ":" ? 0 : 1)) : whole;
  const short = text.length > 160 ? `${text.slice(0, 157)}…` : text;
  return { text: short, more: short !== whole };
}

/** What a new item of a list or value of a map begins as. */
export function blankOf(schema: Schema): unknown {
  switch (widgetOf(schema)) {
    case "object":
    case "map":
      return {};
    case "list":
      return [];
    case "check":
      return false;
    case "choice":
      return choicesOf(schema)[0];
    default:
      return schema.default ?? "";
  }
}

/** The fields of an object: required ones, then those that have a value, then the rest, each as the schema has them. */
export function fieldsOf(schema: Schema, value: unknown): { first: string[]; rest: string[] } {
  const names = Object.keys(schema.properties ?? {});
  const required = names.filter((each) => schema.required?.includes(each));
  const given = value && typeof value === "object" ? (value as Record<string, unknown>) : {};
  const set = names.filter((each) => !required.includes(each) && given[each] !== undefined);
  const rest = names.filter((each) => !required.includes(each) && !set.includes(each));
  return { first: [...required, ...set], rest };
}
