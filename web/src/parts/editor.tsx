// An object of any kind as a form or as YAML, the server's own dry run of it, create, apply and delete.
import { Alert, Form, Title, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { type ReactElement, useDeferredValue, useMemo, useState } from "react";
import { useNavigate } from "react-router";
import { parse, stringify } from "yaml";

import { change } from "../api/change";
import { ProblemError, api, pathOf } from "../api/client";
import { address } from "../api/place";
import type { KindSchema, Obj, Problem } from "../api/types";
import { changeCommands, createCommands, kubectlName } from "../model/commands";
import { declarable, declared, mergePatch } from "../model/declaration";
import { type Placed, placed, standing } from "../model/pointer";
import { masked } from "../model/secrets";
import { text } from "../model/text";
import { Changes } from "./changes";
import { CopyAs } from "./copy-as";
import { DeleteButton } from "./delete-button";
import { GuardedButton, useRights } from "./rights";
import { Fields } from "./schema-form";
import { FormState } from "./schema-widgets";
import { MaskedYaml } from "./secrets";
import { ProblemAlert } from "./state";

type Mode = "form" | "yaml";

interface Props {
  kind: KindSchema;
  object: Obj;
  /** Loads the object again after a change; without it the object is a new one. */
  again?: () => void;
  done: (object: Obj) => void;
}

/** The field that has an error, brought into sight. */
function show(pointer: string): void {
  const field = document.getElementById(`field${pointer}`);
  field?.scrollIntoView({ block: "center" });
  field?.focus({ preventScroll: true });
}

export function Editor({ kind, object, again, done }: Props): ReactElement {
  const before = useMemo(() => declared(object), [object]);
  const schema = useMemo(() => declarable(kind.schema, kind.namespaced), [kind]);
  const [mode, setMode] = useState<Mode>("form");
  const [value, setValue] = useState<Obj>(before);
  const [typed, setTyped] = useState("");
  const [broken, setBroken] = useState<Record<string, string[]>>({});
  const [problem, setProblem] = useState<Problem | null>(null);
  const [wrong, setWrong] = useState<Placed>({ fields: {}, general: [] });
  const [told, setTold] = useState("");
  const [after, setAfter] = useState<Obj | null>(null);
  const [busy, setBusy] = useState(false);
  const namespace = useDeferredValue(value.metadata.namespace ?? "");
  const rights = useRights(kind.name, kind.namespaced ? namespace : "");
  const navigate = useNavigate();
  const creates = again === undefined;

  const clear = () => {
    setProblem(null);
    setWrong({ fields: {}, general: [] });
    setTold("");
    setAfter(null);
  };
  const refuse = (found: Problem, wanted: Obj) => {
    const where = placed(found.errors ?? [], schema, wanted);
    setProblem(found);
    setWrong(where);
    const first = Object.keys(where.fields)[0];
    if (first && mode === "form") {
      setTimeout(() => show(first));
    }
  };
  /** What is declared now; null where it cannot be read. */
  const read = (): Obj | null => {
    if (mode === "form") {
      return Object.keys(broken).length > 0 ? null : value;
    }
    try {
      return parse(typed) as Obj;
    } catch (error) {
      setProblem({ type: "", title: text.object.edit, status: 0, detail: text.object.badYaml(String(error)) });
      return null;
    }
  };
  const turn = (next: Mode) => {
    if (next === mode) {
      return;
    }
    clear();
    const now = read();
    if (now === null) {
      return;
    }
    setValue(now);
    setTyped(stringify(now));
    setBroken({});
    setMode(next);
  };
  const request = (wanted: Obj, dryRun: boolean): Promise<Obj> => {
    const query = dryRun ? "?dryRun=All" : "";
    if (creates) {
      return api<Obj>("POST", pathOf(kind.name, kind.namespaced ? wanted.metadata.namespace : undefined) + query, { body: wanted });
    }
    return change(kind.name, object, wanted, query);
  };
  const send = async (dryRun: boolean) => {
    clear();
    const wanted = read();
    if (wanted === null) {
      return;
    }
    if (!wanted?.metadata?.name) {
      const errors = [{ pointer: "#/metadata/name", detail: text.form.nameNeeded }];
      refuse({ type: "", title: text.form.wrong(1), status: 0, detail: text.form.nameNeeded, errors }, wanted);
      return;
    }
    setBusy(true);
    try {
      const answer = await request(wanted, dryRun);
      if (dryRun) {
        setAfter(declared(answer));
        setTold(text.object.checked);
      } else {
        again?.();
        done(answer);
      }
    } catch (error) {
      if (!(error instanceof ProblemError)) {
        throw error;
      }
      refuse(error.problem, wanted);
    } finally {
      setBusy(false);
    }
  };
  const changeTo = (next: Obj) => {
    setWrong({ ...wrong, fields: standing(wrong.fields, value, next) });
    setValue(next);
  };
  const commands = (hides: <T>(declaration: T) => T) => {
    const { namespace: where, name } = object.metadata;
    const subject = { resource: kind.name, kubectl: kubectlName(kind), namespaced: kind.namespaced, namespace: where, name };
    const origin = address();
    return creates ? createCommands(subject, hides(value), origin) : changeCommands(subject, hides(mergePatch(before, value) ?? {}), origin);
  };
  const report = (pointer: string, fault: string | null) => {
    const { [pointer]: _before, ...rest } = broken;
    setBroken(fault ? { ...rest, [pointer]: [fault] } : rest);
  };
  const fixed = useMemo(() => new Set(creates ? [] : ["#/metadata/name", "#/metadata/namespace"]), [creates]);
  return (
    <div className="ew-stack">
      <ToggleGroup aria-label={text.form.how}>
        <ToggleGroupItem text={text.form.asForm} buttonId="as-form" isSelected={mode === "form"} onChange={() => turn("form")} />
        <ToggleGroupItem text={text.object.edit} buttonId="as-yaml" isSelected={mode === "yaml"} onChange={() => turn("yaml")} />
      </ToggleGroup>
      {problem ? <ProblemAlert problem={problem} pick={mode === "form" ? show : undefined} at={wrong} /> : null}
      {mode === "form" ? (
        <div className="ew-columns">
          <FormState.Provider value={{ faults: { ...wrong.fields, ...broken }, fixed, report }}>
            <Form
              className="ew-form"
              onSubmit={(event) => {
                event.preventDefault();
                void send(true);
              }}
            >
              <Fields schema={schema} value={value} path={[]} onChange={(next) => changeTo(next as Obj)} />
              <button type="submit" hidden />
            </Form>
          </FormState.Provider>
          <section aria-label={text.form.preview} className="ew-preview">
            <Title headingLevel="h2" size="md">
              {text.form.preview}
            </Title>
            <MaskedYaml schema={schema} value={value} />
          </section>
        </div>
      ) : (
        <>
          <label htmlFor="yaml">{text.object.edit}</label>
          <textarea id="yaml" className="ew-yaml" spellCheck={false} value={typed} onChange={(event) => setTyped(event.target.value)} />
        </>
      )}
      <div className="ew-actions">
        <GuardedButton variant="secondary" isDisabled={busy} why={rights.why(creates ? "create" : "patch")} onClick={() => void send(true)}>
          {text.object.check}
        </GuardedButton>
        <GuardedButton isDisabled={busy} why={rights.why(creates ? "create" : "patch")} onClick={() => void send(false)}>
          {creates ? text.object.create : text.object.apply}
        </GuardedButton>
        {creates ? null : (
          <DeleteButton kind={kind} object={object} why={rights.why("delete")} gone={() => void navigate(`/kinds/${kind.name}`)} />
        )}
      </div>
      <CopyAs commands={commands((each) => each)} shown={commands((each) => masked(schema, each))} />
      {told ? <Alert component="p" variant="success" isInline title={told} /> : null}
      {after !== null ? <Changes schema={schema} before={creates ? null : before} after={after} /> : null}
    </div>
  );
}

