// The form of a new rollout: its steps, what it declares, and the field that an answer of the server is about. Pure.
import type { FieldError, Plan, Problem } from "../api/types";
import { stepsOf } from "./pointer";

export interface Draft {
  name: string;
  namespace: string;
  firmware: string;
  version: string;
  types: string;
  labels: string;
  canary: string;
  soak: string;
  manual: boolean;
  stop: string;
}

export type FieldName = keyof Draft;

export const EMPTY: Draft = {
  name: "",
  namespace: "default",
  firmware: "",
  version: "",
  types: "",
  labels: "",
  canary: "1",
  soak: "60",
  manual: false,
  stop: "1",
};

export type StepName = "who" | "what" | "how" | "wrong" | "review";

/** The steps in order, each with its fields. */
export const STEPS: [StepName, FieldName[]][] = [
  ["who", ["namespace", "types", "labels"]],
  ["what", ["name", "firmware", "version"]],
  ["how", ["canary", "soak", "manual"]],
  ["wrong", ["stop"]],
  ["review", []],
];

const NEEDED: FieldName[] = ["namespace", "name", "firmware", "version"];
/** Devices that are named as examples of those that match. */
const SAMPLES = 20;
/** Who is meant does not depend on what they get: while that is not written yet, the plan is asked with this. */
const STAND_IN = { firmware: "not.written/yet:0", version: "not written yet" };

/** The words in a list that commas part. */
export function words(list: string): string[] {
  return list.split(",").map((each) => each.trim()).filter(Boolean);
}

/** The labels of `a=b, c=d`. */
export function labelsOf(list: string): Record<string, string> {
  return Object.fromEntries(words(list).map((each) => {
    const at = each.indexOf("=");
    return at < 0 ? [each, ""] : [each.slice(0, at).trim(), each.slice(at + 1).trim()];
  }));
}

/** A whole number as one; all else as it was written, for the server to judge: a share such as 10%, or a mistake. */
function amount(written: string): number | string {
  return /^\d+$/.test(written.trim()) ? Number(written) : written.trim();
}

/** What is declared. */
export function rolloutOf(draft: Draft): { apiVersion: string; kind: string; metadata: { name: string; namespace: string }; spec: Record<string, unknown> } {
  const types = words(draft.types);
  const labels = labelsOf(draft.labels);
  const selector = {
    ...(types.length ? { types } : {}),
    ...(Object.keys(labels).length ? { labels: { matchLabels: labels } } : {}),
  };
  const canary = amount(draft.canary);
  const stop = amount(draft.stop);
  return {
    apiVersion: "edgewright.dev/v1alpha1",
    kind: "FirmwareRollout",
    metadata: { name: draft.name, namespace: draft.namespace },
    spec: {
      ...(Object.keys(selector).length ? { selector } : {}),
      firmware: draft.firmware,
      version: draft.version,
      ...(canary ? { batches: [{ name: "canary", size: canary, soakSeconds: amount(draft.soak) || 0, ...(draft.manual ? { gate: { approval: "manual" } } : {}) }] } : {}),
      ...(stop ? { stop: [{ threshold: stop, action: "pause" }] } : {}),
    },
  };
}

/** What a plan is asked with while the form is being filled in. */
export function plannedSpec(draft: Draft): Record<string, unknown> {
  const { spec } = rolloutOf(draft);
  return { ...spec, firmware: spec.firmware || STAND_IN.firmware, version: spec.version || STAND_IN.version };
}

/** The fields that have to be filled in and are not. */
export function missing(draft: Draft): FieldName[] {
  return NEEDED.filter((each) => !String(draft[each]).trim());
}

/** The step that has a field. */
export function stepOf(field: FieldName): StepName {
  return STEPS.find(([, fields]) => fields.includes(field))![0];
}

/** The field that shows what is said of a pointer; the longest beginning wins. */
const SHOWN_BY: [string, FieldName][] = [
  ["metadata/name", "name"],
  ["metadata/namespace", "namespace"],
  ["spec/firmware", "firmware"],
  ["spec/version", "version"],
  ["spec/selector/types", "types"],
  ["spec/selector", "labels"],
  ["spec/batches/0/soakSeconds", "soak"],
  ["spec/batches/0/gate", "manual"],
  ["spec/batches", "canary"],
  ["spec/stop", "stop"],
];

/** The field of the form that a pointer of the server is about. */
export function fieldOf(pointer: string): FieldName | undefined {
  const path = stepsOf(pointer).join("/");
  return SHOWN_BY.find(([begin]) => path === begin || path.startsWith(`${begin}/`))?.[1];
}

export type Faults = Partial<Record<FieldName, string[]>>;

/** What is wrong, by the field that shows it. A name that is taken is said without a pointer. */
export function faultsOf(problem: Problem): Faults {
  const taken: FieldError[] = problem.status === 409 ? [{ pointer: "#/metadata/name", detail: problem.detail }] : [];
  const found: Faults = {};
  for (const { pointer, detail } of problem.errors?.length ? problem.errors : taken) {
    const field = fieldOf(pointer);
    if (field) {
      (found[field] ??= []).push(detail);
    }
  }
  return found;
}

/** The first field that is wrong, in the order of the form. */
export function firstOf(faults: Faults): FieldName | undefined {
  return STEPS.flatMap(([, fields]) => fields).find((each) => faults[each]);
}

/** A few of the devices that a plan would flash, in the order in which they are started. */
export function samplesOf(plan: Plan): string[] {
  return plan.batches.flatMap((each) => each.devices).slice(0, SAMPLES);
}

/** How many devices a plan would start. */
export function startedBy(plan: Plan): number {
  return plan.batches.reduce((sum, each) => sum + each.size, 0);
}

/** A draft as it was kept; what cannot be read, or is of another shape, is left out. */
export function draftOf(kept: string | null): Draft {
  let found: unknown;
  try {
    found = JSON.parse(kept ?? "{}");
  } catch {
    return EMPTY;
  }
  const given = (found ?? {}) as Record<string, unknown>;
  const fitting = Object.entries(EMPTY).map(([name, empty]) => [name, typeof given[name] === typeof empty ? given[name] : empty]);
  return Object.fromEntries(fitting) as Draft;
}
