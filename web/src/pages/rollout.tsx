// One rollout, live: what happens next and why, its batches, its devices with failures first, and what can be done.
import { Alert, PageSection, Progress, ProgressStep, ProgressStepper, Title } from "@patternfly/react-core";
import { type ReactElement, useEffect, useState } from "react";
import { Link, useParams } from "react-router";

import { useLive } from "../api/live";
import { address } from "../api/place";
import type { BatchStatus, Rollout } from "../api/types";
import { ROLLOUTS, commandsFor } from "../model/commands";
import { gauges, needed, planned, soaking } from "../model/rules";
import { text } from "../model/text";
import { moment } from "../model/time";
import { useAnnouncement } from "../parts/announcer";
import { CopyAs } from "../parts/copy-as";
import { RolloutActions } from "../parts/rollout-actions";
import { RolloutDevices } from "../parts/rollout-devices";
import { LiveView, Nothing, PhaseLabel } from "../parts/state";

const STEP: Record<string, "success" | "info" | "pending" | "warning" | "danger"> = {
  Passed: "success",
  Running: "info",
  Soaking: "info",
  AwaitingApproval: "warning",
  Failed: "danger",
};

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
  useAnnouncement(metadata.name, text.rollout.heard(metadata.name, status?.phase || text.rollout.pending, status?.progress ?? ""));
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
      <Batches rollout={rollout} />
      <Stops rollout={rollout} />
      <Outcomes outcomes={status?.outcomes ?? {}} />
      <RolloutDevices rollout={rollout} />
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

/** The time, every second while something is counted down by it. */
function useNow(counts: boolean): Date {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    if (!counts) {
      return;
    }
    const timer = setInterval(() => setNow(new Date()), 1000);
    return () => clearInterval(timer);
  }, [counts]);
  return now;
}

function Batches({ rollout }: { rollout: Rollout }): ReactElement {
  const batches = rollout.status?.batches ?? [];
  const now = useNow(batches.some((each) => each.phase === "Soaking"));
  const told = (each: BatchStatus) => {
    const [meant, size] = [planned(each, rollout), each.size ?? 0];
    const stands = text.rollout.batch(each.phase, each.done ?? 0, size, each.failed ?? 0, needed(each, rollout), soaking(each, rollout, now), each.message ?? "");
    return meant === null ? stands : text.rollout.planned(stands, meant, size);
  };
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
            description={told(each)}
            aria-label={`${each.name}: ${each.phase}`}
          >
            {each.name}
          </ProgressStep>
        ))}
      </ProgressStepper>
    </section>
  );
}

/** The rules that stop it, each with how far it is from that. */
function Stops({ rollout }: { rollout: Rollout }): ReactElement | null {
  const found = gauges(rollout);
  return found.length ? (
    <section aria-label={text.rollout.stops}>
      <Title headingLevel="h2">{text.rollout.stops}</Title>
      {found.map(({ rule, counted, limit }, at) => {
        const told = text.rollout.stop(text.actions[rule.action], rule.outcomes?.join(", ") ?? "", counted, limit);
        return <Progress key={at} title={told} aria-label={told} value={Math.min(counted, limit)} max={limit} measureLocation="none" size="sm" variant={counted >= limit ? "danger" : undefined} />;
      })}
    </section>
  ) : null;
}

function Outcomes({ outcomes }: { outcomes: Record<string, number> }): ReactElement | null {
  const found = Object.entries(outcomes);
  return found.length ? (
    <p>
      {text.rollout.outcomes}: {found.map(([name, count]) => `${name} × ${count}`).join(", ")}
    </p>
  ) : null;
}
