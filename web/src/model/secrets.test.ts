import { expect, test } from "vitest";

import type { Schema } from "./schema";
import { CHANGED_MASK, MASK, masked } from "./secrets";

const PASSWORD: Schema = { type: "string", format: "password" };
const SCHEMA: Schema = {
  type: "object",
  properties: {
    name: { type: "string" },
    token: PASSWORD,
    users: { type: "array", items: { type: "object", properties: { login: { type: "string" }, pin: { ...PASSWORD, type: "integer" } } } },
    keys: { type: "object", additionalProperties: PASSWORD },
    template: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
  },
};

test("what a schema calls a password is masked wherever it stands, and nothing else is", () => {
  const value = { name: "shop", token: "t0k3n", users: [{ login: "eve", pin: 1234 }], keys: { a: "x", b: "" }, other: "seen" };
  expect(masked(SCHEMA, value)).toEqual({
    name: "shop",
    token: MASK,
    users: [{ login: "eve", pin: MASK }],
    keys: { a: MASK, b: MASK },
    other: "seen",
  });
  expect(value.token).toBe("t0k3n");
});

test("all that a Secret holds is masked, also where a schema leaves its place open", () => {
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "s" }, data: { key: "aGk=" }, stringData: { word: "hi" } };
  const shown = { ...secret, data: { key: MASK }, stringData: { word: MASK } };
  expect(masked(SCHEMA, { template: secret })).toEqual({ template: shown });
  expect(masked(undefined, [secret])).toEqual([shown]);
  expect(masked(undefined, { ...secret, data: "odd", stringData: null })).toEqual({ ...secret, data: MASK, stringData: null });
  const map = { ...secret, kind: "ConfigMap" };
  expect(masked(SCHEMA, { template: map })).toEqual({ template: map });
});

test("what has no secrets is given back as it is, so that nothing is offered to be shown", () => {
  for (const value of [{ name: "shop", token: undefined, users: [{ login: "eve" }], keys: {} }, { token: null }, null, undefined, "text", 7]) {
    expect(masked(SCHEMA, value)).toBe(value);
  }
});

test("a secret that is another one than before is told apart, without a word of it", () => {
  const before = { token: "old", users: [{ pin: 1 }], keys: { a: "same" } };
  const after = { token: "new", users: [{ pin: 1 }, { pin: 2 }], keys: { a: "same", b: "added" } };
  expect(masked(SCHEMA, after, before)).toEqual({
    token: CHANGED_MASK,
    users: [{ pin: MASK }, { pin: MASK }],
    keys: { a: MASK, b: MASK },
  });
  expect(JSON.stringify(masked(SCHEMA, after, before))).not.toMatch(/old|new|added/);
});
