import { expect, test } from "vitest";

import { stepsAt } from "./steps";

test("the steps before the present one are done, and bytes are told where they are known", () => {
  const steps = stepsAt({ phase: "send", percent: 40, bytes: 1000 });
  expect(steps.map((each) => each.standing)).toEqual(["done", "done", "current", "later"]);
  expect(steps.map((each) => Boolean(each.told))).toEqual([false, false, true, false]);
  expect(steps[2]!.told).toContain("40");
  expect(stepsAt({ phase: "verify", percent: null, bytes: null }).map((each) => each.told)).toEqual(["", "", "", ""]);
});

test("of a flash whose log tells nothing no step is made up", () => {
  expect([stepsAt(null), stepsAt(undefined), stepsAt({ phase: "brew", percent: null, bytes: null })]).toEqual([[], [], []]);
});
