import { expect, test } from "vitest";

import type { FlashJob, FlashedDevice } from "../api/types";
import { PAGE_ROWS, devicesOf, outcomesOf, rowsOf } from "./rollout-devices";

const job = (...devices: Partial<FlashedDevice>[]) => ({ status: { devices } }) as FlashJob;

test("failures come first, whichever job has them, then those under way", () => {
  const jobs = [
    job({ uuid: "1", device: "d", state: "Done" }, { uuid: "2", device: "c", state: "Waiting" }),
    job({ uuid: "3", device: "b", state: "Failed" }, { uuid: "4", device: "a", state: "Flashing" }, { uuid: "5", state: "Failed" }),
  ];
  expect(devicesOf(jobs).map((each) => each.uuid)).toEqual(["5", "3", "4", "2", "1"]);
  expect(devicesOf([{ status: {} } as FlashJob])).toEqual([]);
});

test("outcomes are counted, those of failures first", () => {
  const devices = devicesOf([
    job({ uuid: "1", state: "Done", outcome: "succeeded" }, { uuid: "2", state: "Failed", outcome: "corrupt" }),
    job({ uuid: "3", state: "Failed", outcome: "corrupt" }, { uuid: "4", state: "Waiting" }),
  ]);
  expect(outcomesOf(devices)).toEqual([["corrupt", 2], ["succeeded", 1]]);
});

test("a page has its rows, and one that is not there is the nearest", () => {
  const devices = Array.from({ length: 2 * PAGE_ROWS + 1 }, (_, at): FlashedDevice => ({ uuid: String(at), outcome: at < 3 ? "corrupt" : "succeeded" }));
  const at = (outcome: string, wanted: number) => {
    const { rows, ...rest } = rowsOf(devices, outcome, wanted);
    return { ...rest, rows: rows.length };
  };
  expect(at("", 2)).toEqual({ page: 2, pages: 3, all: 401, first: 201, rows: 200 });
  expect(at("", 9)).toEqual({ page: 3, pages: 3, all: 401, first: 401, rows: 1 });
  expect(at("", Number.NaN)).toMatchObject({ page: 1 });
  expect(at("corrupt", 2)).toEqual({ page: 1, pages: 1, all: 3, first: 1, rows: 3 });
  expect(at("none", 1)).toEqual({ page: 1, pages: 1, all: 0, first: 0, rows: 0 });
});
