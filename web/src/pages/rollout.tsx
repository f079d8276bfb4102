// One rollout, live: what happens next and why, its batches, its devices with failures first, and what can be done.
import { Alert, PageSection, Progress, ProgressStep, ProgressStepper, Title } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { ReactElement } from "react";
import { Link, useParams } from "react-router";

import { useLive } from "../api/live";
import { address } from "../api/place";
import type { BatchStatus, FlashJob, FlashedDevice, Rollout } from "../api/types";
import { ROLLOUTS, commandsFor } from "../model/commands";
import { text } from "../model/text";
import { moment } from "../model/time";
import { CopyAs } from "../parts/copy-as";
import { RolloutActions } from "../parts/rollout-actions";
import { LiveView, Nothing, PhaseLabel } from "../parts/state";

const STEP: Record<string, "success" | "info" | "pending" | "warning" | "danger"> = {
  Passed: "success",
  Running: "info",
  Soaking: "info",
  AwaitingApproval: "warning",
  Failed: "danger",
};
const MAX_ROWS = 500;

/** The devices of a rollout's jobs: failures first, then those under way. */
export function devicesOf(jobs: FlashJob[]): FlashedDevice[] {
  const order: Record<string, number> = { Failed: 0, Flashing: 1, Waiting: 2 };
  const rank = (each: FlashedDevice) => order[each.state ?? ""] ?? 3;
  return jobs
    .flatMap((job) => job.status?.devices ?? [])
    .sort((a, b) => rank(a) - rank(b) || (a.device ?? a.uuid).localeCompare(b.device ?? b.uuid));
}

export function RolloutPage(): ReactElement {
  const { namespace = "", name = "" } = useParams();
  const live = useLive<Rollout>(`of=rollouts&namespace=${encodeURIComponent(namespace)}&name=${encodeURIComponent(name)}`);
  return (
    <PageSection><div className="ew-page">
      <LiveView live={live}>{(found) => (found[0] ? <Details rollout={found[0]} /> : <Nothing title={text.rollouts.empty} />)}</LiveView>
    </div></PageSection>
  );
}

function Details({ rollout }: { rollout: Rollout }): ReactElement {
  const { metadata, status } = rollout;
  const counts = status?.counts;
  const done = (counts?.succeeded ?? 0) + (counts?.current ?? 0);
  return (
    <div className="ew-stack">
      <Title headingLevel="h1">
        {metadata.name} <PhaseLabel phase={status?.phase ?? ""} />
      </Title>
      <Alert component="p" variant="info" isInline title={status?.message || text.rollout.next}>
        <p>
          {text.rollout.background}
          {status?.estimatedEnd ? ` ${text.rollout.end(moment(status.estimatedEnd))}.` : ""}
        </p>
      </Alert>
      {counts ? <Progress aria-label={text.progress} value={done} max={counts.total || 1} label={`${done}/${counts.total}`} valueText={`${done}/${counts.total}`} /> : null}
      <RolloutActions rollout={rollout} />
      <Batches batches={status?.batches ?? []} />
      <Outcomes outcomes={status?.outcomes ?? {}} />
      <Devices rollout={rollout} />
      <p>
        <Link to={`/kinds/rollouts/in/${metadata.namespace}/${metadata.name}`}>{text.object.edit}</Link>
      </p>
      <CopyAs
        commands={commandsFor(
          { ...ROLLOUTS, namespace: metadata.namespace, name: metadata.name },
          address(),
        )}
      />
    </div>
  );
}

function Batches({ batches }: { batches: BatchStatus[] }): ReactElement {
  return (
    <section aria-label={text.rollout.batches}>
      <Title headingLevel="h2">{text.rollout.batches}</Title>
      <ProgressStepper isVertical aria-label={text.rollout.batches}>
        {batches.map((each) => (
          <ProgressStep
            key={each.number}
            id={`batch-${each.number}`}
            titleId={`batch-${each.number}-title`}
            variant={STEP[each.phase] ?? "pending"}
            isCurrent={["Running", "Soaking", "AwaitingApproval"].includes(each.phase)}
            description={text.rollout.batch(each.phase, each.done ?? 0, each.size ?? 0, each.failed ?? 0, each.message ?? "")}
            aria-label={`${each.name}: ${each.phase}`}
          >
            {each.name}
          </ProgressStep>
        ))}
      </ProgressStepper>
    </section>
  );
}

function Outcomes({ outcomes }: { outcomes: Record<string, number> }): ReactElement | null {
  const found = Object.entries(outcomes);
  return found.length ? (
    <p>
      {text.rollout.outcomes}: {found.map(([name, count]) => `${name} × ${count}`).join(", ")}
    </p>
  ) : null;
}

function Devices({ rollout }: { rollout: Rollout }): ReactElement {
  const { namespace = "", uid = "" } = rollout.metadata;
  const labels = encodeURIComponent(`edgewright.dev/rollout-uid=${uid}`);
  const live = useLive<FlashJob>(`of=flashjobs&namespace=${encodeURIComponent(namespace)}&labelSelector=${labels}`);
  return (
    <section aria-label={text.rollout.devices}>
      <Title headingLevel="h2">{text.rollout.devices}</Title>
      <LiveView live={live}>
        {(jobs) => (
          <Table variant="compact" aria-label={text.rollout.devices}>
            <Thead>
              <Tr>
                {[text.name, text.state, text.outcome, text.attempts, text.message].map((each) => (
                  <Th key={each} modifier="fitContent">{each}</Th>
                ))}
              </Tr>
            </Thead>
            <Tbody>
              {devicesOf(jobs)
                .slice(0, MAX_ROWS)
                .map((each) => (
                  <Tr key={each.uuid}>
                    <Td dataLabel={text.name}>
                      {each.device ? <Link to={`/devices/${each.device}`}>{each.device}</Link> : each.uuid}
                    </Td>
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
        )}
      </LiveView>
    </section>
  );
}
