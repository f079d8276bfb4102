// Who a rollout would reach, next to its form and while it is being written: the server's own plan of the fleet as it is now.
import { Title } from "@patternfly/react-core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";

import { ProblemError, api, pathOf } from "../api/client";
import type { Plan, Problem } from "../api/types";
import { type Draft, type Faults, faultsOf, firstOf, plannedSpec, samplesOf, startedBy } from "../model/new-rollout";
import { text } from "../model/text";
import { useAnnouncement } from "./announcer";
import { Loading, ProblemAlert } from "./state";

/** Milliseconds after which it is asked again: the fleet goes on. */
const AGAIN = 15_000;

export interface Match {
  plan?: Plan;
  problem?: Problem;
  /** What is wrong with the draft, by its field. */
  faults: Faults;
}

/** The plan of what is written. An answer to an earlier draft is never shown: the query's key is the draft. */
export function useMatch(draft: Draft, enabled: boolean): Match {
  const spec = plannedSpec(draft);
  const asked = useQuery({
    enabled: enabled && draft.namespace !== "",
    queryKey: ["match", draft.namespace, spec],
    queryFn: ({ signal }) => api<Plan>("POST", `${pathOf("rollouts", draft.namespace)}/plan`, { body: { spec }, signal }),
    placeholderData: keepPreviousData,
    retry: false,
    refetchInterval: AGAIN,
  });
  const problem = asked.error instanceof ProblemError ? asked.error.problem : undefined;
  return { plan: asked.data, problem, faults: enabled && problem ? faultsOf(problem) : {} };
}

export function MatchView({ match, version }: { match: Match; version: string }): ReactElement {
  const { plan, problem, faults } = match;
  useAnnouncement("match", plan ? text.create.matching(startedBy(plan)) : "");
  return (
    <section aria-label={text.create.match} className="ew-preview ew-stack">
      <Title headingLevel="h2" size="md">
        {text.create.match}
      </Title>
      {plan ? <Numbers plan={plan} version={version} /> : null}
      {problem ? firstOf(faults) ? <p>{text.create.unknownMatch}</p> : <ProblemAlert problem={problem} /> : plan ? null : <Loading />}
    </section>
  );
}

function Numbers({ plan, version }: { plan: Plan; version: string }): ReactElement {
  const samples = samplesOf(plan);
  return (
    <>
      <p>{text.create.matching(startedBy(plan))}</p>
      {version ? <p>{text.create.current(plan.current)}</p> : null}
      {plan.excludedCount ? (
        <>
          <p>{text.create.excluded(plan.excludedCount)}:</p>
          <ul aria-label={text.create.excluded(plan.excludedCount)}>
            {Object.entries(plan.reasons).map(([why, count]) => (
              <li key={why} className="ew-wrap">
                {text.create.reason(count, why)}
              </li>
            ))}
          </ul>
        </>
      ) : null}
      {samples.length ? (
        <>
          <p>{text.create.samples(samples.length, startedBy(plan))}</p>
          <ul aria-label={text.create.sampleList} className="ew-samples">
            {samples.map((each) => (
              <li key={each} className="ew-wrap">
                {each}
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </>
  );
}
