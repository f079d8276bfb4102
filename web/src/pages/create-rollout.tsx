// A new rollout: who, what, how, when it goes wrong; its plan, its YAML, and only then the button. A double click is safe.
import { Button, Checkbox, Form, FormGroup, PageSection, TextInput, Title } from "@patternfly/react-core";
import { type ReactElement, useState } from "react";
import { useNavigate } from "react-router";
import { stringify } from "yaml";

import { ProblemError, api, pathOf } from "../api/client";
import { address } from "../api/place";
import type { Plan, Problem } from "../api/types";
import { ROLLOUTS, createCommands } from "../model/commands";
import { type Draft, EMPTY, rolloutOf } from "../model/new-rollout";
import { text } from "../model/text";
import { CopyAs } from "../parts/copy-as";
import { ProblemAlert } from "../parts/state";

const FIELDS: (keyof Draft & keyof typeof text.create)[] = ["name", "namespace", "firmware", "version", "types", "labels", "canary", "soak", "stop"];

export function CreateRolloutPage(): ReactElement {
  const [draft, setDraft] = useState<Draft>(EMPTY);
  const [plan, setPlan] = useState<Plan | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const navigate = useNavigate();
  const rollout = rolloutOf(draft);
  const change = (field: keyof Draft, value: string | boolean) => {
    setDraft({ ...draft, [field]: value });
    setPlan(null);
  };
  const asking = async (work: () => Promise<void>) => {
    setBusy(true);
    setProblem(null);
    try {
      await work();
    } catch (error) {
      if (!(error instanceof ProblemError)) {
        throw error;
      }
      setProblem(error.problem);
    } finally {
      setBusy(false);
    }
  };
  const planIt = () =>
    asking(async () => {
      await api("PUT", `${pathOf("rollouts", draft.namespace, draft.name)}?dryRun=All`, { body: rollout });
      setPlan(await api<Plan>("POST", `${pathOf("rollouts", draft.namespace)}/plan`, { body: { spec: rollout.spec } }));
    });
  const create = () =>
    asking(async () => {
      await api("POST", pathOf("rollouts", draft.namespace), { body: rollout });
      await navigate(`/rollouts/${draft.namespace}/${draft.name}`);
    });
  const ready = Boolean(draft.name && draft.namespace && draft.firmware && draft.version);
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">{text.create.title}</Title>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          void planIt();
        }}
      >
        {FIELDS.map((field) => (
          <FormGroup key={field} label={String(text.create[field])} fieldId={field}>
            <TextInput id={field} value={String(draft[field])} onChange={(_, value) => change(field, value)} />
          </FormGroup>
        ))}
        <Checkbox id="manual" label={text.create.manual} isChecked={draft.manual} onChange={(_, checked) => change("manual", checked)} />
        <Button type="submit" variant="secondary" isDisabled={!ready || busy}>
          {text.create.plan}
        </Button>
      </Form>
      {problem ? <ProblemAlert problem={problem} /> : null}
      {plan ? <PlanView plan={plan} /> : null}
      {plan ? (
        <>
          <pre className="ew-diff">{stringify(rollout)}</pre>
          <Button isDisabled={busy} isLoading={busy} onClick={() => void create()}>
            {text.create.create}
          </Button>
          <CopyAs commands={createCommands(ROLLOUTS, rollout, address())} />
        </>
      ) : null}
    </div></PageSection>
  );
}

function PlanView({ plan }: { plan: Plan }): ReactElement {
  return (
    <section aria-label={text.create.plan}>
      <Title headingLevel="h2">{text.create.plan}</Title>
      <p>
        {text.create.planned(plan.total)}, {text.create.current(plan.current)}, {text.create.excluded(plan.excludedCount)}.
      </p>
      <ol>
        {plan.batches.map((each) => (
          <li key={each.number}>
            {each.name}: {each.size} ({each.devices.slice(0, 20).join(", ")}
            {each.size > 20 ? ", …" : ""}) {each.soakSeconds ? `${each.soakSeconds} ${text.create.seconds}` : ""}
            {each.manual ? ` ${text.create.approval}` : ""}
          </li>
        ))}
      </ol>
      <ul>
        {Object.entries(plan.excluded)
          .slice(0, 20)
          .map(([name, why]) => (
            <li key={name}>
              {name}: {why}
            </li>
          ))}
      </ul>
    </section>
  );
}
