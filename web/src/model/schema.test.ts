import { expect, test } from "vitest";

import { declarable, declared, mergePatch } from "./declaration";
import { isWrong, placed, pointerOf, standing, stepsOf } from "./pointer";
import { type Schema, blankOf, choicesOf, fieldsOf, firstSentence, shown, typed, widgetOf } from "./schema";

const TEXT: Schema = { type: "string" };

test.each<[Schema, string]>([
  [TEXT, "text"],
  [{ type: ["string", "null"] }, "text"],
  [{ type: ["integer", "string"], "x-kubernetes-int-or-string": true }, "text"],
  [{ type: "integer" }, "number"],
  [{ type: "boolean" }, "check"],
  [{ type: "string", enum: ["a", null] }, "choice"],
  [{ type: "array", items: TEXT }, "list"],
  [{ items: TEXT, not: {} }, "list"],
  [{ type: "object", properties: { a: TEXT } }, "object"],
  [{ type: "object", additionalProperties: TEXT }, "map"],
  [{ type: "object", "x-kubernetes-preserve-unknown-fields": true }, "yaml"],
  [{ type: "object", properties: { a: TEXT }, "x-kubernetes-embedded-resource": true }, "yaml"],
  [{ type: ["string", "object"] }, "yaml"],
  [{}, "yaml"],
])("%j is shown as %s", (schema, widget) => {
  expect(widgetOf(schema)).toBe(widget);
});

test("typed text means what its schema takes, and what is no number is left for the server to refuse", () => {
  expect(typed({ type: "integer" }, "12")).toBe(12);
  expect(typed({ type: "integer" }, "many")).toBe("many");
  expect(typed({ type: "number" }, "1.5")).toBe(1.5);
  expect(typed({ type: ["integer", "string"] }, "33%")).toBe("33%");
  expect(typed({ type: ["integer", "string"] }, "3")).toBe(3);
  expect(typed(TEXT, "3")).toBe("3");
  expect(typed(TEXT, "")).toBeUndefined();
  expect([shown(undefined), shown(false), shown({ a: 1 })]).toEqual(["", "false", '{"a":1}']);
});

test("required fields come first, then those that are set", () => {
  const schema = { properties: { a: TEXT, b: TEXT, c: TEXT, d: TEXT }, required: ["c"] };
  expect(fieldsOf(schema, { b: "x" })).toEqual({ first: ["c", "b"], rest: ["a", "d"] });
});

test("a description is cut after its first sentence", () => {
  expect(firstSentence("How many. And more of it.")).toEqual({ text: "How many.", more: true });
  expect(firstSentence("One of: a, b")).toEqual({ text: "One of", more: true });
  expect(firstSentence("x".repeat(200)).text).toHaveLength(158);
  expect(firstSentence()).toEqual({ text: "", more: false });
});

test("a new item begins empty, or as its first choice", () => {
  expect([blankOf(TEXT), blankOf({ type: "object", properties: { a: TEXT } }), blankOf({ enum: ["x"] })]).toEqual(["", {}, "x"]);
  expect(choicesOf({ enum: ["x", null] })).toEqual(["x"]);
});

test("pointers go there and back", () => {
  expect(pointerOf(["spec", "labels", "a/b~c", 0])).toBe("#/spec/labels/a~1b~0c/0");
  expect(stepsOf("#/spec/labels/a~1b~0c/0")).toEqual(["spec", "labels", "a/b~c", "0"]);
  expect(stepsOf("#/spec/%E4")).toEqual(["spec", "%E4"]);
});

test("an error lands at its field, at the nearest one around it, or is told in general", () => {
  const schema = declarable(
    {
      properties: {
        spec: {
          type: "object",
          properties: { rows: { type: "array", items: { type: "object", properties: { n: { type: "integer" } } } }, free: { type: "object" } },
        },
        status: { type: "object" },
      },
    },
    true,
  );
  const error = (pointer: string) => ({ pointer, detail: "bad" });
  const found = placed(
    ["#/spec/rows/0/n", "#/spec/rows/7/n", "#/spec/free/deep", "#/metadata/name", "#/nothing"].map(error),
    schema,
    { spec: { rows: [{}], free: {} } },
  );
  expect(found.fields).toEqual({
    "#/spec/rows/0/n": ["bad"],
    "#/spec/rows": ["7.n: bad"],
    "#/spec/free": ["deep: bad"],
    "#/metadata/name": ["bad"],
  });
  expect(found.general).toEqual([error("#/nothing")]);
  expect(isWrong(found.fields, ["spec"])).toBe(true);
  expect(isWrong(found.fields, ["spec", "row"])).toBe(false);
});

test("an error goes once its field is changed", () => {
  const rows = [{ n: 1 }];
  const fields = { "#/spec/rows": ["bad"], "#/spec/owner": ["bad"], "#/metadata/name": ["bad"] };
  const before = { metadata: { name: "a" }, spec: { rows } };
  expect(Object.keys(standing(fields, before, { metadata: { name: "b" }, spec: { rows, owner: "x" } }))).toEqual(["#/spec/rows"]);
});

test("what the server writes is not declared", () => {
  const object = { apiVersion: "v1", kind: "A", metadata: { name: "a", uid: "1", resourceVersion: "2" }, spec: {}, status: {} };
  expect(declared(object)).toEqual({ apiVersion: "v1", kind: "A", metadata: { name: "a" }, spec: {} });
});

test("a change is the smallest merge patch, with what was taken away", () => {
  expect(mergePatch({ a: 1, b: { c: 1, d: 2 }, e: [1] }, { a: 1, b: { c: 1 }, e: [1, 2], f: null })).toEqual({ b: { d: null }, e: [1, 2], f: null });
  expect(mergePatch({ a: { b: 1 } }, { a: { b: 1 } })).toBeUndefined();
});
