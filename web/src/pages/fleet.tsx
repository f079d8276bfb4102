// The fleet at a glance: trouble first, versions, groups by any label, its devices where they are not too many, what waits
// for who looks at it, and the rollouts under way.
import { Card, CardBody, CardTitle, ClipboardCopy, Content, PageSection, TextInput, Title } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { Link, useSearchParams } from "react-router";

import { api } from "../api/client";
import { address } from "../api/place";
import type { FleetSummary } from "../api/types";
import { fleetCommands } from "../model/commands";
import { STATES } from "../model/states";
import { text } from "../model/text";
import { useAnnouncement } from "../parts/announcer";
import { Bar } from "../parts/bar";
import { CopyAs } from "../parts/copy-as";
import { FleetAside } from "../parts/fleet-aside";
import { FleetDevices } from "../parts/fleet-cells";
import { FleetSwitch } from "../parts/fleet-switch";
import { Failure, Loading, Nothing, StateLabel } from "../parts/state";

export function FleetPage(): ReactElement {
  const [search, setSearch] = useSearchParams();
  const groupBy = search.get("groupBy") ?? "site";
  const fleet = useQuery({
    queryKey: ["fleet", groupBy, ""],
    queryFn: () => api<FleetSummary>("GET", `/api/v1/fleet?cells=true&groupBy=${encodeURIComponent(groupBy)}`),
    refetchInterval: 5000,
    placeholderData: keepPreviousData,
  });
  const states = fleet.data ? STATES.map((state) => `${text.states[state]} ${fleet.data.states[state] ?? 0}`) : [];
  useAnnouncement("fleet", states.length ? text.fleet.heard(states) : "");
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">{text.fleet.title}</Title>
      {fleet.isPending ? <Loading /> : fleet.error && !fleet.data ? <Failure error={fleet.error} /> : null}
      {fleet.data?.total === 0 ? <NoDevices /> : null}
      {fleet.data && fleet.data.total > 0 ? (
        <div className="ew-stack">
          <Counts fleet={fleet.data} />
          <Title headingLevel="h2">{text.fleet.versions}</Title>
          <Bar counts={fleet.data.versions} label={text.fleet.versions} />
          <label htmlFor="group-by">{text.fleet.groupBy}</label>
          <TextInput
            id="group-by"
            className="ew-narrow"
            value={groupBy}
            onChange={(_, value) => setSearch(value === "site" ? {} : { groupBy: value }, { replace: true })}
          />
          <Groups fleet={fleet.data} label={groupBy} />
          <FleetDevices fleet={fleet.data} />
          <CopyAs commands={fleetCommands(groupBy, address())} />
        </div>
      ) : null}
      {fleet.data && !fleet.data.freeze ? <FleetSwitch fleet={fleet.data} /> : null}
      <FleetAside quarantined={fleet.data?.states.quarantined ?? 0} />
    </div></PageSection>
  );
}

function Counts({ fleet }: { fleet: FleetSummary }): ReactElement {
  return (
    <div className="ew-counts">
      {STATES.map((state) => (
        <Card key={state} isCompact>
          <CardTitle>
            <StateLabel state={state} />
          </CardTitle>
          <CardBody>
            <Link to={`/devices?state=${state}`} className="ew-number" aria-label={`${text.states[state]}: ${fleet.states[state] ?? 0}`}>
              {fleet.states[state] ?? 0}
            </Link>
          </CardBody>
        </Card>
      ))}
    </div>
  );
}

function Groups({ fleet, label }: { fleet: FleetSummary; label: string }): ReactElement {
  return (
    <Table variant="compact" aria-label={text.fleet.groupBy}>
      <Thead>
        <Tr>
          <Th>{text.fleet.group}</Th>
          <Th>{text.fleet.devices}</Th>
          {STATES.map((state) => (
            <Th key={state} modifier="fitContent">{text.states[state]}</Th>
          ))}
          <Th>{text.fleet.versions}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {fleet.groups.map((group) => (
          <Tr key={group.name}>
            <Td>
              {group.name.startsWith("(") ? group.name : <Link to={`/devices?labels=${encodeURIComponent(`${label}=${group.name}`)}`}>{group.name}</Link>}
            </Td>
            <Td>{group.total}</Td>
            {STATES.map((state) => (
              <Td key={state}>{group.states[state] ?? 0}</Td>
            ))}
            <Td>{Object.entries(group.versions).map(([version, count]) => `${version}: ${count}`).join(" · ")}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function NoDevices(): ReactElement {
  return (
    <Nothing title={text.fleet.empty}>
      <Content component="p">{text.fleet.emptyHow}</Content>
      {["edgewright simulate --devices 10", "edgewright devices add NAME --endpoint ADDRESS"].map((command) => (
        <ClipboardCopy key={command} isReadOnly hoverTip={text.copy} clickTip={text.copied} textAriaLabel={command}>
          {command}
        </ClipboardCopy>
      ))}
    </Nothing>
  );
}
