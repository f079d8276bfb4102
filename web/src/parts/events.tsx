// The Events of an object, the newest first: what was done to it and what went wrong, as Kubernetes keeps it for a while.
import { Label, Title } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";

import { ProblemError, api, pathOf } from "../api/client";
import type { ObjectEvent, ObjectEvents } from "../api/types";
import { text } from "../model/text";
import { moment } from "../model/time";
import { Failure, Loading } from "./state";

const AGAIN = 10_000;

interface Props {
  resource: string;
  namespace?: string;
  name: string;
  /** What the list is called, where a page has more than one. */
  title?: string;
}

export function Events({ resource, namespace, name, title = text.events.title }: Props): ReactElement {
  const path = `${pathOf(resource, namespace, name)}/events`;
  const events = useQuery({
    queryKey: ["events", path],
    queryFn: ({ signal }) => api<ObjectEvents>("GET", path, { signal }),
    refetchInterval: AGAIN,
  });
  const found = events.data?.items ?? [];
  // A job that flashed a device may be gone since.
  const gone = events.error instanceof ProblemError && events.error.problem.status === 404 ? events.error.problem.detail : "";
  return (
    <section aria-label={title}>
      <Title headingLevel="h2">{title}</Title>
      {events.isPending ? <Loading /> : gone ? <p className="ew-wrap">{gone}</p> : events.error ? <Failure error={events.error} /> : null}
      {events.data && found.length === 0 ? <p>{text.events.none}</p> : null}
      {found.length > 0 ? <EventTable events={found} title={title} /> : null}
    </section>
  );
}

function EventTable({ events, title }: { events: ObjectEvent[]; title: string }): ReactElement {
  return (
    <Table variant="compact" aria-label={title}>
      <Thead>
        <Tr>
          {[text.time, text.type, text.events.reason, text.message, text.events.count].map((each) => (
            <Th key={each} modifier="fitContent">{each}</Th>
          ))}
        </Tr>
      </Thead>
      <Tbody>
        {events.map((each) => (
          <Tr key={`${each.first}/${each.reason}/${each.message}`}>
            <Td dataLabel={text.time}>{moment(each.last)}</Td>
            <Td dataLabel={text.type}>
              <Label isCompact status={each.type === "Warning" ? "warning" : "info"} variant="outline">
                {each.type}
              </Label>
            </Td>
            <Td dataLabel={text.events.reason} className="ew-wrap">{each.reason}</Td>
            <Td dataLabel={text.message} className="ew-wrap">{each.message}</Td>
            <Td dataLabel={text.events.count}>{each.count}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}
