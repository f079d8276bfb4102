// The inputs of a form made from a schema: one value, rows of a list, entries of a map, and YAML for the rest.
import {
  Button,
  Checkbox,
  FormHelperText,
  FormSelect,
  FormSelectOption,
  HelperText,
  HelperTextItem,
  TextArea,
  TextInput,
} from "@patternfly/react-core";
import MinusCircleIcon from "@patternfly/react-icons/dist/esm/icons/minus-circle-icon";
import PlusCircleIcon from "@patternfly/react-icons/dist/esm/icons/plus-circle-icon";
import { type ComponentType, type ReactElement, createContext, useContext, useState } from "react";
import { parse, stringify } from "yaml";

import { type Path, pointerOf } from "../model/pointer";
import { type Schema, blankOf, boundsOf, choicesOf, firstSentence, shown, typed, widgetOf } from "../model/schema";
import { text } from "../model/text";

export interface FormContext {
  /** What is wrong, by the pointer of the field that shows it. */
  faults: Record<string, string[]>;
  /** Fields that cannot be changed, by pointer. */
  fixed: Set<string>;
  /** Says that a field holds what cannot be read, or that it can be read again. */
  report: (pointer: string, problem: string | null) => void;
}

export const FormState = createContext<FormContext>({ faults: {}, fixed: new Set(), report: () => undefined });

interface ValueProps {
  schema: Schema;
  value: unknown;
  path: Path;
  required?: boolean;
  onChange: (value: unknown) => void;
}

interface InputProps extends ValueProps {
  label: string;
}

type RowProps = ValueProps & { name: string };

interface RowsProps extends ValueProps {
  name: string;
  row: ComponentType<RowProps>;
}

export function idOf(path: Path): string {
  return `field${pointerOf(path)}`;
}

/** What is wrong with a field. */
export function Faults({ path }: { path: Path }): ReactElement | null {
  const found = useContext(FormState).faults[pointerOf(path)];
  return found ? (
    <HelperText id={`${idOf(path)}-faults`} isLiveRegion>
      {found.map((each) => (
        <HelperTextItem key={each} variant="error">
          {each}
        </HelperTextItem>
      ))}
    </HelperText>
  ) : null;
}

/** What a field is for, its default and its bounds, and what is wrong with it. */
export function Help({ schema, path, note }: { schema: Schema; path: Path; note?: string }): ReactElement {
  const words = [firstSentence(schema.description).text, text.form.hint(schema.default, boundsOf(schema), schema.pattern), note];
  const told = words.filter(Boolean).join(" · ");
  return (
    <FormHelperText>
      <Faults path={path} />
      {told ? (
        <HelperText id={`${idOf(path)}-about`}>
          <HelperTextItem>{told}</HelperTextItem>
        </HelperText>
      ) : null}
    </FormHelperText>
  );
}

/** One input. */
export function Scalar({ schema, value, path, label, required, onChange }: InputProps): ReactElement {
  const { faults, fixed } = useContext(FormState);
  const id = idOf(path);
  const wrong = Boolean(faults[pointerOf(path)]);
  const shared = {
    id,
    "aria-label": label,
    "aria-describedby": wrong ? `${id}-faults` : `${id}-about`,
    validated: wrong ? ("error" as const) : ("default" as const),
    isDisabled: fixed.has(pointerOf(path)),
  };
  switch (widgetOf(schema)) {
    case "check":
      return (
        <div>
          <Checkbox
            id={id}
            label={label}
            isRequired={required}
            isChecked={value === undefined ? schema.default === true : value === true}
            onChange={(_, checked) => onChange(checked)}
            description={firstSentence(schema.description).text || undefined}
          />
          <Faults path={path} />
        </div>
      );
    case "choice": {
      const choices = choicesOf(schema);
      const chosen = choices.findIndex((each) => each === value);
      return (
        <FormSelect {...shared} value={chosen < 0 ? "" : String(chosen)} onChange={(_, at) => onChange(at === "" ? undefined : choices[Number(at)])}>
          <FormSelectOption value="" label={text.form.unset(schema.default)} isPlaceholder />
          {choices.map((each, at) => (
            <FormSelectOption key={at} value={String(at)} label={String(each)} />
          ))}
        </FormSelect>
      );
    }
    default: {
      const typedText = shown(value);
      return typedText.includes("\n") ? (
        <TextArea {...shared} value={typedText} resizeOrientation="vertical" onChange={(_, next) => onChange(typed(schema, next))} />
      ) : (
        <TextInput
          {...shared}
          isRequired={required}
          type={schema.format === "password" ? "password" : "text"}
          inputMode={widgetOf(schema) === "number" ? "decimal" : undefined}
          autoComplete="off"
          placeholder={schema.default === undefined ? undefined : shown(schema.default)}
          value={typedText}
          onChange={(_, next) => onChange(typed(schema, next))}
        />
      );
    }
  }
}

/** The rows of a list, with a button for one more. */
export function ListRows({ name, schema, value, path, required, onChange, row: Row }: RowsProps): ReactElement {
  const rows = Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
  const change = (next: unknown[]) => onChange(next.length === 0 && !required ? undefined : next);
  const items = schema.items ?? {};
  return (
    <>
      {rows.map((each, at) => (
        <div key={at} className="ew-row">
          <div className="ew-row-value">
            <Row
              name={`${name} ${at + 1}`}
              schema={items}
              value={each}
              path={[...path, at]}
              onChange={(next) => change(rows.map((other, where) => (where === at ? next : other)))}
            />
          </div>
          <Button
            variant="plain"
            aria-label={text.form.remove(`${name} ${at + 1}`)}
            icon={<MinusCircleIcon />}
            onClick={() => change(rows.filter((_, where) => where !== at))}
          />
        </div>
      ))}
      <Add name={name} add={() => change([...rows, blankOf(items)])} />
    </>
  );
}

/** The entries of a map, each with its key, and a button for one more. */
export function MapRows({ name, schema, value, path, required, onChange, row: Row }: RowsProps): ReactElement {
  const entries = Object.entries((value ?? {}) as Record<string, unknown>);
  const items = schema.additionalProperties as Schema;
  const change = (next: [string, unknown][]) => onChange(next.length === 0 && !required ? undefined : Object.fromEntries(next));
  const rename = (at: number, key: string) => {
    if (!entries.some(([other], where) => where !== at && other === key)) {
      change(entries.map((entry, where) => (where === at ? [key, entry[1]] : entry)));
    }
  };
  return (
    <>
      {entries.map(([key, each], at) => (
        <div key={at} className="ew-row">
          <TextInput
            className="ew-row-key"
            aria-label={text.form.key(name, at + 1)}
            placeholder={text.form.keyName}
            value={key}
            onChange={(_, next) => rename(at, next)}
          />
          <div className="ew-row-value">
            <Row
              name={text.form.value(name, at + 1)}
              schema={items}
              value={each}
              path={[...path, key]}
              onChange={(next) => change(entries.map((entry, where) => (where === at ? [key, next] : entry)))}
            />
          </div>
          <Button
            variant="plain"
            aria-label={text.form.remove(key || `${name} ${at + 1}`)}
            icon={<MinusCircleIcon />}
            onClick={() => change(entries.filter((_, where) => where !== at))}
          />
        </div>
      ))}
      <Add name={name} disabled={entries.some(([key]) => key === "")} add={() => change([...entries, ["", blankOf(items)]])} />
    </>
  );
}

function Add({ name, add, disabled = false }: { name: string; add: () => void; disabled?: boolean }): ReactElement {
  return (
    <div>
      <Button variant="link" isInline icon={<PlusCircleIcon />} isDisabled={disabled} onClick={add}>
        {text.form.add(name)}
      </Button>
    </div>
  );
}

/** What no form can show, as YAML; what cannot be read is said at the field and changes nothing. */
export function YamlValue({ value, path, label, onChange }: InputProps): ReactElement {
  const { faults, report } = useContext(FormState);
  const [draft, setDraft] = useState(value === undefined || value === "" ? "" : stringify(value).trimEnd());
  const pointer = pointerOf(path);
  const change = (next: string) => {
    setDraft(next);
    try {
      const read = next.trim() === "" ? undefined : (parse(next) as unknown);
      report(pointer, null);
      onChange(read);
    } catch (error) {
      report(pointer, text.object.badYaml(error instanceof Error ? error.message.split("\n")[0]! : String(error)));
    }
  };
  return (
    <TextArea
      id={idOf(path)}
      className="ew-yaml-value"
      aria-label={label}
      aria-describedby={faults[pointer] ? `${idOf(path)}-faults` : `${idOf(path)}-about`}
      validated={faults[pointer] ? "error" : "default"}
      spellCheck={false}
      autoResize
      resizeOrientation="vertical"
      value={draft}
      onChange={(_, next) => change(next)}
    />
  );
}
