import { expect, test } from "vitest";

import type { Obj } from "../api/types";
import { arranged, has } from "./search";

const object = (name: string, namespace = "default", creationTimestamp = "2026-01-01T00:00:00Z", labels = {}): Obj => ({
  apiVersion: "v1",
  kind: "Thing",
  metadata: { name, namespace, creationTimestamp, labels },
  spec: { type: "esp32", count: 7, deep: { text: "hidden" } },
  status: { version: "1.2.0" },
});

test.each([
  ["", true],
  ["thermo", true],
  ["THERMO", true],
  ["site=north", true],
  [" thermo  north 1.2 ", true],
  ["esp32 default", true],
  ["thermo south", false],
  ["hidden", false],
  ["7", false],
])("%o is found by the server's rule: %s", (query, found) => {
  expect(has(object("thermo", "default", "", { site: "north" }), query)).toBe(found);
});

test.each([
  ["", ["a/y", "b/x", "b/z"]],
  ["name", ["b/x", "a/y", "b/z"]],
  ["-name", ["b/z", "a/y", "b/x"]],
  ["created", ["b/z", "a/y", "b/x"]],
  ["-created", ["b/x", "a/y", "b/z"]],
])("the order %o is the server's", (sort, names) => {
  const objects = [object("z", "b", "2026-01-01T00:00:00Z"), object("x", "b", "2026-01-03T00:00:00Z"), object("y", "a", "2026-01-02T00:00:00Z")];
  expect(arranged(objects, "", sort).map((each) => `${each.metadata.namespace}/${each.metadata.name}`)).toEqual(names);
});
