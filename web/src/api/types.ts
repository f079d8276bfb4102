// What the REST API sends, as far as the page reads it.
import type { Schema } from "../model/schema";

export interface Meta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  creationTimestamp?: string;
  generation?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
}

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface Obj {
  apiVersion: string;
  kind: string;
  metadata: Meta;
  spec?: Record<string, unknown>;
  status?: Record<string, unknown>;
}

export interface List<T> {
  items: T[];
  metadata: { continue?: string; remainingItemCount?: number };
}

export interface FieldError {
  pointer: string;
  detail: string;
  code?: string;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  errors?: FieldError[];
  verb?: string;
  resource?: string;
  user?: string;
  /** With 401: where a person signs in at a provider, where there is one. */
  signIn?: string;
}

export interface Me {
  user: { name: string; groups: string[] };
  rights?: { resource: string; namespace: string; verbs: Record<string, boolean> };
  /** How a session began that can be ended; none for who gave a token. */
  session?: "link" | "oidc";
}

export interface SignedOut {
  /** Where the session at the provider is ended too. */
  provider: string;
}

export interface KindEntry {
  name: string;
  kind: string;
  apiVersion: string;
  namespaced: boolean;
  ours: boolean;
}

export interface KindSchema extends Omit<KindEntry, "ours"> {
  schema: Schema;
}

export interface Counts {
  total: number;
  succeeded: number;
  current: number;
  failed: number;
  regressed: number;
  flashing: number;
  waiting: number;
  quarantined: number;
  excluded: number;
}

export interface BatchStatus {
  number: number;
  name: string;
  phase: string;
  /** What is zero may be left out. */
  size?: number;
  done?: number;
  failed?: number;
  /** When its last device ended. */
  ended?: string;
  message?: string;
}

export interface Rollout extends Obj {
  spec: {
    firmware?: string;
    version?: string;
    paused?: boolean;
    aborted?: boolean;
    approvals?: string[];
    recall?: { name: string };
    [field: string]: unknown;
  };
  status?: {
    phase?: string;
    message?: string;
    progress?: string;
    batch?: string;
    revision?: number;
    counts?: Counts;
    outcomes?: Record<string, number>;
    batches?: BatchStatus[];
    conditions?: Condition[];
    estimatedEnd?: string;
    nextOpening?: string;
    recall?: string;
  };
}

export interface Firmware {
  reference: string;
  digest: string;
  version: string;
}

export interface Device extends Obj {
  spec: { type?: string; endpoint?: string; protocol?: string };
  status?: {
    version?: string;
    application?: string;
    lastSeen?: string;
    claim?: { job: { namespace: string; name: string }; attempt: number };
    lastFlash?: { outcome: string; message?: string; time?: string; job?: { namespace: string; name: string } };
    firmware?: Firmware;
    previousFirmware?: Firmware;
    failures?: number;
    conditions?: Condition[];
  };
}

export interface FlashedDevice {
  uuid: string;
  device?: string;
  state?: string;
  outcome?: string;
  message?: string;
  attempts?: number;
}

export interface FlashJob extends Obj {
  spec: { uuid: string[] | string; firmware: string; version: string };
  status?: { phase?: string; message?: string; devices?: FlashedDevice[]; conditions?: Condition[] };
}

export interface FleetGroup {
  name: string;
  total: number;
  states: Record<string, number>;
  versions: Record<string, number>;
}

export interface FleetCell {
  name: string;
  state: string;
  version: string;
  group: string;
}

export interface FleetSummary extends Omit<FleetGroup, "name"> {
  groups: FleetGroup[];
  freeze: { reason: string; by: string; since: string | null } | null;
  /** The devices one by one, trouble first; null where there are too many. */
  cells: FleetCell[] | null;
}

export interface Flash {
  job: string;
  outcome: string;
  message: string;
  version: string;
  before: string;
  attempts: number;
  started: string | null;
  ended: string | null;
}

export interface FlashStep {
  phase: string;
  percent: number | null;
  bytes: number | null;
}

export interface FlashLog {
  job: string;
  live: boolean;
  lines: string[];
  attempt: number;
  outcome: string;
  /** How far it is, while it is under way and its log tells. */
  step: FlashStep | null;
}

export interface Plan {
  total: number;
  batches: { number: number; name: string; size: number; devices: string[]; soakSeconds: number; successPercent: number; manual: boolean }[];
  excluded: Record<string, string>;
  excludedCount: number;
  reasons: Record<string, number>;
  current: number;
  opens: string | null;
}

export interface ObjectEvent {
  type: string;
  reason: string;
  message: string;
  count: number;
  first: string | null;
  last: string | null;
  source: string;
}

export interface ObjectEvents {
  items: ObjectEvent[];
}
