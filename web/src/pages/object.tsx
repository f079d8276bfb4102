// One object of any kind: where it stands, a form made from its schema or YAML, and a new one in the same way.
import { Alert, PageSection, Title } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { type ReactElement, useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";

import { api, pathOf } from "../api/client";
import { useLive } from "../api/live";
import { address } from "../api/place";
import type { KindSchema, Obj } from "../api/types";
import { commandsFor, kubectlName } from "../model/commands";
import { standing } from "../model/states";
import { text } from "../model/text";
import { CopyAs } from "../parts/copy-as";
import { Editor } from "../parts/editor";
import { Events } from "../parts/events";
import { MaskedYaml } from "../parts/secrets";
import { Failure, Loading, NotLive, PhaseLabel } from "../parts/state";
import { pageOf } from "./kinds";

function useKind(resource: string) {
  return useQuery({
    queryKey: ["schema", resource],
    queryFn: () => api<KindSchema>("GET", `/api/v1/kinds/${encodeURIComponent(resource)}/schema`),
    staleTime: 60_000,
  });
}

export function ObjectPage(): ReactElement {
  const { resource = "", namespace, name = "" } = useParams();
  const path = pathOf(resource, namespace, name);
  const kind = useKind(resource);
  const found = useQuery({ queryKey: ["object", path], queryFn: () => api<Obj>("GET", path) });
  const where = namespace ? `&namespace=${encodeURIComponent(namespace)}` : "";
  const live = useLive<Obj>(`of=${encodeURIComponent(resource)}${where}&name=${encodeURIComponent(name)}`);
  // Where it stands goes on by itself; what somebody edits here does not change under their hands.
  const now = live.items[0] ?? found.data;
  const [applied, setApplied] = useState(false);
  const error = found.error ?? kind.error;
  const state = now ? standing(now) : "";
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">
        {kind.data?.kind ?? resource} {name} {state ? <PhaseLabel phase={state} /> : null}
      </Title>
      {error ? <Failure error={error} /> : found.isPending || kind.isPending ? <Loading /> : null}
      {applied ? <Alert component="p" variant="success" isInline title={text.object.applied} /> : null}
      {found.data && kind.data ? (
        <Editor
          // Another state of the object is another draft.
          key={path + found.data.metadata.resourceVersion}
          kind={kind.data}
          object={found.data}
          again={() => void found.refetch()}
          done={() => setApplied(true)}
        />
      ) : null}
      <NotLive live={live} />
      {now?.status ? (
        <section aria-label={text.object.status}>
          <Title headingLevel="h2">{text.object.status}</Title>
          <MaskedYaml schema={kind.data?.schema.properties?.status} value={now.status} />
        </section>
      ) : null}
      {now ? <Events resource={resource} namespace={namespace} name={name} /> : null}
      <CopyAs commands={commandsFor({ resource, kubectl: kubectlName(kind.data ?? { name: resource }), namespaced: Boolean(namespace), namespace, name }, address())} />
    </div></PageSection>
  );
}

export function NewObjectPage(): ReactElement {
  const { resource = "" } = useParams();
  const [search] = useSearchParams();
  const kind = useKind(resource);
  const navigate = useNavigate();
  if (!kind.data) {
    return <PageSection>{kind.error ? <Failure error={kind.error} /> : <Loading />}</PageSection>;
  }
  const metadata = kind.data.namespaced ? { name: "", namespace: "default" } : { name: "" };
  const { apiVersion, kind: called, schema } = kind.data;
  const known = Object.keys(schema.properties ?? {}).some((each) => !["apiVersion", "kind", "metadata"].includes(each));
  const device = search.get("device"); // who comes from a device means that one, and perhaps what it ran before
  const meant = Object.fromEntries(["firmware", "version"].flatMap((each) => (search.get(each) ? [[each, search.get(each)]] : [])));
  const spec = device ? { uuid: [device], ...meant } : {};
  const blank: Obj = { apiVersion, kind: called, metadata, ...(!known || schema.properties?.spec ? { spec } : {}) };
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">
        {text.kinds.create} {kind.data.kind}
      </Title>
      <Editor kind={kind.data} object={blank} done={(made) => void navigate(pageOf(resource, made))} />
    </div></PageSection>
  );
}
