// What a change would do to an object: the lines that differ between what is there and the server's dry run.
import { Title } from "@patternfly/react-core";
import { type ReactElement, useState } from "react";
import { stringify } from "yaml";

import type { Obj } from "../api/types";
import { diff } from "../model/diff";
import type { Schema } from "../model/schema";
import { masked } from "../model/secrets";
import { text } from "../model/text";
import { RevealButton } from "./secrets";

/** As YAML with sorted fields: in which order a server sends them is no change. */
function linesOf(object: Obj | null): string {
  return object === null ? "" : stringify(object, { sortMapEntries: true });
}

export function Changes({ schema, before, after }: { schema: Schema; before: Obj | null; after: Obj }): ReactElement {
  const [revealed, setRevealed] = useState(false);
  const from = masked(schema, before);
  const to = masked(schema, after, before ?? undefined);
  const lines = (revealed ? diff(linesOf(before), linesOf(after)) : diff(linesOf(from), linesOf(to))).filter((each) => each.sign !== " " && each.text !== "");
  return (
    <section aria-label={text.object.changes}>
      <Title headingLevel="h2">{text.object.changes}</Title>
      {from === before && to === after ? null : <RevealButton revealed={revealed} onChange={setRevealed} />}
      {lines.length === 0 ? <p>{text.object.unchanged}</p> : null}
      <pre className="ew-diff">
        {lines.map((each, at) => (
          <div key={at} className={each.sign === "+" ? "ew-diff-added" : "ew-diff-removed"}>
            {each.sign} {each.text}
          </div>
        ))}
      </pre>
    </section>
  );
}
