// Which namespace a list shows: in the address, so that a link means the same to everybody; empty means all.
import { SearchInput } from "@patternfly/react-core";
import { type ReactElement, useState } from "react";

import { text } from "../model/text";
import { useParameter } from "./parameters";

export function useNamespace(): [string, (next: string) => void] {
  return useParameter("namespace");
}

/** Applied with Enter: half a name is a namespace that is not there. */
export function NamespaceFilter({ namespace, set }: { namespace: string; set: (next: string) => void }): ReactElement {
  const [draft, setDraft] = useState(namespace);
  return (
    <SearchInput
      className="ew-narrow"
      aria-label={text.namespaceFilter}
      placeholder={text.namespaceFilter}
      value={draft}
      onChange={(_, value) => setDraft(value)}
      onSearch={(_, value) => set(value.trim())}
      onClear={() => {
        setDraft("");
        set("");
      }}
    />
  );
}
