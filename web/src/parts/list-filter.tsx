// Search and order of a list that is whole in the page: words and a column, both in the address.
import { SearchInput } from "@patternfly/react-core";
import { Th, type ThProps } from "@patternfly/react-table";
import type { ReactElement, ReactNode } from "react";

import type { Obj } from "../api/types";
import { arranged } from "../model/search";
import { text } from "../model/text";
import { useParameter } from "./parameters";

export interface ListFilter {
  words: string;
  setWords: (next: string) => void;
  sort: string;
  setSort: (next: string) => void;
}

export function useListFilter(): ListFilter {
  const [words, setWords] = useParameter("q");
  const [sort, setSort] = useParameter("sort");
  return { words, setWords, sort, setSort };
}

/** The objects that have the words, in the order that was chosen. */
export function filtered<T extends Obj>(items: T[], { words, sort }: ListFilter): T[] {
  return arranged(items, words, sort);
}

export function WordFilter({ filter: { words, setWords }, label = text.wordFilter }: { filter: ListFilter; label?: string }): ReactElement {
  return (
    <SearchInput className="ew-narrow" aria-label={label} placeholder={label} value={words} onChange={(_, value) => setWords(value)} onClear={() => setWords("")} />
  );
}

/** The head of a column that a list can be ordered by; `by` is the server's word for it. */
export function SortedTh({ filter: { sort, setSort }, by, children }: { filter: ListFilter; by: string; children: ReactNode }): ReactElement {
  const chosen = sort === by ? "asc" : sort === `-${by}` ? "desc" : undefined;
  const order: ThProps["sort"] = {
    columnIndex: 0,
    sortBy: chosen ? { index: 0, direction: chosen } : {},
    onSort: (_, __, direction) => setSort(direction === "asc" ? by : `-${by}`),
  };
  return (
    <Th modifier="fitContent" sort={order}>
      {children}
    </Th>
  );
}
