// Why rollouts leave a device alone, and the button that ends that, after a confirmation; who lacks the right sees why.
import { Alert } from "@patternfly/react-core";
import { type ReactElement, useState } from "react";

import { api, pathOf } from "../api/client";
import { address } from "../api/place";
import type { Device } from "../api/types";
import { releaseCommands } from "../model/commands";
import { text } from "../model/text";
import { Confirmation } from "./confirmation";
import { GuardedButton, useRights } from "./rights";

/** Why the caller may not release devices: it changes the Device, which says who and why, and its status. */
export function useReleaseRights(): string {
  const [device, status] = [useRights("devices"), useRights("devices/status")];
  return device.why("patch") || status.why("patch");
}

export function Quarantine({ device }: { device: Device }): ReactElement | null {
  const found = device.status?.conditions?.find((each) => each.type === "Quarantined" && each.status === "True");
  return found ? (
    <Alert component="p" variant="warning" isInline title={text.device.quarantined(found.message ?? "")}>
      <Release device={device} />
    </Alert>
  ) : null;
}

function Release({ device }: { device: Device }): ReactElement {
  const name = device.metadata.name;
  const [asks, setAsks] = useState(false);
  const why = useReleaseRights();
  const release = async (reason: string) => {
    await api("POST", `${pathOf("devices", undefined, name)}/release`, { body: reason ? { reason } : {} });
    setAsks(false);
  };
  return (
    <>
      <GuardedButton variant="secondary" why={why} onClick={() => setAsks(true)}>
        {text.quarantine.release}
      </GuardedButton>
      {asks ? (
        <Confirmation
          title={text.quarantine.title(name)}
          verb={text.quarantine.release}
          reasoned
          commands={(reason) => releaseCommands(device, reason, address())}
          carryOut={release}
          close={() => setAsks(false)}
        >
          <p>{text.quarantine.confirm(device.status?.failures ?? 0)}</p>
        </Confirmation>
      ) : null}
    </>
  );
}
