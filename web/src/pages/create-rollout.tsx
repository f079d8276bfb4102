// A new rollout in five steps: who, what, how, when it goes wrong, and its review: plan, dry run, YAML, and only then the button.
import { Alert, Button, Checkbox, Form, FormGroup, FormHelperText, HelperText, HelperTextItem, PageSection, TextInput, Title } from "@patternfly/react-core";
import { type ReactElement, useEffect, useRef, useState } from "react";
import { useNavigate } from "react-router";
import { stringify } from "yaml";

import { ProblemError, api, pathOf } from "../api/client";
import { address } from "../api/place";
import type { Plan, Problem } from "../api/types";
import { ROLLOUTS, createCommands } from "../model/commands";
import { type Draft, EMPTY, type Faults, type FieldName, STEPS, type StepName, faultsOf, fieldOf, firstOf, missing, rolloutOf, stepOf } from "../model/new-rollout";
import type { Placed } from "../model/pointer";
import { text } from "../model/text";
import { CopyAs } from "../parts/copy-as";
import { forgetDraft, keepDraft, keptDraft } from "../parts/draft";
import { MatchView, useMatch } from "../parts/match";
import { useSettled } from "../parts/parameters";
import { PlanView } from "../parts/plan-view";
import { GuardedButton, useRights } from "../parts/rights";
import { Loading, ProblemAlert } from "../parts/state";
import { Steps } from "../parts/steps";

const ALREADY_EXISTS = 409;

export function CreateRolloutPage(): ReactElement {
  const [draft, setDraft] = useState<Draft>(keptDraft);
  const [step, setStep] = useState<StepName>("who");
  const [focus, setFocus] = useState<{ id: string } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [faults, setFaults] = useState<Faults>({});
  const [plan, setPlan] = useState<Plan | null>(null);
  const [busy, setBusy] = useState(false);
  const unanswered = useRef(false);
  const navigate = useNavigate();
  const settled = useSettled(draft);
  const match = useMatch(settled, step !== "review");
  const rights = useRights("rollouts", settled.namespace);
  const rollout = rolloutOf(draft);
  const wrong = { ...match.faults, ...faults };

  // What is asked for is there only after the step was drawn.
  useEffect(() => document.getElementById(focus?.id ?? "")?.focus(), [focus]);

  const write = (next: Draft) => {
    setDraft(next);
    setPlan(null);
    unanswered.current = false;
  };
  const change = (field: FieldName, value: string | boolean) => {
    const next = { ...draft, [field]: value };
    keepDraft(next);
    write(next);
    const { [field]: _corrected, ...others } = faults;
    setFaults(others);
  };
  const startOver = () => {
    forgetDraft();
    write(EMPTY);
    setProblem(null);
    setFaults({});
    show("who");
  };
  const show = (next: StepName, field?: FieldName) => {
    setStep(next);
    setFocus({ id: field ?? "step" });
  };
  const refuse = (found: Faults) => {
    setFaults(found);
    const first = firstOf(found);
    if (first) {
      show(stepOf(first), first);
    }
  };
  const lead = (pointer: string) => {
    const field = fieldOf(pointer)!;
    show(stepOf(field), field);
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
      refuse(faultsOf(error.problem));
    } finally {
      setBusy(false);
    }
  };
  const go = (next: StepName) => {
    if (next !== "review") {
      show(next);
      return;
    }
    const empty = missing(draft);
    if (empty.length) {
      refuse(Object.fromEntries(empty.map((each) => [each, [text.create.needed]])));
      return;
    }
    setFaults({});
    show("review");
    void asking(async () => {
      // As it will be created: a name that is taken is found here too.
      await api("POST", `${pathOf("rollouts", draft.namespace)}?dryRun=All`, { body: rollout });
      setPlan(await api<Plan>("POST", `${pathOf("rollouts", draft.namespace)}/plan`, { body: { spec: rollout.spec } }));
    });
  };
  const create = () =>
    asking(async () => {
      try {
        await api("POST", pathOf("rollouts", draft.namespace), { body: rollout });
      } catch (error) {
        const status = error instanceof ProblemError ? error.problem.status : -1;
        // Sent before, and its answer was lost on the way: what is there is ours.
        if (status !== ALREADY_EXISTS || !unanswered.current) {
          unanswered.current ||= status === 0;
          throw error;
        }
      }
      forgetDraft();
      await navigate(`/rollouts/${draft.namespace}/${draft.name}`);
    });
  const at = STEPS.findIndex(([each]) => each === step);
  const fields = STEPS[at]![1];
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">{text.create.title}</Title>
      <Steps
        steps={STEPS.map(([id, inside]) => ({ id, name: text.create.names[id], isWrong: inside.some((each) => wrong[each]) }))}
        at={step}
        go={go}
      />
      {problem ? <ProblemAlert problem={problem} at={placed(problem)} pick={lead} /> : null}
      <Title headingLevel="h2" id="step" tabIndex={-1}>
        {text.create.names[step]}
      </Title>
      {step === "review" ? (
        <div className="ew-stack">
          {busy && !plan ? <Loading /> : null}
          {plan ? (
            <>
              <Alert component="p" variant="success" isInline title={text.object.checked} />
              <PlanView plan={plan} />
              <pre className="ew-diff">{stringify(rollout)}</pre>
            </>
          ) : null}
          <div className="ew-actions">
            <Button variant="secondary" onClick={() => show("wrong")}>{text.create.back}</Button>
            {plan ? (
              <GuardedButton why={rights.why("create")} isDisabled={busy} isLoading={busy} onClick={() => void create()}>
                {text.create.create}
              </GuardedButton>
            ) : null}
          </div>
          {plan ? <CopyAs commands={createCommands(ROLLOUTS, rollout, address())} /> : null}
        </div>
      ) : (
        <div className="ew-columns">
          <Form
            onSubmit={(event) => {
              event.preventDefault();
              go(STEPS[at + 1]![0]);
            }}
          >
            {fields.map((each) => (
              <DraftField key={each} name={each} draft={draft} faults={wrong[each]} change={change} />
            ))}
            <div className="ew-actions">
              {at > 0 ? <Button variant="secondary" onClick={() => show(STEPS[at - 1]![0])}>{text.create.back}</Button> : null}
              <Button type="submit">{text.create.next}</Button>
              {JSON.stringify(draft) === JSON.stringify(EMPTY) ? null : <Button variant="link" onClick={startOver}>{text.create.startOver}</Button>}
            </div>
          </Form>
          <MatchView match={match} version={settled.version} />
        </div>
      )}
    </div></PageSection>
  );
}

/** The pointers of a problem that lead to a field of this form. */
function placed(problem: Problem): Placed {
  const shown = (problem.errors ?? []).filter((each) => fieldOf(each.pointer));
  return { fields: Object.fromEntries(shown.map((each) => [each.pointer, [each.detail]])), general: [] };
}

interface FieldProps {
  name: FieldName;
  draft: Draft;
  faults?: string[];
  change: (field: FieldName, value: string | boolean) => void;
}

function DraftField({ name, draft, faults, change }: FieldProps): ReactElement {
  const value = draft[name];
  const told = faults ? (
    <FormHelperText>
      <HelperText id={`${name}-faults`} isLiveRegion>
        {faults.map((each) => (
          <HelperTextItem key={each} variant="error" className="ew-wrap">
            {each}
          </HelperTextItem>
        ))}
      </HelperText>
    </FormHelperText>
  ) : null;
  const described = faults ? `${name}-faults` : undefined;
  return typeof value === "boolean" ? (
    <div>
      <Checkbox id={name} label={text.create.manual} isChecked={value} aria-describedby={described} onChange={(_, checked) => change(name, checked)} />
      {told}
    </div>
  ) : (
    <FormGroup label={text.create.fields[name]} fieldId={name}>
      <TextInput
        id={name}
        value={value}
        validated={faults ? "error" : "default"}
        aria-describedby={described}
        onChange={(_, next) => change(name, next)}
      />
      {told}
    </FormGroup>
  );
}
