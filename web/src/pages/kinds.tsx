// Any kind that is installed: which there are, and the objects of one, live.
import { PageSection, Title } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { Link, useParams } from "react-router";

import { api } from "../api/client";
import { useLive } from "../api/live";
import { address } from "../api/place";
import type { KindEntry, Obj } from "../api/types";
import { commandsFor, kindCommands, kubectlName } from "../model/commands";
import { standing } from "../model/states";
import { text } from "../model/text";
import { ago } from "../model/time";
import { CopyAs } from "../parts/copy-as";
import { SortedTh, WordFilter, filtered, useListFilter } from "../parts/list-filter";
import { NamespaceFilter, useNamespace } from "../parts/namespace-filter";
import { GuardedLink, useRights } from "../parts/rights";
import { Failure, LiveView, Loading, Nothing, PhaseLabel } from "../parts/state";

/** Every kind that is installed. */
export function useKinds() {
  return useQuery({ queryKey: ["kinds"], queryFn: () => api<{ items: KindEntry[] }>("GET", "/api/v1/kinds"), staleTime: 30_000 });
}

export function pageOf(resource: string, object: Obj): string {
  const { namespace, name } = object.metadata;
  return namespace ? `/kinds/${resource}/in/${namespace}/${name}` : `/kinds/${resource}/${name}`;
}

export function KindsPage(): ReactElement {
  const kinds = useKinds();
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">{text.kinds.title}</Title>
      {kinds.isPending ? <Loading /> : kinds.error ? <Failure error={kinds.error} /> : null}
      <Table variant="compact" aria-label={text.kinds.title}>
        <Thead>
          <Tr>
            <Th>{text.kinds.kind}</Th>
            <Th>{text.kinds.name}</Th>
            <Th>{text.kinds.version}</Th>
          </Tr>
        </Thead>
        <Tbody>
          {kinds.data?.items.map((each) => (
            <Tr key={each.name}>
              <Td>
                <Link to={`/kinds/${each.name}`}>{each.kind}</Link>
              </Td>
              <Td>{each.name}</Td>
              <Td>
                {each.apiVersion} {each.ours ? `(${text.kinds.ours})` : ""}
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
      <CopyAs commands={kindCommands(address())} />
    </div></PageSection>
  );
}

export function KindPage(): ReactElement {
  const { resource = "" } = useParams();
  const kinds = useKinds();
  const kind = kinds.data?.items.find((each) => each.name === resource);
  const [namespace, setNamespace] = useNamespace();
  const live = useLive<Obj>(`of=${encodeURIComponent(resource)}${namespace ? `&namespace=${encodeURIComponent(namespace)}` : ""}`);
  const rights = useRights(resource, namespace);
  const filter = useListFilter();
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">{kind?.kind ?? resource}</Title>
      <div className="ew-actions">
        <GuardedLink to={`/kinds/${resource}/create`} why={rights.why("create")}>
          {text.kinds.create}
        </GuardedLink>
        {kind?.namespaced ? <NamespaceFilter namespace={namespace} set={setNamespace} /> : null}
        <WordFilter filter={filter} />
      </div>
      <LiveView live={live}>
        {(found) =>
          found.length === 0 ? (
            <Nothing title={text.kinds.empty} />
          ) : filtered(found, filter).length === 0 ? (
            <Nothing title={text.noMatch} />
          ) : (
            <Table variant="compact" aria-label={kind?.kind ?? resource}>
              <Thead>
                <Tr>
                  <SortedTh filter={filter} by="name">{text.name}</SortedTh>
                  {[text.kinds.namespace, text.state].map((each) => (
                    <Th key={each} modifier="fitContent">{each}</Th>
                  ))}
                  <SortedTh filter={filter} by="created">{text.kinds.created}</SortedTh>
                </Tr>
              </Thead>
              <Tbody>
                {filtered(found, filter).map((each) => (
                  <Tr key={each.metadata.uid}>
                    <Td dataLabel={text.name}>
                      <Link to={pageOf(resource, each)}>{each.metadata.name}</Link>
                    </Td>
                    <Td dataLabel={text.kinds.namespace}>{each.metadata.namespace}</Td>
                    <Td dataLabel={text.state}>{standing(each) ? <PhaseLabel phase={standing(each)} /> : null}</Td>
                    <Td dataLabel={text.kinds.created}>{ago(each.metadata.creationTimestamp, new Date())}</Td>
                  </Tr>
                ))}
              </Tbody>
            </Table>
          )
        }
      </LiveView>
      <CopyAs commands={commandsFor({ resource, kubectl: kubectlName(kind ?? { name: resource }), namespaced: kind?.namespaced ?? true, namespace, words: filter.words, sort: filter.sort }, address())} />
    </div></PageSection>
  );
}
