import { expect, test } from "vitest";

import type { Plan, Problem } from "../api/types";
import { EMPTY, STEPS, draftOf, faultsOf, fieldOf, firstOf, missing, plannedSpec, rolloutOf, samplesOf, startedBy, stepOf } from "./new-rollout";

const problem = (given: Partial<Problem>): Problem => ({ type: "", title: "", status: 422, detail: "", ...given });

test("every field of the form is in one step", () => {
  const fields = STEPS.flatMap(([, each]) => each);
  expect(fields.toSorted()).toEqual(Object.keys(EMPTY).sort());
  expect(fields.map(stepOf)).toEqual(STEPS.flatMap(([step, each]) => each.map(() => step)));
});

test("what is no number goes to the server as it was written, and is not dropped", () => {
  const { batches, stop } = rolloutOf({ ...EMPTY, canary: "10%", soak: "long", stop: "many" }).spec;
  expect(batches).toEqual([{ name: "canary", size: "10%", soakSeconds: "long" }]);
  expect(stop).toEqual([{ threshold: "many", action: "pause" }]);
});

test("who is meant is asked before the firmware is written", () => {
  const blank = plannedSpec({ ...EMPTY, types: "esp32" });
  expect(blank.selector).toEqual({ types: ["esp32"] });
  expect(blank.firmware && blank.version).toBeTruthy();
  expect(plannedSpec({ ...EMPTY, firmware: "f", version: "2" })).toMatchObject({ firmware: "f", version: "2" });
});

test("what is needed and missing is known before the server is asked", () => {
  expect(missing(EMPTY)).toEqual(["name", "firmware", "version"]);
  expect(missing({ ...EMPTY, name: "n", firmware: "f", version: " " })).toEqual(["version"]);
});

test.each([
  ["#/metadata/name", "name"],
  ["#/spec/selector/types/0", "types"],
  ["#/spec/selector/labels/matchLabels/a~1b", "labels"],
  ["#/spec/batches/0/size", "canary"],
  ["#/spec/batches/0/soakSeconds", "soak"],
  ["#/spec/batches/0/gate/approval", "manual"],
  ["#/spec/stop/0/threshold", "stop"],
  ["#/spec/versions", undefined],
  ["#/spec", undefined],
])("%s is shown by %s", (pointer, field) => {
  expect(fieldOf(pointer)).toBe(field);
});

test("what the server refuses leads to the first field in the order of the form", () => {
  const errors = [
    { pointer: "#/spec/stop/0/threshold", detail: "no amount" },
    { pointer: "#/metadata/name", detail: "no name" },
    { pointer: "#/other", detail: "nowhere" },
  ];
  const faults = faultsOf(problem({ errors }));
  expect(faults).toEqual({ stop: ["no amount"], name: ["no name"] });
  expect(firstOf(faults)).toBe("name");
  expect(faultsOf(problem({ status: 409, detail: "it is taken" }))).toEqual({ name: ["it is taken"] });
  expect(firstOf(faultsOf(problem({ status: 403 })))).toBeUndefined();
});

test("a plan names a few devices and counts all", () => {
  const names = Array.from({ length: 30 }, (_, at) => `d${at}`);
  const batch = { number: 1, name: "a", soakSeconds: 0, successPercent: 90, manual: false };
  const plan = { batches: [{ ...batch, size: 30, devices: names }, { ...batch, size: 5000, devices: ["e"] }] } as Plan;
  expect(samplesOf(plan)).toEqual(names.slice(0, 20));
  expect(startedBy(plan)).toBe(5030);
});

test("a draft is kept, and what is no draft is none", () => {
  const draft = { ...EMPTY, name: "n", manual: true };
  expect(draftOf(JSON.stringify(draft))).toEqual(draft);
  expect(draftOf(JSON.stringify({ name: 7, types: "a", other: "b" }))).toEqual({ ...EMPTY, types: "a" });
  for (const kept of [null, "", "{", "null", "7"]) {
    expect(draftOf(kept)).toEqual(EMPTY);
  }
});
