// The same thing as a command, for people who go on in a terminal: lists, objects, actions and changes. Pure.
import { stringify } from "yaml";

import type { Device, Obj, Rollout } from "../api/types";
import { type Action, type Switch, hasEnded, isDangerous } from "./consequences";

export type Commands = Record<string, string>;

export interface Subject {
  resource: string;
  /** The name that kubectl knows it by: plural and group. */
  kubectl: string;
  /** Whether the kind is in namespaces. */
  namespaced: boolean;
  namespace?: string;
  name?: string;
  /** Only objects with these labels. */
  labels?: string;
  /** Only objects that have these words, and in which order: the console's own, of which kubectl knows nothing. */
  words?: string;
  sort?: string;
}

export const ROLLOUTS = { resource: "rollouts", kubectl: "firmwarerollouts.edgewright.dev", namespaced: true };
export const DEVICES = { resource: "devices", kubectl: "devices.edgewright.dev", namespaced: false };

const AUTHORIZED = `-H "Authorization: Bearer $TOKEN"`;
const JSON_BODY = `-H 'Content-Type: application/json'`;

/** What kubectl calls a kind: plural and group. */
export function kubectlName({ name, apiVersion = "" }: { name: string; apiVersion?: string }): string {
  const group = apiVersion.split("/")[0] ?? "";
  const plural = name === ROLLOUTS.resource ? "firmwarerollouts" : name.split(".")[0]!;
  return group ? `${plural}.${group}` : plural;
}

/** A word that a shell takes as one. */
export function quoted(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** How to read it with kubectl, curl and, for kinds of ours, edgewright. */
export function commandsFor(subject: Subject, origin: string): Commands {
  const { resource, kubectl, name, labels, words, sort } = subject;
  const where = scope(subject);
  const chosen = labels && !name ? ` -l ${quoted(labels)}` : "";
  const asked = Object.entries(name ? {} : { labelSelector: labels, q: words, sort }).filter(([, value]) => value);
  const query = asked.map(([key, value], at) => `${at ? "&" : "?"}${key}=${encodeURIComponent(value!)}`).join("");
  const found: Commands = {
    kubectl: `kubectl get ${kubectl}${name ? ` ${quoted(name)} -o yaml` : ""}${where}${chosen}`,
    curl: `curl ${AUTHORIZED} ${quoted(origin + path(subject) + query)}`,
  };
  const own = {
    rollouts: `${name ? `rollout get ${quoted(name)}` : "rollout list"}${where}`,
    devices: name ? `devices show ${quoted(name)}` : `devices list${chosen}`,
    // These look in one namespace: without one, in the context's.
    edgedevices: `${name ? `edge show ${quoted(name)}` : "edge devices"}${inside(subject)}${chosen}`,
    edgeworkloads: `edge workloads${name ? ` ${quoted(name)}` : ""}${inside(subject)}${chosen}`,
    miniclusters: name ? "" : `flux list${where}${chosen}`,
  };
  const command = own[resource as keyof typeof own];
  return command ? { ...found, edgewright: `edgewright ${command}` } : found;
}

/** To end the quarantine of a device: a change of its status, as `edgewright devices release` makes it. */
export function releaseCommands({ metadata, status }: Device, reason: string, origin: string): Commands {
  const conditions = (status?.conditions ?? []).filter((each) => each.type !== "Quarantined");
  const patch = quoted(JSON.stringify({ status: { conditions, failures: 0 } }));
  return {
    edgewright: `edgewright devices release ${quoted(metadata.name)}`,
    kubectl: `kubectl patch ${DEVICES.kubectl} ${quoted(metadata.name)} --subresource status --type merge -p ${patch}`,
    curl: `curl -X POST ${AUTHORIZED} ${JSON_BODY} -d ${quoted(JSON.stringify(reason ? { reason } : {}))} ${quoted(`${origin}${path({ ...DEVICES, name: metadata.name })}/release`)}`,
  };
}

/** The fleet, counted by a label. */
export function fleetCommands(groupBy: string, origin: string): Commands {
  return {
    kubectl: `kubectl get ${DEVICES.kubectl} -L ${quoted(groupBy)}`,
    curl: `curl ${AUTHORIZED} ${quoted(`${origin}/api/v1/fleet?groupBy=${encodeURIComponent(groupBy)}`)}`,
    edgewright: "edgewright devices list",
  };
}

/** The switch of the whole fleet, turned as the server does it. */
export function switchCommands(action: Switch, reason: string, origin: string): Commands {
  const frozen = action === "freeze";
  const fleet = { apiVersion: "edgewright.dev/v1alpha1", kind: "Fleet", metadata: { name: "fleet" }, spec: { frozen, reason: frozen ? reason : "", by: "" } };
  return {
    kubectl: `kubectl apply --server-side --force-conflicts --field-manager edgewright-freeze -f - <<'EOF'\n${stringify(fleet)}EOF`,
    curl: `curl -X POST ${AUTHORIZED} ${JSON_BODY} -d ${quoted(JSON.stringify(reason ? { reason } : {}))} ${quoted(`${origin}/api/v1/fleet/${action}`)}`,
    edgewright: `edgewright ${action}${frozen ? ` --reason ${quoted(reason)}` : ""}`,
  };
}

/** Which kinds are installed. */
export function kindCommands(origin: string): Commands {
  return { kubectl: "kubectl get customresourcedefinitions", curl: `curl ${AUTHORIZED} ${quoted(`${origin}/api/v1/kinds`)}` };
}

interface Asked {
  reason: string;
  origin: string;
  /** Makes a request that was never there before. */
  now: string;
  /** The rollout that an undo would make, once the server has said so. */
  undoing?: Rollout;
}

/** An action on a rollout. */
export function actionCommands(action: Action, rollout: Rollout, { reason, origin, now, undoing }: Asked): Commands {
  const { namespace = "", name } = rollout.metadata;
  const subject = { ...ROLLOUTS, namespace, name };
  const yes = isDangerous(action) ? " --yes" : "";
  return {
    ...(action === "undo" && !undoing ? {} : { kubectl: kubectlAction(action, rollout, now, undoing) }),
    curl: `curl -X POST ${AUTHORIZED} ${JSON_BODY} -d ${quoted(JSON.stringify(actionBody(action, rollout, reason)))} ${quoted(`${origin}${path(subject)}/${action}`)}`,
    edgewright: `edgewright rollout ${action} ${quoted(name)} -n ${quoted(namespace)}${yes}`,
  };
}

/** What goes with an action: which batch and revision were seen, so that what somebody else did meanwhile is not done
 *  twice, nor to another rollout than the one that was looked at. */
export function actionBody(action: Action, rollout: Rollout, reason: string): Record<string, unknown> {
  const revision = rollout.status?.revision;
  return {
    ...(action === "approve" ? { batch: awaited(rollout) } : {}),
    ...(revision ? { revision } : {}),
    ...(reason ? { reason } : {}),
  };
}

function kubectlAction(action: Action, rollout: Rollout, now: string, undoing?: Rollout): string {
  const { namespace, name, uid } = rollout.metadata;
  if (action === "recall") {
    return takeBack(rollout, `${name}-recall`, { recall: { name, uid } });
  }
  if (undoing) {
    return takeBack(rollout, undoing.metadata.name, undoing.spec);
  }
  return patchCommand({ ...ROLLOUTS, namespace, name }, { spec: specOf(action, rollout, now) });
}

function awaited(rollout: Rollout): string {
  return rollout.status?.batches?.find((each) => each.phase === "AwaitingApproval")?.name ?? "";
}

/** What an action changes in the spec: the same as the server does. */
function specOf(action: Action, rollout: Rollout, now: string): Record<string, unknown> {
  switch (action) {
    case "pause":
      return { paused: true };
    case "resume":
      return { paused: null, resumeRequest: now };
    case "retry":
      return { paused: null, resumeRequest: now, retryRequest: now };
    case "approve":
      return { approvals: [...(rollout.spec.approvals ?? []), awaited(rollout)] };
    default:
      return { aborted: true };
  }
}

/** Makes a rollout that takes devices back, after another one was ended. */
function takeBack(rollout: Rollout, as: string, spec: object): string {
  const { namespace = "", name } = rollout.metadata;
  const made = { apiVersion: rollout.apiVersion, kind: rollout.kind, metadata: { name: as }, spec };
  const create = `kubectl create -n ${quoted(namespace)} -f - <<'EOF'\n${stringify(made)}EOF`;
  return hasEnded(rollout)
    ? create
    : `${patchCommand({ ...ROLLOUTS, namespace, name }, { spec: { aborted: true } })} &&\n${create}`;
}

/** To make an object. */
export function createCommands(subject: Subject, object: Obj, origin: string): Commands {
  const namespace = subject.namespaced ? object.metadata.namespace : undefined;
  const manifest = `-f - <<'EOF'\n${stringify(object)}EOF`;
  const found: Commands = {
    kubectl: `kubectl create ${manifest}`,
    curl: `curl -X POST ${AUTHORIZED} ${JSON_BODY} -d ${quoted(JSON.stringify(object))} ${quoted(origin + path({ ...subject, namespace, name: undefined }))}`,
  };
  return subject.resource === "rollouts" ? { ...found, edgewright: `edgewright rollout create ${manifest}` } : found;
}

/** To change an object by a merge patch. */
export function changeCommands(subject: Subject, patch: unknown, origin: string): Commands {
  return {
    kubectl: patchCommand(subject, patch),
    curl: `curl -X PATCH ${AUTHORIZED} -H 'Content-Type: application/merge-patch+json' -d ${quoted(JSON.stringify(patch))} ${quoted(origin + path(subject))}`,
  };
}

/** To delete an object. */
export function deleteCommands(subject: Subject, origin: string): Commands {
  const name = quoted(subject.name ?? "");
  const found: Commands = {
    kubectl: `kubectl delete ${subject.kubectl} ${name}${scope(subject)}`,
    curl: `curl -X DELETE ${AUTHORIZED} ${quoted(origin + path(subject))}`,
  };
  return subject.resource === "rollouts" ? { ...found, edgewright: `edgewright rollout delete ${name}${scope(subject)} --yes` } : found;
}

function patchCommand(subject: Subject, patch: unknown): string {
  return `kubectl patch ${subject.kubectl} ${quoted(subject.name ?? "")}${scope(subject)} --type merge -p ${quoted(JSON.stringify(patch))}`;
}

function inside({ namespace }: Subject): string {
  return namespace ? ` -n ${quoted(namespace)}` : "";
}

function scope({ namespaced, namespace, name }: Subject): string {
  return namespace ? ` -n ${quoted(namespace)}` : namespaced && !name ? " -A" : "";
}

function path({ resource, namespace, name }: Subject): string {
  return `/api/v1${namespace ? `/namespaces/${namespace}` : ""}/${resource}${name ? `/${name}` : ""}`;
}
