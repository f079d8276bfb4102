// "Copy as": the same list, object or action as a command. Folded, as most people do not need it.
import { ClipboardCopyButton, CodeBlock, CodeBlockAction, CodeBlockCode, ExpandableSection } from "@patternfly/react-core";
import { type ReactElement, useId, useState } from "react";

import type { Commands } from "../model/commands";
import { text } from "../model/text";

/** `shown` is what is to be seen of the commands, where that is not all that is copied. */
export function CopyAs({ commands, shown = commands }: { commands: Commands; shown?: Commands }): ReactElement {
  const [open, setOpen] = useState(false);
  return (
    <ExpandableSection
      className="ew-copy"
      toggleText={text.copyAs(Object.keys(commands))}
      isExpanded={open}
      onToggle={(_, next) => setOpen(next)}
      isIndented
    >
      {open ? (
        <div className="ew-stack">
          {Object.entries(commands).map(([name, command]) => (
            <Command key={name} name={name} command={command} shown={shown[name] ?? command} />
          ))}
        </div>
      ) : null}
    </ExpandableSection>
  );
}

function Command({ name, command, shown }: { name: string; command: string; shown: string }): ReactElement {
  const id = useId();
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(command);
    setCopied(true);
  };
  const button = (
    <CodeBlockAction>
      <ClipboardCopyButton
        id={`${id}-copy`}
        textId={`${id}-text`}
        aria-label={text.copyCommand(name)}
        variant="plain"
        onClick={() => void copy()}
        onTooltipHidden={() => setCopied(false)}
      >
        {copied ? text.copied : text.copyCommand(name)}
      </ClipboardCopyButton>
    </CodeBlockAction>
  );
  return (
    <CodeBlock actions={button}>
      <CodeBlockCode id={`${id}-text`} data-command={name}>
        {shown}
      </CodeBlockCode>
    </CodeBlock>
  );
}
