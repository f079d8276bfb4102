// What a rollout would do: its batches, and who is left out and why.
import { Title } from "@patternfly/react-core";
import type { ReactElement } from "react";

import type { Plan } from "../api/types";
import { text } from "../model/text";

/** So many devices, and so many of those that are left out, are named. */
const NAMED = 20;

export function PlanView({ plan }: { plan: Plan }): ReactElement {
  return (
    <section aria-label={text.create.plan}>
      <Title headingLevel="h2">{text.create.plan}</Title>
      <p>
        {text.create.planned(plan.total)}, {text.create.current(plan.current)}, {text.create.excluded(plan.excludedCount)}.
      </p>
      <ol>
        {plan.batches.map((each) => (
          <li key={each.number} className="ew-wrap">
            {each.name}: {each.size} ({each.devices.slice(0, NAMED).join(", ")}
            {each.size > NAMED ? ", …" : ""}) {each.soakSeconds ? `${each.soakSeconds} ${text.create.seconds}` : ""}
            {each.manual ? ` ${text.create.approval}` : ""}
          </li>
        ))}
      </ol>
      <ul>
        {Object.entries(plan.excluded)
          .slice(0, NAMED)
          .map(([name, why]) => (
            <li key={name} className="ew-wrap">
              {name}: {why}
            </li>
          ))}
      </ul>
    </section>
  );
}
