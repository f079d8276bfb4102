// Search and order in a list, by the server's rule for `q` and `sort`. Pure.
import type { Obj } from "../api/types";

/** Whether each word is in the name, the namespace, a label or a text that stands directly in spec or status. */
export function has(object: Obj, query: string): boolean {
  const { name, namespace = "", labels = {} } = object.metadata;
  const texts = [object.spec, object.status].flatMap((part) => Object.values(part ?? {})).filter((each) => typeof each === "string");
  const told = [name, namespace, ...Object.entries(labels).map(([key, value]) => `${key}=${value}`), ...texts].join("\n").toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => told.includes(word));
}

function rank(object: Obj, by: string): string[] {
  const { name, namespace = "", creationTimestamp } = object.metadata;
  return by === "name" ? [name, namespace] : by === "created" ? [creationTimestamp ?? "", namespace, name] : [`${namespace}/${name}`];
}

/** The objects that a query finds, by name or by when they were created; with a minus the other way round. */
export function arranged<T extends Obj>(objects: T[], query: string, sort: string): T[] {
  const [by, turn] = sort.startsWith("-") ? [sort.slice(1), -1] : [sort, 1];
  const compared = (a: T, b: T) => {
    const [left, right] = [rank(a, by), rank(b, by)];
    const at = left.findIndex((each, index) => each !== right[index]);
    return at < 0 ? 0 : left[at]! < right[at]! ? -turn : turn;
  };
  return objects.filter((each) => has(each, query)).sort(compared);
}
