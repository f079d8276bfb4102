// The list of rollouts, live.
import { PageSection, Title } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { ReactElement } from "react";
import { Link } from "react-router";

import { useLive } from "../api/live";
import { address } from "../api/place";
import type { Rollout } from "../api/types";
import { ROLLOUTS, commandsFor } from "../model/commands";
import { text } from "../model/text";
import { ago } from "../model/time";
import { CopyAs } from "../parts/copy-as";
import { SortedTh, WordFilter, filtered, useListFilter } from "../parts/list-filter";
import { NamespaceFilter, useNamespace } from "../parts/namespace-filter";
import { GuardedLink, useRights } from "../parts/rights";
import { LiveView, Nothing, PhaseLabel } from "../parts/state";

export function RolloutsPage(): ReactElement {
  const [namespace, setNamespace] = useNamespace();
  const live = useLive<Rollout>(`of=rollouts${namespace ? `&namespace=${encodeURIComponent(namespace)}` : ""}`);
  const rights = useRights("rollouts", namespace);
  const filter = useListFilter();
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">{text.rollouts.title}</Title>
      <div className="ew-actions">
        <GuardedLink to="/rollouts/create" why={rights.why("create")}>
          {text.rollouts.create}
        </GuardedLink>
        <NamespaceFilter namespace={namespace} set={setNamespace} />
        <WordFilter filter={filter} />
      </div>
      <LiveView live={live}>
        {(rollouts) =>
          rollouts.length === 0 ? (
            <Nothing title={text.rollouts.empty} />
          ) : filtered(rollouts, filter).length === 0 ? (
            <Nothing title={text.noMatch} />
          ) : (
            <Table variant="compact" aria-label={text.rollouts.title}>
              <Thead>
                <Tr>
                  <SortedTh filter={filter} by="name">{text.name}</SortedTh>
                  {[text.kinds.namespace, text.phase, text.progress, text.version, text.message].map((each) => (
                    <Th key={each} modifier="fitContent">{each}</Th>
                  ))}
                  <SortedTh filter={filter} by="created">{text.kinds.created}</SortedTh>
                </Tr>
              </Thead>
              <Tbody>
                {filtered(rollouts, filter).map((each) => (
                  <Tr key={each.metadata.uid}>
                    <Td dataLabel={text.name}>
                      <Link to={`/rollouts/${each.metadata.namespace}/${each.metadata.name}`}>{each.metadata.name}</Link>
                    </Td>
                    <Td dataLabel={text.kinds.namespace}>{each.metadata.namespace}</Td>
                    <Td dataLabel={text.phase}>
                      <PhaseLabel phase={each.status?.phase ?? ""} />
                    </Td>
                    <Td dataLabel={text.progress}>{each.status?.progress}</Td>
                    <Td dataLabel={text.version}>{each.spec.version}</Td>
                    <Td dataLabel={text.message}>{each.status?.message}</Td>
                    <Td dataLabel={text.kinds.created}>{ago(each.metadata.creationTimestamp, new Date())}</Td>
                  </Tr>
                ))}
              </Tbody>
            </Table>
          )
        }
      </LiveView>
      <CopyAs commands={commandsFor({ ...ROLLOUTS, namespace, words: filter.words, sort: filter.sort }, address())} />
    </div></PageSection>
  );
}
