// YAML in which secrets are masked, and the button that shows them to who asks for it.
import { Button } from "@patternfly/react-core";
import { type ReactElement, useState } from "react";
import { stringify } from "yaml";

import type { Schema } from "../model/schema";
import { masked } from "../model/secrets";
import { text } from "../model/text";

interface RevealProps {
  revealed: boolean;
  onChange: (revealed: boolean) => void;
}

export function RevealButton({ revealed, onChange }: RevealProps): ReactElement {
  return (
    <Button variant="link" isInline aria-pressed={revealed} onClick={() => onChange(!revealed)}>
      {text.form.reveal}
    </Button>
  );
}

/** A value as YAML; its secrets are masked until somebody wants to see them. */
export function MaskedYaml({ schema, value }: { schema?: Schema; value: unknown }): ReactElement {
  const [revealed, setRevealed] = useState(false);
  const shown = masked(schema, value);
  return (
    <>
      {shown === value ? null : <RevealButton revealed={revealed} onChange={setRevealed} />}
      <pre className="ew-diff">{stringify(revealed ? value : shown)}</pre>
    </>
  );
}
