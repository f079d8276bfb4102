// The steps of a form, in order: where one is, where something is wrong, and the way to each.
import { Button } from "@patternfly/react-core";
import ExclamationCircleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon";
import type { ReactElement } from "react";

import { text } from "../model/text";

export interface Step<T extends string> {
  id: T;
  name: string;
  isWrong: boolean;
}

interface Props<T extends string> {
  steps: Step<T>[];
  at: T;
  go: (step: T) => void;
}

export function Steps<T extends string>({ steps, at, go }: Props<T>): ReactElement {
  return (
    <nav aria-label={text.create.steps}>
      <ol className="ew-steps">
        {steps.map(({ id, name, isWrong }, place) => (
          <li key={id}>
            <Button
              variant={id === at ? "secondary" : "link"}
              aria-current={id === at ? "step" : undefined}
              icon={isWrong ? <ExclamationCircleIcon title={text.create.stepWrong} /> : undefined}
              onClick={() => go(id)}
            >
              {text.create.step(place + 1, name)}
            </Button>
          </li>
        ))}
      </ol>
    </nav>
  );
}
