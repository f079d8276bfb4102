// What a list shows is in the address, so that a link means the same to everybody.
import { useEffect, useState } from "react";
import { useSearchParams } from "react-router";

/** One parameter of the address, and how it is set; empty: it is not there. */
export function useParameter(name: string): [string, (next: string) => void] {
  const [search, setSearch] = useSearchParams();
  const set = (next: string) => {
    const wanted = new URLSearchParams(search);
    if (next) {
      wanted.set(name, next);
    } else {
      wanted.delete(name);
    }
    setSearch(wanted, { replace: true });
  };
  return [search.get(name) ?? "", set];
}

const PAUSE = 300;

/** What somebody has typed, once they pause: not every letter is worth a request. */
export function useSettled<T>(typed: T): T {
  const [settled, setSettled] = useState(typed);
  useEffect(() => {
    const later = setTimeout(() => setSettled(typed), PAUSE);
    return () => clearTimeout(later);
  }, [typed]);
  return settled;
}
