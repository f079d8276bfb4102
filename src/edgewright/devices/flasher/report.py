"""Keeps the account of one run: the report so far, the log, the progress, and what is being waited for.

The roles and the drivers tell it what they do; the program writes its report as the Pod's termination message. It
decides nothing, and what looks like a secret comes out neither in the log nor in the report.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from edgewright.api.flash_pod import (
    LOG_LINES,
    TERMINATION_LOG,
    TERMINATION_LOG_VARIABLE,
    Outcome,
    Phase,
    Report,
    encode_report,
)
from edgewright.devices.drivers.driver import Identity
from edgewright.devices.flasher.proof import Verdict, fingerprint
from edgewright.runtime.clock import Clock
from edgewright.runtime.redaction import mask
from edgewright.runtime.text import cut

_MAX_LINE: Final = 300
# A device's name or a server's answer must not move the cursor of whoever reads the log.
_CONTROL: Final = dict.fromkeys((*range(32), *range(127, 160), 0x2028, 0x2029), " ")


def one_line(text: str) -> str:
    """A text as one line of the log: no secrets, no control characters, not too long."""
    return cut(mask(text).translate(_CONTROL), _MAX_LINE)


class Account:
    """What is known of one run."""

    def __init__(
        self, *, clock: Clock, say: Callable[[str], None] = print, save: Callable[[bytes], None] = lambda _body: None
    ) -> None:
        self.report = Report()
        self.before: Identity | None = None
        """What the device said at first."""
        self.waiting_for = "its order"
        """What the run waits for now, for the progress line and for the message of a run that took too long."""
        self.sending = False
        """Whether the firmware is being sent: from before the first byte until the order to restart with it."""
        self._clock = clock
        self._since = clock.elapsed()
        self._say = say
        self._save = save
        self._lines: deque[str] = deque(maxlen=LOG_LINES)
        self._progress_line = ""
        self._remark = ""
        self._phase: Phase | None = None
        self._entered = 0.0
        self._sent = 0
        self._most_sent = 0
        self._all = 0

    @property
    def written(self) -> bool:
        """Whether anything was sent to the device that may have changed it."""
        return self.report.written

    @property
    def all_sent(self) -> bool:
        """Whether the last byte of the firmware is out: what the device does with it is no longer in our hands."""
        return 0 < self._all <= self._sent

    def log(self, line: str) -> None:
        """Says a line and remembers it, in case it goes wrong."""
        line = one_line(line)
        self._keep_progress()
        self._lines.append(line)
        self._say(line)

    def wait_for(self, what: str) -> None:
        """Says what comes next; with it the bytes of the stage before are forgotten."""
        self.waiting_for = what
        self._sent = self._all = 0

    def enter(self, phase: Phase) -> None:
        """Notes that a phase begins, which ends the one before."""
        self._leave()
        self._phase, self._entered = phase, self._clock.elapsed()

    def _leave(self) -> None:
        if self._phase is not None:
            now = self._clock.elapsed()
            seconds = self.report.phases.get(self._phase, 0.0) + now - self._entered
            self.note(phases={**self.report.phases, self._phase.value: round(seconds, 3)})
            self._entered = now

    def progress(self, sent: int, total: int) -> None:
        """Takes bytes sent and bytes in all, as often as a driver likes."""
        self._sent, self._all = sent, total
        self._most_sent = max(self._most_sent, sent)

    def tick(self) -> None:
        """Says how far it is: the program calls it once a second. In the report only the last such line stays."""
        seconds = self._clock.elapsed() - self._since
        if self._all and self._sent < self._all:
            how_far = f"{100 * self._sent // self._all} % of {self._all} bytes sent"
        else:
            how_far = f"waiting for {self.waiting_for}"
        self._progress_line = one_line(f"{how_far}, {seconds:.0f} s")
        self._say(self._progress_line)

    def note(self, **fields: object) -> None:
        """Puts fields into the report; what devices and servers wrote is plain text there, as in the log."""
        plain = {name: text.translate(_CONTROL) if type(text) is str else text for name, text in fields.items()}
        self.report = msgspec.structs.replace(self.report, **plain)

    def saw_before(self, device: Identity) -> None:
        """Notes what the device said at first."""
        self.before = device
        self._saw(device, version_before=device.version)

    def saw_after(self, device: Identity, *, rebooted: bool) -> None:
        """Notes what the device said at last."""
        self._saw(device, version_after=device.version, rebooted=rebooted)

    def _saw(self, device: Identity, **fields: object) -> None:
        told = {"device": device.device, "application": device.application, "observed": self._clock.now(), **fields}
        if device.certificate:
            told["certificate"] = fingerprint(device.certificate)
        self.note(**told)

    def remark(self, line: str) -> None:
        """Says a line that whoever reads the outcome must see as well: it follows the report's message."""
        self.log(line)
        self._remark = f"; {line}"

    def writing(self) -> None:
        """Notes that the device is being changed from now on, so that even a killed flasher has told that."""
        if self.report.written:
            return
        self.note(written=True)
        self.save(
            Verdict(Outcome.FAILED, "the flasher was ended from outside while the device was being flashed"),
        )

    def save(self, verdict: Verdict) -> Report:
        """Writes the report with this verdict where the Pod's termination message is taken from, and gives it."""
        self._keep_progress()
        self._leave()
        self.note(
            outcome=verdict.outcome,
            message=mask(verdict.message + self._remark),
            sent=self._most_sent,
            seconds=round(self._clock.elapsed() - self._since, 3),
            log=() if verdict.outcome.good else tuple(self._lines),
        )
        self._save(encode_report(self.report))
        return self.report

    def _keep_progress(self) -> None:
        if self._progress_line:
            self._lines.append(self._progress_line)
            self._progress_line = ""


def termination_log(environ: Mapping[str, str]) -> Path | None:
    """The file that becomes the termination message; None outside of a Pod, where nobody reads one."""
    if named := environ.get(TERMINATION_LOG_VARIABLE):
        return Path(named)
    usual = Path(TERMINATION_LOG)
    return usual if usual.is_file() else None


def save_to(path: Path | None) -> Callable[[bytes], None]:
    """What writes a report to that file in one piece; a file that cannot be written keeps no device from its flash."""

    def save(body: bytes) -> None:
        if path is None:
            return
        with suppress(OSError):
            # Not by a new file and a rename: Kubernetes mounts this very file.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                # Padded, so that not even a flasher killed between the two leaves something that is no JSON.
                os.write(handle, body.ljust(os.fstat(handle).st_size))
                os.ftruncate(handle, len(body))
            finally:
                os.close(handle)

    return save
