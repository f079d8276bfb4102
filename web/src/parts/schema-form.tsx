// A form made from a schema: groups of fields, required ones first, the rest folded. What is wrong stands at its field.
import {
  ExpandableSection,
  FormFieldGroupExpandable,
  FormFieldGroupHeader,
  FormGroup,
  FormGroupLabelHelp,
  FormSection,
  Popover,
} from "@patternfly/react-core";
import { type ReactElement, type ReactNode, useContext, useState } from "react";

import { type Path, isWrong, pointerOf } from "../model/pointer";
import { type Schema, fieldsOf, firstSentence, widgetOf } from "../model/schema";
import { text } from "../model/text";
import { Faults, FormState, Help, ListRows, MapRows, Scalar, YamlValue, idOf } from "./schema-widgets";

/** As many optional fields are shown at once; more are folded. */
const SHOWN_AT_ONCE = 5;

export interface FieldProps {
  name: string;
  schema: Schema;
  value: unknown;
  path: Path;
  required?: boolean;
  onChange: (value: unknown) => void;
}

/** The fields of an object, without a frame. */
export function Fields({ schema, value, path, onChange, required = true }: Omit<FieldProps, "name">): ReactElement {
  const { faults } = useContext(FormState);
  // Decided once: a field that gets its first letter must not move away from under the cursor.
  const [order] = useState(() => fieldsOf(schema, value));
  const fold = order.rest.length > SHOWN_AT_ONCE;
  const wrong = order.rest.filter((each) => isWrong(faults, [...path, each]));
  const [open, setOpen] = useState(false);
  const given = (value ?? {}) as Record<string, unknown>;
  const change = (name: string, next: unknown) => {
    const { [name]: _before, ...rest } = given;
    const made = next === undefined ? rest : { ...given, [name]: next };
    onChange(Object.keys(made).length === 0 && !required ? undefined : made);
  };
  const field = (name: string) => (
    <Field
      key={name}
      name={name}
      schema={schema.properties![name]!}
      value={given[name]}
      path={[...path, name]}
      required={schema.required?.includes(name)}
      onChange={(next) => change(name, next)}
    />
  );
  return (
    <>
      {[...order.first, ...(fold ? [] : order.rest)].map(field)}
      {fold ? (
        <ExpandableSection
          toggleText={text.form.more(order.rest.length)}
          isExpanded={open || wrong.length > 0}
          onToggle={(_, next) => setOpen(next)}
          isIndented
        >
          {open || wrong.length > 0 ? <div className="ew-fields">{order.rest.map(field)}</div> : null}
        </ExpandableSection>
      ) : null}
    </>
  );
}

/** One field, whatever it is. */
export function Field(props: FieldProps): ReactElement {
  const { name, schema, value, path, required, onChange } = props;
  switch (widgetOf(schema)) {
    case "object":
      return (
        <Group {...props}>
          <Fields schema={schema} value={value} path={path} required={required} onChange={onChange} />
        </Group>
      );
    case "list":
      return (
        <Group {...props}>
          <ListRows {...props} row={Row} />
        </Group>
      );
    case "map":
      return (
        <Group {...props}>
          <MapRows {...props} row={Row} />
        </Group>
      );
    case "check":
      return <Scalar {...props} label={name} />;
    case "yaml":
      return (
        <Labelled {...props} note={text.form.asYaml}>
          <YamlValue {...props} label={name} />
        </Labelled>
      );
    default:
      return (
        <Labelled {...props}>
          <Scalar {...props} label={name} />
        </Labelled>
      );
  }
}

/** An item of a list or the value of an entry: without a label of its own where it is one input. */
function Row(props: FieldProps): ReactElement {
  const { name, schema, value, path, onChange } = props;
  switch (widgetOf(schema)) {
    case "object":
      return (
        <div className="ew-fields">
          <Fields schema={schema} value={value} path={path} onChange={(next) => onChange(next ?? {})} />
        </div>
      );
    case "list":
    case "map":
      return <Field {...props} required />;
    case "yaml":
      return <YamlValue {...props} label={name} />;
    default:
      return (
        <>
          <Scalar {...props} label={name} onChange={(next) => onChange(next ?? "")} />
          <Faults path={path} />
        </>
      );
  }
}

/** A label, the input, and what there is to say about it. */
function Labelled({ name, schema, path, required, note, children }: FieldProps & { note?: string; children: ReactNode }): ReactElement {
  const about = firstSentence(schema.description);
  return (
    <FormGroup
      label={name}
      isRequired={required}
      fieldId={idOf(path)}
      labelHelp={
        about.more ? (
          <Popover headerContent={name} bodyContent={schema.description}>
            <FormGroupLabelHelp aria-label={text.form.about(name)} />
          </Popover>
        ) : undefined
      }
    >
      {children}
      <Help schema={schema} path={path} note={note} />
    </FormGroup>
  );
}

/** A frame around what has several fields: open where it is required, has a value or is wrong. */
function Group({ name, schema, value, path, required, children }: FieldProps & { children: ReactNode }): ReactElement {
  const { faults } = useContext(FormState);
  const [first] = useState(() => Boolean(required) || value !== undefined);
  const wrong = isWrong(faults, path);
  const header = (
    <FormFieldGroupHeader
      titleText={{ text: required ? `${name} *` : name, id: `${idOf(path)}-title` }}
      titleDescription={firstSentence(schema.description).text}
    />
  );
  const inside = (
    <>
      <Faults path={path} />
      {children}
    </>
  );
  return path.length === 1 && (required || name === "spec") ? (
    <FormSection title={name} titleElement="h2">
      {schema.description ? <p>{firstSentence(schema.description).text}</p> : null}
      {inside}
    </FormSection>
  ) : (
    <FormFieldGroupExpandable
      key={wrong ? "wrong" : "right"}
      id={idOf(path)}
      data-pointer={pointerOf(path)}
      isExpanded={first || wrong}
      toggleAriaLabel={text.form.open(name)}
      header={header}
    >
      {inside}
    </FormFieldGroupExpandable>
  );
}
