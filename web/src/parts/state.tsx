// Small things that every page shows: a state as icon, word and colour; problems; emptiness; what is not live.
import {
  Alert,
  Bullseye,
  Button,
  EmptyState,
  EmptyStateBody,
  Label,
  Spinner,
} from "@patternfly/react-core";
import BanIcon from "@patternfly/react-icons/dist/esm/icons/ban-icon";
import CheckCircleIcon from "@patternfly/react-icons/dist/esm/icons/check-circle-icon";
import ExclamationCircleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon";
import InProgressIcon from "@patternfly/react-icons/dist/esm/icons/in-progress-icon";
import PauseCircleIcon from "@patternfly/react-icons/dist/esm/icons/pause-circle-icon";
import QuestionCircleIcon from "@patternfly/react-icons/dist/esm/icons/question-circle-icon";
import type { ReactElement, ReactNode } from "react";

import { ProblemError } from "../api/client";
import type { Live } from "../api/live";
import { prefix } from "../api/place";
import type { Problem } from "../api/types";
import { type Colour, STATE_COLOUR, phaseColour } from "../model/states";
import type { Placed } from "../model/pointer";
import { text } from "../model/text";
import { useAnnouncement } from "./announcer";

const ICONS: Record<Colour, ReactElement> = {
  green: <CheckCircleIcon />,
  red: <ExclamationCircleIcon />,
  orange: <PauseCircleIcon />,
  blue: <InProgressIcon />,
  purple: <BanIcon />,
  grey: <QuestionCircleIcon />,
};

export function StateLabel({ state }: { state: string }): ReactElement {
  const colour = STATE_COLOUR[state] ?? "grey";
  return (
    <Label color={colour} icon={ICONS[colour]} isCompact>
      {text.states[state] ?? state}
    </Label>
  );
}

export function PhaseLabel({ phase }: { phase: string }): ReactElement {
  const colour = phaseColour(phase);
  return (
    <Label color={colour} icon={ICONS[colour]} isCompact>
      {phase || text.rollout.pending}
    </Label>
  );
}

interface ProblemProps {
  problem: Problem;
  title?: string;
  /** Leads to the field at fault, where there is a form. */
  pick?: (pointer: string) => void;
  at?: Placed;
}

/** What the server refused, with the fields at fault. */
export function ProblemAlert({ problem, title, pick, at }: ProblemProps): ReactElement {
  const told =
    problem.status === 403 ? text.forbidden(problem.verb ?? "", problem.resource ?? "", problem.user ?? "") : problem.detail;
  const errors = problem.errors ?? [];
  const fields = Object.keys(at?.fields ?? {});
  /** The field of the form that shows an error: the longest that its pointer begins with. */
  const fieldOf = (pointer: string) =>
    fields.filter((each) => pointer === each || pointer.startsWith(`${each}/`)).sort((a, b) => b.length - a.length)[0];
  return (
    <Alert component="p" variant={problem.status === 403 ? "warning" : "danger"} title={title ?? problem.title} isInline>
      {errors.length && pick ? null : <p className="ew-wrap">{told}</p>}
      {errors.length ? (
        <ul>
          {errors.map((each) => {
            const field = fieldOf(each.pointer);
            return (
              <li key={each.pointer + each.detail}>
                {pick && field ? (
                  <Button variant="link" isInline onClick={() => pick(field)}>
                    {each.pointer}
                  </Button>
                ) : (
                  <code>{each.pointer}</code>
                )}{" "}
                {each.detail}
              </li>
            );
          })}
        </ul>
      ) : null}
      {problem.signIn ? <a href={prefix + problem.signIn}>{text.signIn.again}</a> : null}
    </Alert>
  );
}

export function Failure({ error }: { error: unknown }): ReactElement {
  if (error instanceof ProblemError) {
    return <ProblemAlert problem={error.problem} />;
  }
  return <Alert component="p" variant="danger" title={String(error)} isInline />;
}

export function Loading(): ReactElement {
  return (
    <Bullseye>
      <Spinner aria-label={text.loading} />
    </Bullseye>
  );
}

export function Nothing({ title, children }: { title: string; children?: ReactNode }): ReactElement {
  return (
    <EmptyState titleText={title} headingLevel="h2">
      {children ? <EmptyStateBody>{children}</EmptyStateBody> : null}
    </EmptyState>
  );
}

/** Since when what is shown is not live, where it is not. */
export function NotLive({ live }: { live: Live<unknown> }): ReactElement | null {
  const told = live.state === "stale" ? text.notLive(live.since?.toLocaleTimeString() ?? "") : "";
  useAnnouncement("live", told || (live.state === "live" ? text.live : ""));
  return told ? <Alert component="p" variant="warning" isInline title={told} /> : null;
}

/** Shows what is live: the page's content, greyed while it is stale, or what is in its way. */
export function LiveView<T>({ live, children }: { live: Live<T>; children: (items: T[]) => ReactNode }): ReactElement {
  if (live.state === "loading") {
    return <Loading />;
  }
  if (live.state === "failed") {
    return live.problem ? <ProblemAlert problem={live.problem} /> : <Failure error={text.notLive("")} />;
  }
  return (
    <>
      <NotLive live={live} />
      <div className={live.state === "stale" ? "ew-stale" : ""}>{children(live.items)}</div>
    </>
  );
}
