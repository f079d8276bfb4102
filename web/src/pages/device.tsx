// One device: what it runs and how that is known, what was done to it, and its YAML.
import {
  Alert,
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
  PageSection,
  Title,
} from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import type { ReactElement, ReactNode } from "react";
import { useParams } from "react-router";
import { stringify } from "yaml";

import { api, pathOf } from "../api/client";
import { useLive } from "../api/live";
import { address } from "../api/place";
import type { Device, Flash } from "../api/types";
import { DEVICES, commandsFor } from "../model/commands";
import { stateOf } from "../model/states";
import { text } from "../model/text";
import { ago, moment } from "../model/time";
import { useAnnouncement } from "../parts/announcer";
import { CopyAs } from "../parts/copy-as";
import { Events } from "../parts/events";
import { FlashLogView } from "../parts/flash-log";
import { FlashNow } from "../parts/flash-now";
import { Quarantine } from "../parts/quarantine";
import { GuardedLink, useRights } from "../parts/rights";
import { Failure, LiveView, Loading, Nothing, StateLabel } from "../parts/state";

export function DevicePage(): ReactElement {
  const { name = "" } = useParams();
  const live = useLive<Device>(`of=devices&name=${encodeURIComponent(name)}`);
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">{name}</Title>
      <LiveView live={live}>{(found) => (found[0] ? <Details device={found[0]} /> : <Nothing title={text.device.missing(name)} />)}</LiveView>
    </div></PageSection>
  );
}

function Details({ device }: { device: Device }): ReactElement {
  const { spec, status } = device;
  const name = device.metadata.name;
  const state = stateOf(device);
  const flash = status?.claim?.job ?? status?.lastFlash?.job;
  useAnnouncement(name, text.device.heard(name, text.states[state] ?? state));
  const rows: [string, ReactNode][] = [
    [text.state, <StateLabel key="state" state={state} />],
    [text.device.proven, proven(device) || "–"],
    [text.device.says, status?.version ?? "–"],
    [text.device.type, spec.type || "–"],
    [text.device.endpoint, spec.endpoint || "–"],
    [text.device.lastSeen, ago(status?.lastSeen, new Date()) || "–"],
  ];
  if (status?.claim) {
    rows.push([text.device.job, `${status.claim.job.namespace}/${status.claim.job.name}`]);
  }
  return (
    <div className="ew-stack">
      <DescriptionList isHorizontal>
        {rows.map(([term, told]) => (
          <DescriptionListGroup key={term}>
            <DescriptionListTerm>{term}</DescriptionListTerm>
            <DescriptionListDescription>{told}</DescriptionListDescription>
          </DescriptionListGroup>
        ))}
      </DescriptionList>
      <Why device={device} />
      <Quarantine device={device} />
      {status?.claim ? <FlashNow device={device} /> : null}
      <FlashLinks device={device} />
      <History device={device} />
      <FlashLogView device={device} />
      <Events resource="devices" name={name} />
      {flash ? <Events resource="flashjobs" namespace={flash.namespace} name={flash.name} title={text.events.ofFlash(`${flash.namespace}/${flash.name}`)} /> : null}
      <Title headingLevel="h2">{text.device.yaml}</Title>
      <pre className="ew-diff">{stringify(device)}</pre>
      <CopyAs
        commands={commandsFor(
          { ...DEVICES, name: device.metadata.name },
          address(),
        )}
      />
    </div>
  );
}

/** What it is proven to run and, where that was its latest flash, by which job and when. */
export function proven({ status }: Device): string {
  const { firmware, lastFlash } = status ?? {};
  if (!firmware) {
    return "";
  }
  const job = lastFlash?.outcome === "succeeded" && lastFlash.job ? `${lastFlash.job.namespace}/${lastFlash.job.name}` : "";
  return text.device.provenBy(firmware.version, firmware.reference, job, moment(lastFlash?.time));
}

/** The ways to flash it: with anything, or with what it ran before. */
function FlashLinks({ device }: { device: Device }): ReactElement {
  const rights = useRights("flashjobs", "default");
  const form = `/kinds/flashjobs/create?device=${encodeURIComponent(device.metadata.name)}`;
  const before = device.status?.previousFirmware;
  return (
    <div className="ew-actions">
      <GuardedLink variant="secondary" to={form} why={rights.why("create")}>
        {text.device.flash}
      </GuardedLink>
      {before?.reference ? (
        <GuardedLink variant="secondary" to={`${form}&firmware=${encodeURIComponent(before.reference)}&version=${encodeURIComponent(before.version)}`} why={rights.why("create")}>
          {text.device.back(before.version)}
        </GuardedLink>
      ) : null}
    </div>
  );
}

/** Why it is not updated, and what would change that: the server's one sentence. */
function Why({ device }: { device: Device }): ReactElement {
  const name = device.metadata.name;
  const why = useQuery({
    queryKey: ["why", name, device.metadata.resourceVersion],
    queryFn: () => api<{ sentence: string }>("GET", `${pathOf("devices", undefined, name)}/why`),
    placeholderData: (before) => before,
    refetchInterval: 10_000,
  });
  if (why.error) {
    return <Failure error={why.error} />;
  }
  return <Alert component="p" variant="info" isInline title={why.data?.sentence ?? text.loading} />;
}

function History({ device }: { device: Device }): ReactElement {
  const name = device.metadata.name;
  const history = useQuery({
    queryKey: ["history", name, device.metadata.resourceVersion],
    queryFn: () => api<{ flashes: Flash[] }>("GET", `${pathOf("devices", undefined, name)}/history`),
    placeholderData: (before) => before,
  });
  return (
    <section aria-label={text.device.history}>
      <Title headingLevel="h2">{text.device.history}</Title>
      {history.isPending ? <Loading /> : history.error ? <Failure error={history.error} /> : null}
      {history.data?.flashes.length === 0 ? <p>{text.device.none}</p> : null}
      {history.data?.flashes.length ? (
        <Table variant="compact" aria-label={text.device.history}>
          <Thead>
            <Tr>
              {[text.time, text.outcome, text.version, text.attempts, text.message].map((each) => (
                <Th key={each} modifier="fitContent">{each}</Th>
              ))}
            </Tr>
          </Thead>
          <Tbody>
            {history.data.flashes.map((each) => (
              <Tr key={each.job + (each.ended ?? "")}>
                <Td>{moment(each.ended)}</Td>
                <Td>{each.outcome}</Td>
                <Td>{each.before ? `${each.before} → ${each.version}` : each.version}</Td>
                <Td>{each.attempts}</Td>
                <Td className="ew-wrap">{each.message}</Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      ) : null}
    </section>
  );
}
