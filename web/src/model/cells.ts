// The devices of a fleet that is small enough to be looked at one by one: grouped, and where the arrow keys lead. Pure.
import type { FleetCell } from "../api/types";

/** Up to so many devices are rows; more are cells. */
export const FEW = 10;

/** The cells by their group, in the order of the groups that are given; a group without a cell is left out. */
export function grouped(cells: FleetCell[], groups: string[]): [string, FleetCell[]][] {
  const found = new Map<string, FleetCell[]>(groups.map((each) => [each, []]));
  for (const cell of cells) {
    const group = found.get(cell.group) ?? [];
    group.push(cell);
    found.set(cell.group, group);
  }
  return [...found].filter(([, inside]) => inside.length > 0);
}

/** Where a key leads from one of so many cells; null: it is not one that moves. */
export function moved(key: string, at: number, count: number): number | null {
  switch (key) {
    case "ArrowRight":
    case "ArrowDown":
      return Math.min(at + 1, count - 1);
    case "ArrowLeft":
    case "ArrowUp":
      return Math.max(at - 1, 0);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}
