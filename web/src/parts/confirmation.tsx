// Before something is done: what it does in numbers, the same as a command, and what the server says against it.
import { Button, Modal, ModalBody, ModalFooter, ModalHeader, TextInput } from "@patternfly/react-core";
import { type ReactElement, type ReactNode, useState } from "react";

import { ProblemError } from "../api/client";
import type { Problem } from "../api/types";
import type { Commands } from "../model/commands";
import { text } from "../model/text";
import { CopyAs } from "./copy-as";
import { ProblemAlert } from "./state";

interface Props {
  title: string;
  /** The word on the button that does it. */
  verb: string;
  danger?: boolean;
  /** Whether people may say why. */
  reasoned?: boolean;
  commands: (reason: string) => Commands;
  carryOut: (reason: string) => Promise<void>;
  close: () => void;
  children: ReactNode;
}

export function Confirmation({ title, verb, danger = false, reasoned = false, commands, carryOut, close, children }: Props): ReactElement {
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const confirm = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await carryOut(reason);
    } catch (error) {
      setBusy(false);
      if (!(error instanceof ProblemError)) {
        throw error;
      }
      setProblem(error.problem);
    }
  };
  return (
    <Modal variant="small" isOpen onClose={close} aria-labelledby="confirm-title" aria-describedby="confirm-body">
      <ModalHeader title={title} labelId="confirm-title" />
      <ModalBody id="confirm-body">
        {children}
        {reasoned ? (
          <>
            <label htmlFor="reason">{text.actions.reason}</label>
            <TextInput id="reason" value={reason} onChange={(_, value) => setReason(value)} />
          </>
        ) : null}
        <CopyAs commands={commands(reason)} />
        {problem ? <ProblemAlert problem={problem} /> : null}
      </ModalBody>
      <ModalFooter>
        <Button variant={danger ? "danger" : "primary"} isLoading={busy} isDisabled={busy} onClick={() => void confirm()}>
          {verb}
        </Button>
        <Button variant="link" onClick={close}>
          {text.actions.cancel}
        </Button>
      </ModalFooter>
    </Modal>
  );
}
