// The list of devices: pages from the server, which searches and orders them; filters in the address.
import { Button, PageSection, Title, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useInfiniteQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { Link } from "react-router";

import { api } from "../api/client";
import { address } from "../api/place";
import type { Device, List } from "../api/types";
import { DEVICES, commandsFor } from "../model/commands";
import { STATES, stateOf } from "../model/states";
import { text } from "../model/text";
import { ago } from "../model/time";
import { CopyAs } from "../parts/copy-as";
import { SortedTh, WordFilter, useListFilter } from "../parts/list-filter";
import { useParameter, useSettled } from "../parts/parameters";
import { Failure, Loading, Nothing, StateLabel } from "../parts/state";

export function DevicesPage(): ReactElement {
  const filter = useListFilter();
  const [state, setState] = useParameter("state");
  const [labels] = useParameter("labels");
  const words = useSettled(filter.words.trim());
  const { sort } = filter;
  const chosen = new URLSearchParams({ limit: "500", ...(labels && { labelSelector: labels }), ...(words && { q: words }), ...(sort && { sort }) });
  const pages = useInfiniteQuery({
    queryKey: ["devices", labels, words, sort],
    queryFn: ({ pageParam, signal }) =>
      api<List<Device>>("GET", `/api/v1/devices?${chosen}${pageParam ? `&continue=${encodeURIComponent(pageParam)}` : ""}`, { signal }),
    initialPageParam: "",
    getNextPageParam: (last) => last.metadata.continue || undefined,
    placeholderData: (before) => before,
    refetchInterval: 10_000,
  });
  const loaded = pages.data?.pages.flatMap((page) => page.items) ?? [];
  const found = state ? loaded.filter((each) => stateOf(each) === state) : loaded;
  const more = pages.data?.pages.at(-1)?.metadata.remainingItemCount ?? 0;
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">{text.devices.title}</Title>
      <WordFilter filter={filter} label={text.devices.filter} />
      <ToggleGroup aria-label={text.state}>
        {STATES.map((each) => (
          <ToggleGroupItem
            key={each}
            text={text.states[each]}
            buttonId={`state-${each}`}
            isSelected={state === each}
            onChange={() => setState(state === each ? "" : each)}
          />
        ))}
      </ToggleGroup>
      {pages.isPending ? <Loading /> : pages.error ? <Failure error={pages.error} /> : null}
      {pages.data && found.length === 0 ? <Nothing title={text.devices.empty} /> : null}
      {found.length > 0 ? (
        <Table variant="compact" aria-label={text.devices.title}>
          <Thead>
            <Tr>
              <SortedTh filter={filter} by="name">{text.name}</SortedTh>
              {[text.state, text.type, text.version, text.outcome, text.device.lastSeen].map((each) => (
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
      <CopyAs commands={commandsFor({ ...DEVICES, labels, words, sort }, address())} />
    </div></PageSection>
  );
}
