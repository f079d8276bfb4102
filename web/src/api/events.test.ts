import { expect, test } from "vitest";

import { EventParser } from "./events";
import { after } from "./live";

test("events come whole, however the stream is cut", () => {
  const stream = 'retry: 3000\n\nid: 7\nevent: added\ndata: {"a":1}\n\n: still here\n\nevent: synced\ndata: {}\n\n';
  for (let cut = 0; cut < stream.length; cut += 1) {
    const parser = new EventParser();
    const events = [...parser.push(stream.slice(0, cut)), ...parser.push(stream.slice(cut))];
    expect(events).toEqual([
      { id: "7", event: "added", data: '{"a":1}' },
      { id: "", event: "synced", data: "{}" },
    ]);
  }
});

test("objects follow the events, and a reset begins again", () => {
  const object = { apiVersion: "v1", kind: "A", metadata: { name: "a", uid: "u" } };
  const added = after(new Map(), { id: "1", event: "added", data: JSON.stringify(object) });
  expect([...added!.keys()]).toEqual(["u"]);
  expect(after(added!, { id: "2", event: "deleted", data: JSON.stringify(object) })!.size).toBe(0);
  expect(after(added!, { id: "", event: "reset", data: "{}" })).toBeNull();
});
