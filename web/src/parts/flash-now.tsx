// Where a flash under way is: its steps, and the bytes that are sent, as far as its log tells; nothing is made up.
import { ProgressStep, ProgressStepper, Title } from "@patternfly/react-core";
import type { ReactElement } from "react";

import type { Device } from "../api/types";
import { type Step, stepsAt } from "../model/steps";
import { text } from "../model/text";
import { useAnnouncement } from "./announcer";
import { useFlashLog } from "./flash-log";

const VARIANTS = { done: "success", current: "info", later: "pending" } as const;

export function FlashNow({ device }: { device: Device }): ReactElement {
  const name = device.metadata.name;
  const steps = stepsAt(useFlashLog(device).data?.step);
  const current = steps.find((each) => each.standing === "current");
  useAnnouncement(`${name} step`, current ? text.now.heard(name, current.name) : "");
  return (
    <section aria-label={text.now.title}>
      <Title headingLevel="h2">{text.now.title}</Title>
      {steps.length ? <Steps steps={steps} /> : <p>{text.now.unknown}</p>}
    </section>
  );
}

function Steps({ steps }: { steps: Step[] }): ReactElement {
  return (
    <ProgressStepper isCompact={false} aria-label={text.now.title}>
      {steps.map(({ name, standing, told }, index) => (
        <ProgressStep
          key={name}
          id={`step-${index}`}
          titleId={`step-title-${index}`}
          variant={VARIANTS[standing]}
          isCurrent={standing === "current"}
          description={told || text.now[standing]}
        >
          {name}
        </ProgressStep>
      ))}
    </ProgressStepper>
  );
}
