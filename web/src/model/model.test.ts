import { expect, test } from "vitest";

import type { Counts, Device, Rollout } from "../api/types";
import { shares } from "../parts/bar";
import {
  DEVICES,
  ROLLOUTS,
  actionBody,
  actionCommands,
  changeCommands,
  commandsFor,
  createCommands,
  deleteCommands,
  fleetCommands,
  kindCommands,
  kubectlName,
  quoted,
  releaseCommands,
  switchCommands,
} from "./commands";
import { type Action, consequence, deletion, switching } from "./consequences";
import { diff } from "./diff";
import { EMPTY, labelsOf, rolloutOf } from "./new-rollout";
import { gauges, needed, planned, soaking } from "./rules";
import { actionsFor, phaseColour, standing, stateOf } from "./states";
import { ago } from "./time";

const device = (status: Device["status"]): Device => ({
  apiVersion: "edgewright.dev/v1alpha1",
  kind: "Device",
  metadata: { name: "a" },
  spec: {},
  status,
});

test.each([
  [{}, "ok"],
  [{ claim: { job: { namespace: "n", name: "j" }, attempt: 1 }, lastFlash: { outcome: "failed" } }, "updating"],
  [{ conditions: [{ type: "Quarantined", status: "True" }] }, "quarantined"],
  [{ lastFlash: { outcome: "refused" } }, "failed"],
  [{ lastFlash: { outcome: "already-current" } }, "ok"],
  [{ conditions: [{ type: "Stale", status: "True" }] }, "unreachable"],
])("%j is %s", (status, state) => {
  expect(stateOf(device(status))).toBe(state);
});

test("an object of any kind stands where its phase says, an edge device where its condition does", () => {
  const off = [{ type: "Ready", status: "False", reason: "Offline" }];
  const object = (kind: string, status: object) => ({ apiVersion: "v1", kind, metadata: { name: "a" }, status: status as Record<string, unknown> });
  expect(standing(object("MiniCluster", { phase: "Running", conditions: off }))).toBe("Running");
  expect(standing(object("Minimart", { conditions: [{ type: "Deployed", status: "True" }] }))).toBe("Deployed");
  expect(standing(object("EdgeDevice", { phase: "up" }))).toBe("up");
  expect(standing(object("EdgeDevice", { phase: "up", conditions: off }))).toBe("Offline");
  expect(standing(object("Stall", {}))).toBe("");
});

test("a rollout that waits for approval can be approved, one that has ended only taken back", () => {
  const rollout = (phase: string, spec: Rollout["spec"] = {}): Rollout => ({ ...ROLLOUT, spec, status: { phase } });
  expect(actionsFor(ROLLOUT)).toEqual(["approve", "pause", "abort", "recall", "undo"]);
  expect(actionsFor(rollout("Progressing", { paused: true }))).toEqual(["resume", "retry", "abort", "recall", "undo"]);
  expect(actionsFor(rollout("Completed"))).toEqual(["recall", "undo", "retry"]);
  expect(actionsFor(rollout("Aborted"))).toEqual(["recall", "undo"]);
  expect(actionsFor(rollout("Aborted", { recall: { name: "r" } }))).toEqual([]);
  expect(phaseColour("Failed")).toBe("red");
});

test("a diff keeps what is common", () => {
  const lines = diff("a\nb\nc\nd", "a\nx\nc\nd\ne");
  expect(lines.map((each) => each.sign + each.text)).toEqual([" a", "-b", "+x", " c", " d", "+e"]);
  expect(diff("a", "a")).toEqual([{ sign: " ", text: "a" }]);
});

test("a form becomes what is declared, and nothing that was left empty", () => {
  const made = rolloutOf({ ...EMPTY, name: "r", firmware: "f", version: "2", labels: "site=north, tier", manual: true });
  expect(made.spec).toEqual({
    selector: { labels: { matchLabels: { site: "north", tier: "" } } },
    firmware: "f",
    version: "2",
    batches: [{ name: "canary", size: 1, soakSeconds: 60, gate: { approval: "manual" } }],
    stop: [{ threshold: 1, action: "pause" }],
  });
  expect(rolloutOf({ ...EMPTY, canary: "0", stop: "" }).spec).toEqual({ firmware: "", version: "" });
  expect(labelsOf("")).toEqual({});
});

const ROLLOUT: Rollout = {
  apiVersion: "edgewright.dev/v1alpha1",
  kind: "FirmwareRollout",
  metadata: { name: "r", namespace: "n", uid: "u" },
  spec: { approvals: ["a"] },
  status: {
    phase: "Waiting",
    counts: { total: 9, succeeded: 1, current: 0, failed: 1, flashing: 2, waiting: 5, regressed: 0 } as Counts,
    batches: [
      { number: 1, name: "canary", phase: "AwaitingApproval", size: 1 },
      { number: 2, name: "rest", phase: "Pending", size: 8 },
    ],
  },
};

const ASKED = { reason: "", origin: "http://c", now: "now" };

test("commands can be pasted into a shell", () => {
  expect(quoted("it's")).toBe(`'it'\\''s'`);
  expect(commandsFor({ ...ROLLOUTS, namespace: "n", name: "r" }, "http://c")).toEqual({
    kubectl: "kubectl get firmwarerollouts.edgewright.dev r -o yaml -n n",
    curl: 'curl -H "Authorization: Bearer $TOKEN" http://c/api/v1/namespaces/n/rollouts/r',
    edgewright: "edgewright rollout get r -n n",
  });
  expect(commandsFor(ROLLOUTS, "http://c").edgewright).toBe("edgewright rollout list -A");
  expect(commandsFor({ ...ROLLOUTS, words: "a b", sort: "-created" }, "http://c").curl).toBe(
    `curl -H "Authorization: Bearer $TOKEN" 'http://c/api/v1/rollouts?q=a%20b&sort=-created'`,
  );
  expect(commandsFor({ ...DEVICES, labels: "site=a" }, "http://c")).toEqual({
    kubectl: "kubectl get devices.edgewright.dev -l site=a",
    curl: `curl -H "Authorization: Bearer $TOKEN" 'http://c/api/v1/devices?labelSelector=site%3Da'`,
    edgewright: "edgewright devices list -l site=a",
  });
  expect(fleetCommands("a/b", "http://c").curl).toContain("http://c/api/v1/fleet?groupBy=a%2Fb");
  expect(kindCommands("http://c").kubectl).toBe("kubectl get customresourcedefinitions");
  expect(kubectlName({ name: "stalls.market.example.com", apiVersion: "market.example.com/v1" })).toBe("stalls.market.example.com");
});

test("lists of edge devices, workloads and mini-clusters have a command of ours too", () => {
  const ours = (resource: string, given: object) => commandsFor({ resource, kubectl: resource, namespaced: true, ...given }, "http://c").edgewright;
  expect(ours("edgedevices", { labels: "a=b" })).toBe("edgewright edge devices -l a=b");
  expect(ours("edgedevices", { namespace: "n", name: "d" })).toBe("edgewright edge show d -n n");
  expect(ours("edgeworkloads", { namespace: "n" })).toBe("edgewright edge workloads -n n");
  expect(ours("edgeworkloads", { namespace: "n", name: "w" })).toBe("edgewright edge workloads w -n n");
  expect(ours("miniclusters", {})).toBe("edgewright flux list -A");
  expect(ours("miniclusters", { namespace: "n", name: "m" })).toBeUndefined();
});

test("a device is released from quarantine as the command line does it", () => {
  const conditions = [{ type: "Quarantined", status: "True" }, { type: "Stale", status: "False" }];
  expect(releaseCommands(device({ conditions }), "new cable", "http://c")).toEqual({
    edgewright: "edgewright devices release a",
    kubectl: `kubectl patch devices.edgewright.dev a --subresource status --type merge -p '{"status":{"conditions":[{"type":"Stale","status":"False"}],"failures":0}}'`,
    curl: `curl -X POST -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{"reason":"new cable"}' http://c/api/v1/devices/a/release`,
  });
});

test("a batch tells how many must succeed and how long it is watched", () => {
  const batches = [{ name: "canary", soakSeconds: 60, gate: { successPercent: 95 } }, { name: "rest" }];
  const rollout: Rollout = { ...ROLLOUT, spec: { batches } };
  const batch = { number: 1, name: "canary", phase: "Soaking", size: 10, ended: "2026-11-02T12:00:00Z" };
  expect(needed(batch, rollout)).toBe(10);
  expect(needed({ ...batch, name: "rest" }, rollout)).toBe(9);
  expect(needed({ ...batch, name: "batch 1" }, rollout)).toBeNull();
  const at = (time: string) => new Date(`2026-11-02T${time}Z`);
  expect(soaking(batch, rollout, at("12:00:10.5"))).toBe(50);
  expect(soaking(batch, rollout, at("12:05:00"))).toBe(0);
  expect(soaking({ ...batch, phase: "Passed" }, rollout, at("12:00:10"))).toBeNull();
});

test("a batch tells how many its size means of the devices that there are now", () => {
  const of = (size: number | string | undefined, phase = "Running") =>
    planned({ number: 1, name: "canary", phase }, { ...ROLLOUT, spec: { batches: [{ name: "canary", size }] } });
  expect([of(2), of("25%"), of(undefined), of(2, "Planned")]).toEqual([2, 3, null, null]);
});

test("rules that stop a rollout tell how far they are", () => {
  const stop = [{ threshold: 5, action: "pause" }, { outcomes: ["reverted"], threshold: "20%", minSample: 10, action: "recall" }];
  const rollout: Rollout = { ...ROLLOUT, spec: { stop }, status: { outcomes: { succeeded: 4, reverted: 1, refused: 1 } } };
  expect(gauges(rollout).map(({ counted, limit }) => [counted, limit])).toEqual([[2, 5], [1, 2]]);
  expect(gauges({ ...rollout, spec: { stop, resumeRequest: "now" } })).toEqual([]);
  expect(gauges({ ...rollout, spec: {} })).toEqual([]);
});

test.each<[Action, string]>([
  ["pause", '{"spec":{"paused":true}}'],
  ["abort", '{"spec":{"aborted":true}}'],
  ["approve", '{"spec":{"approvals":["a","canary"]}}'],
  ["resume", '{"spec":{"paused":null,"resumeRequest":"now"}}'],
  ["retry", '{"spec":{"paused":null,"resumeRequest":"now","retryRequest":"now"}}'],
])("%s as kubectl is the patch that the server makes", (action, patch) => {
  const found = actionCommands(action, ROLLOUT, ASKED);
  expect(found.kubectl).toBe(`kubectl patch firmwarerollouts.edgewright.dev r -n n --type merge -p '${patch}'`);
  expect(found.edgewright).toContain(`edgewright rollout ${action} r -n n`);
});

test("an action names the batch and the revision that were seen", () => {
  const seen = { ...ROLLOUT, status: { ...ROLLOUT.status, revision: 3 } };
  expect(actionBody("approve", seen, "good")).toEqual({ batch: "canary", revision: 3, reason: "good" });
  expect(actionBody("abort", seen, "")).toEqual({ revision: 3 });
  expect(actionBody("pause", { ...ROLLOUT, status: {} }, "")).toEqual({});
  expect(actionCommands("approve", seen, ASKED).curl).toContain(`-d '{"batch":"canary","revision":3}'`);
});

test("a recall of a rollout under way aborts it first", () => {
  const found = actionCommands("recall", ROLLOUT, { ...ASKED, reason: "it's bad" });
  expect(found.kubectl).toMatch(/^kubectl patch .*aborted.* &&\nkubectl create -n n -f - <<'EOF'\n/);
  expect(found.curl).toContain(`-d '{"reason":"it'\\''s bad"}' http://c/api/v1/namespaces/n/rollouts/r/recall`);
});

test("an undo makes what the server says, and has no patch to copy before that", () => {
  expect(Object.keys(actionCommands("undo", ROLLOUT, ASKED))).toEqual(["curl", "edgewright"]);
  const undoing = { ...ROLLOUT, metadata: { name: "r-undo", uid: "none" }, spec: { version: "1" } };
  const found = actionCommands("undo", ROLLOUT, { ...ASKED, undoing });
  expect(found.kubectl).toMatch(/^kubectl patch .*aborted.* &&\nkubectl create -n n -f - <<'EOF'\n/);
  expect(found.kubectl).toContain("  name: r-undo\nspec:\n  version: \"1\"\nEOF");
  expect(found.edgewright).toBe("edgewright rollout undo r -n n --yes");
});

test("the fleet is frozen by a command too, and told in numbers", () => {
  const fleet = { total: 9, states: { updating: 2, ok: 7 }, versions: {}, groups: [], freeze: null, cells: null };
  expect(switching("freeze", fleet)).toBe("2 finish, 7 are not started by any job or rollout until it is unfrozen.");
  expect(switching("unfreeze", { ...fleet, total: 3 })).toBe("1 device may be started again by jobs and rollouts.");
  const found = switchCommands("freeze", "a holiday", "http://c");
  expect(found.kubectl).toMatch(/^kubectl apply --server-side .*\n.*\nkind: Fleet\n[^]*frozen: true\n {2}reason: a holiday\n/);
  expect(found.curl).toContain(`-d '{"reason":"a holiday"}' http://c/api/v1/fleet/freeze`);
  expect(found.edgewright).toBe("edgewright freeze --reason 'a holiday'");
  expect(switchCommands("unfreeze", "", "http://c").edgewright).toBe("edgewright unfreeze");
});

test("an object is made, changed and deleted by commands too", () => {
  const subject = { resource: "rollouts", kubectl: "firmwarerollouts.edgewright.dev", namespaced: true, namespace: "n", name: "r" };
  expect(createCommands(subject, ROLLOUT, "http://c").curl).toMatch(/^curl -X POST .* http:\/\/c\/api\/v1\/namespaces\/n\/rollouts$/);
  expect(createCommands(subject, ROLLOUT, "http://c").edgewright).toMatch(/^edgewright rollout create -f - <<'EOF'\n/);
  expect(createCommands({ ...subject, resource: "flashjobs" }, ROLLOUT, "http://c").edgewright).toBeUndefined();
  expect(changeCommands(subject, { a: 1 }, "http://c").kubectl).toContain(`--type merge -p '{"a":1}'`);
  expect(deleteCommands(subject, "http://c").edgewright).toBe("edgewright rollout delete r -n n --yes");
});

test("what an action does is said in numbers", () => {
  expect(consequence("abort", ROLLOUT)).toBe("2 finish, 5 will not start. This is for good.");
  expect(consequence("retry", ROLLOUT)).toBe("1 failed device is tried once more.");
  expect(consequence("approve", ROLLOUT)).toBe("After canary comes rest: 8 devices.");
  expect(consequence("resume", ROLLOUT)).toContain("5 devices may start");
  expect(consequence("undo", ROLLOUT)).toBe("2 finish, 5 will not start. This is for good.");
  expect(consequence("recall", { ...ROLLOUT, status: { phase: "Completed" } })).toBe("");
  expect(deletion(ROLLOUT)[0]).toBe("2 devices are being flashed, 5 will not start.");
  expect(deletion({ ...ROLLOUT, kind: "Other", metadata: { name: "o", finalizers: ["f"] } })[0]).toBe("It goes once 1 finalizer is done.");
});

test("what is too much for a bar is added up, and ages are short", () => {
  const many = Object.fromEntries([..."abcdefghij"].map((name, at) => [name, 10 - at]));
  expect(shares(many).at(-1)).toEqual(["…", 6]);
  expect(ago("2026-01-01T00:00:00Z", new Date("2026-01-03T01:00:00Z"))).toBe("2d");
  expect(ago(null, new Date())).toBe("");
});
