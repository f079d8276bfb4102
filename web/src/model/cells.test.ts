import { expect, test } from "vitest";

import type { FleetCell, Rollout } from "../api/types";
import { grouped, moved } from "./cells";
import { awaiting } from "./waiting";

const cell = (name: string, group: string): FleetCell => ({ name, group, state: "ok", version: "1" });

test("cells stand in their groups, in the order of the groups", () => {
  const cells = [cell("a", "north"), cell("b", "south"), cell("c", "north"), cell("d", "new")];
  expect(grouped(cells, ["south", "north", "empty"]).map(([name, inside]) => [name, inside.map((each) => each.name)])).toEqual([
    ["south", ["b"]],
    ["north", ["a", "c"]],
    ["new", ["d"]],
  ]);
});

test("arrow keys move within the cells and not beyond", () => {
  expect(["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "Home", "End", "Tab"].map((key) => moved(key, 1, 5))).toEqual([2, 2, 0, 0, 0, 4, null]);
  expect([moved("ArrowRight", 4, 5), moved("ArrowLeft", 0, 5)]).toEqual([4, 0]);
});

test("what waits for somebody is an approval that they may give", () => {
  const rollout = (name: string, namespace: string, phase: string): Rollout => ({
    apiVersion: "edgewright.dev/v1alpha1",
    kind: "FirmwareRollout",
    metadata: { name, namespace },
    spec: {},
    status: { batches: [{ number: 1, name: "canary", phase }] },
  });
  const all = [rollout("a", "mine", "AwaitingApproval"), rollout("b", "theirs", "AwaitingApproval"), rollout("c", "mine", "Soaking")];
  expect(awaiting(all).map(({ rollout: { metadata }, batch }) => [metadata.name, batch])).toEqual([["a", "canary"], ["b", "canary"]]);
  expect(awaiting(all, (namespace) => namespace === "mine").map((each) => each.rollout.metadata.name)).toEqual(["a"]);
});
