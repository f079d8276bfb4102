// The list of devices: pages from the server, filters in the address.
import { Button, PageSection, SearchInput, Title, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useInfiniteQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { Link, useSearchParams } from "react-router";

import { api } from "../api/client";
import type { Device, List } from "../api/types";
import { DEVICES, commandsFor } from "../model/commands";
import { STATES, stateOf } from "../model/states";
import { text } from "../model/text";
import { ago } from "../model/time";
import { CopyAs } from "../parts/copy-as";
import { Failure, Loading, Nothing, StateLabel } from "../parts/state";

/** Whether a device fits what is searched for. */
export function fits(device: Device, state: string, words: string): boolean {
  if (state && stateOf(device) !== state) {
    return false;
  }
  const told = `${device.metadata.name} ${device.spec.type ?? ""} ${device.status?.version ?? ""} ${device.spec.endpoint ?? ""}`;
  return told.toLowerCase().includes(words.toLowerCase());
}

export function DevicesPage(): ReactElement {
  const [search, setSearch] = useSearchParams();
  const [state, words, labels] = ["state", "q", "labels"].map((name) => search.get(name) ?? "") as [string, string, string];
  const set = (name: string, value: string) => {
    const next = new URLSearchParams(search);
    if (value) {
      next.set(name, value);
    } else {
      next.delete(name);
    }
    setSearch(next, { replace: true });
  };
  const pages = useInfiniteQuery({
    queryKey: ["devices", labels],
    queryFn: ({ pageParam }) =>
      api<List<Device>>(
        "GET",
        `/api/v1/devices?limit=500${labels ? `&labelSelector=${encodeURIComponent(labels)}` : ""}${pageParam ? `&continue=${encodeURIComponent(pageParam)}` : ""}`,
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.metadata.continue || undefined,
    refetchInterval: 10_000,
  });
  const loaded = pages.data?.pages.flatMap((page) => page.items) ?? [];
  const found = loaded.filter((each) => fits(each, state, words));
  const more = pages.data?.pages.at(-1)?.metadata.remainingItemCount ?? 0;
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">{text.devices.title}</Title>
      <SearchInput
        aria-label={text.devices.filter}
        placeholder={text.devices.filter}
        value={words}
        onChange={(_, value) => set("q", value)}
        onClear={() => set("q", "")}
      />
      <ToggleGroup aria-label={text.state}>
        {STATES.map((each) => (
          <ToggleGroupItem
            key={each}
            text={text.states[each]}
            buttonId={`state-${each}`}
            isSelected={state === each}
            onChange={() => set("state", state === each ? "" : each)}
          />
        ))}
      </ToggleGroup>
      {pages.isPending ? <Loading /> : pages.error ? <Failure error={pages.error} /> : null}
      {pages.data && found.length === 0 ? <Nothing title={text.devices.empty} /> : null}
      {found.length > 0 ? (
        <Table variant="compact" aria-label={text.devices.title}>
          <Thead>
            <Tr>
              {[text.name, text.state, text.type, text.version, text.outcome, text.device.lastSeen].map((each) => (
                <Th key={each} modifier="fitContent">{each}</Th>
              ))}
            </Tr>
          </Thead>
          <Tbody>
            {found.map((each) => (
              <Tr key={each.metadata.uid}>
                <Td dataLabel={text.name}>
                  <Link to={`/devices/${each.metadata.name}`}>{each.metadata.name}</Link>
                </Td>
                <Td dataLabel={text.state}>
                  <StateLabel state={stateOf(each)} />
                </Td>
                <Td dataLabel={text.type}>{each.spec.type}</Td>
                <Td dataLabel={text.version}>{each.status?.version}</Td>
                <Td dataLabel={text.outcome}>{each.status?.lastFlash?.outcome}</Td>
                <Td dataLabel={text.device.lastSeen}>{ago(each.status?.lastSeen, new Date())}</Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      ) : null}
      {pages.data ? <p>{text.devices.shown(found.length, more)}</p> : null}
      {pages.hasNextPage ? (
        <Button variant="secondary" isLoading={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
          {text.devices.more}
        </Button>
      ) : null}
      <CopyAs commands={commandsFor({ ...DEVICES, labels }, window.location.origin)} />
    </div></PageSection>
  );
}
