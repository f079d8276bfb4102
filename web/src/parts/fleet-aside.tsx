// Next to the fleet: what waits for who looks at it, and the rollouts under way.
import { Title } from "@patternfly/react-core";
import { useQueries } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { Link } from "react-router";

import { api } from "../api/client";
import { useLive } from "../api/live";
import type { Me, Rollout } from "../api/types";
import { text } from "../model/text";
import { awaiting } from "../model/waiting";
import { useReleaseRights } from "./quarantine";
import { LiveView, PhaseLabel } from "./state";

const ENDED = new Set(["Completed", "Aborted", "Recalled"]);
const KEPT = 30_000;

export function FleetAside({ quarantined }: { quarantined: number }): ReactElement {
  const live = useLive<Rollout>("of=rollouts");
  return (
    <LiveView live={live}>
      {(all) => (
        <div className="ew-stack">
          <WaitsForMe rollouts={all} quarantined={quarantined} />
          <Running rollouts={all.filter((each) => !ENDED.has(each.status?.phase ?? ""))} />
        </div>
      )}
    </LiveView>
  );
}

/** In which namespaces the caller may change rollouts: to approve one is to change it. */
function useApprovals(namespaces: string[]): (namespace: string) => boolean {
  const asked = useQueries({
    queries: namespaces.map((namespace) => ({
      // The same question, and the same answer, as that of the buttons of a rollout.
      queryKey: ["rights", "rollouts", namespace],
      queryFn: () => api<Me>("GET", `/api/v1/me?of=rollouts&namespace=${encodeURIComponent(namespace)}`),
      staleTime: KEPT,
      refetchInterval: KEPT,
    })),
  });
  return (namespace) => asked[namespaces.indexOf(namespace)]?.data?.rights?.verbs.patch ?? false;
}

function WaitsForMe({ rollouts, quarantined }: { rollouts: Rollout[]; quarantined: number }): ReactElement {
  const may = useApprovals([...new Set(awaiting(rollouts).map(({ rollout }) => rollout.metadata.namespace ?? ""))]);
  const found = awaiting(rollouts, may);
  const releasable = useReleaseRights() === "" ? quarantined : 0;
  return (
    <section aria-label={text.waiting.title}>
      <Title headingLevel="h2">{text.waiting.title}</Title>
      {found.length === 0 && releasable === 0 ? <p>{text.waiting.none}</p> : null}
      <ul>
        {found.map(({ rollout: { metadata }, batch }) => (
          <li key={metadata.uid}>
            <Link to={`/rollouts/${metadata.namespace}/${metadata.name}`}>{text.waiting.approval(metadata.name, batch)}</Link>
          </li>
        ))}
        {releasable ? (
          <li>
            <Link to="/devices?state=quarantined">{text.waiting.quarantined(releasable)}</Link>
          </li>
        ) : null}
      </ul>
    </section>
  );
}

function Running({ rollouts }: { rollouts: Rollout[] }): ReactElement {
  return (
    <section aria-label={text.fleet.running}>
      <Title headingLevel="h2">{text.fleet.running}</Title>
      {rollouts.length === 0 ? (
        <p>{text.fleet.none}</p>
      ) : (
        <ul>
          {rollouts.map((each) => (
            <li key={each.metadata.uid}>
              <Link to={`/rollouts/${each.metadata.namespace}/${each.metadata.name}`}>{each.metadata.name}</Link>{" "}
              <PhaseLabel phase={each.status?.phase ?? ""} /> {each.status?.message}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
