// The log of a device's flash: what its Pod writes while it is flashed, else what is kept of a flash that failed.
import { Title } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { type ReactElement, useEffect, useRef } from "react";

import { ProblemError, api, pathOf } from "../api/client";
import type { Device, FlashLog } from "../api/types";
import { text } from "../model/text";
import { Failure, Loading } from "./state";

const LIVE = 2000;

/** The log of the device's flash as it is now; all parts of a page share the one request. */
export function useFlashLog(device: Device) {
  const name = device.metadata.name;
  const claim = device.status?.claim;
  const flash = claim ? `${claim.job.namespace}/${claim.job.name}/${claim.attempt}` : `ended/${device.metadata.resourceVersion}`;
  return useQuery({
    queryKey: ["log", name, flash],
    queryFn: ({ signal }) => api<FlashLog>("GET", `${pathOf("devices", undefined, name)}/logs`, { signal }),
    refetchInterval: claim ? LIVE : false,
  });
}

export function FlashLogView({ device }: { device: Device }): ReactElement {
  const log = useFlashLog(device);
  const missing = log.error instanceof ProblemError && log.error.problem.status === 404 ? log.error.problem.detail : "";
  return (
    <section aria-label={text.device.log}>
      <Title headingLevel="h2">{text.device.log}</Title>
      {log.isPending ? <Loading /> : missing ? <p className="ew-wrap">{missing}</p> : log.error ? <Failure error={log.error} /> : <Lines log={log.data} />}
    </section>
  );
}

function Lines({ log }: { log: FlashLog }): ReactElement {
  const box = useRef<HTMLPreElement>(null);
  const follows = useRef(true);
  const written = log.lines.join("\n");
  useEffect(() => {
    // Who has scrolled up to read is left there.
    if (box.current && follows.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [written]);
  const note = ({ scrollTop, scrollHeight, clientHeight }: HTMLPreElement) => {
    follows.current = scrollTop + clientHeight >= scrollHeight - 4;
  };
  return (
    <>
      <p>{log.live ? text.log.live(log.job, log.attempt) : text.log.ended(log.job, log.outcome)}</p>
      {written ? (
        <pre ref={box} className="ew-diff ew-log" tabIndex={0} onScroll={(event) => note(event.currentTarget)}>
          {written}
        </pre>
      ) : (
        <p>{text.device.logEmpty}</p>
      )}
    </>
  );
}
