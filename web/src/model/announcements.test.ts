import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { Announcements } from "./announcements";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("it speaks at most once in five seconds, and of each thing says the latest", () => {
  const heard: [number, string][] = [];
  const began = Date.now();
  const announcements = new Announcements();
  announcements.tell = (said) => heard.push([Date.now() - began, said]);
  for (let second = 0; second < 12; second += 1) {
    announcements.say("progress", `${second}/12.`);
    if (second === 1) {
      announcements.say("live", "Not live.");
    }
    vi.advanceTimersByTime(1000);
  }
  vi.advanceTimersByTime(60_000);
  expect(heard).toEqual([
    [0, "0/12."],
    [5000, "4/12. Not live."],
    [10_000, "9/12."],
    [15_000, "11/12."],
  ]);
});

test("after a silence it speaks at once", () => {
  const heard: string[] = [];
  const announcements = new Announcements();
  announcements.tell = (said) => heard.push(said);
  announcements.say("a", "one");
  vi.advanceTimersByTime(9000);
  announcements.say("a", "two");
  vi.advanceTimersByTime(0);
  expect(heard).toEqual(["one", "two"]);
});
