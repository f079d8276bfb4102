// The devices of a rollout: failures first, by outcome where one is chosen, a page at a time. Both are in the address.
import { Button, Title, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { ReactElement } from "react";
import { Link, useSearchParams } from "react-router";

import { useLive } from "../api/live";
import type { FlashJob, FlashedDevice, Rollout } from "../api/types";
import { devicesOf, outcomesOf, rowsOf } from "../model/rollout-devices";
import { text } from "../model/text";
import { LiveView } from "./state";

export function RolloutDevices({ rollout }: { rollout: Rollout }): ReactElement {
  const { namespace = "", uid = "" } = rollout.metadata;
  const labels = encodeURIComponent(`edgewright.dev/rollout-uid=${uid}`);
  const live = useLive<FlashJob>(`of=flashjobs&namespace=${encodeURIComponent(namespace)}&labelSelector=${labels}`);
  return (
    <section aria-label={text.rollout.devices} className="ew-stack">
      <Title headingLevel="h2">{text.rollout.devices}</Title>
      <LiveView live={live}>{(jobs) => <Page devices={devicesOf(jobs)} />}</LiveView>
    </section>
  );
}

function Page({ devices }: { devices: FlashedDevice[] }): ReactElement {
  const [search, setSearch] = useSearchParams();
  const outcome = search.get("outcome") ?? "";
  const { rows, page, pages, all, first } = rowsOf(devices, outcome, Number(search.get("page")));
  const show = (wanted: Record<string, string>) => setSearch(wanted, { replace: true });
  const turn = (to: number) => show({ ...(outcome ? { outcome } : {}), page: String(to) });
  const outcomes = outcomesOf(devices);
  return (
    <div className="ew-stack">
      {outcomes.length ? (
        <ToggleGroup aria-label={text.rollout.byOutcome} className="ew-outcomes">
          <ToggleGroupItem text={text.rollout.everyOutcome(devices.length)} buttonId="outcome-all" isSelected={!outcome} onChange={() => show({})} />
          {outcomes.map(([name, count]) => (
            <ToggleGroupItem
              key={name}
              text={text.rollout.ofOutcome(name, count)}
              buttonId={`outcome-${name}`}
              isSelected={outcome === name}
              onChange={() => show(outcome === name ? {} : { outcome: name })}
            />
          ))}
        </ToggleGroup>
      ) : null}
      <Rows rows={rows} />
      {pages > 1 ? (
        <div className="ew-actions">
          <p>{text.rollout.rows(first, first + rows.length - 1, all)}</p>
          <Button variant="secondary" isAriaDisabled={page === 1} onClick={() => turn(page - 1)}>
            {text.rollout.earlier}
          </Button>
          <Button variant="secondary" isAriaDisabled={page === pages} onClick={() => turn(page + 1)}>
            {text.rollout.later}
          </Button>
        </div>
      ) : null}
    </div>
  );
}

function Rows({ rows }: { rows: FlashedDevice[] }): ReactElement {
  return (
    <Table variant="compact" aria-label={text.rollout.devices}>
      <Thead>
        <Tr>
          {[text.name, text.state, text.outcome, text.attempts, text.message].map((each) => (
            <Th key={each} modifier="fitContent">{each}</Th>
          ))}
        </Tr>
      </Thead>
      <Tbody>
        {rows.map((each) => (
          <Tr key={each.uuid}>
            <Td dataLabel={text.name}>{each.device ? <Link to={`/devices/${each.device}`}>{each.device}</Link> : each.uuid}</Td>
            <Td dataLabel={text.state}>{each.state}</Td>
            <Td dataLabel={text.outcome}>{each.outcome}</Td>
            <Td dataLabel={text.attempts}>{each.attempts}</Td>
            <Td dataLabel={text.message} className="ew-wrap">
              {each.message}
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}
