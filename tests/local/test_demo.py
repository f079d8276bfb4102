"""`edgewright demo` as people start it: in a log, on a terminal, kept and interrupted."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness import wait_until
from tests.local.up import asked
from tests.unit.cli.command import PROGRAM, environment

PATIENCE = 300.0
"""Seconds, on a machine that does other things too; the demo itself says how many it took."""


def test_in_a_log_it_proves_what_it_claims_and_is_kept_until_it_is_told_to_stop(tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as stdout, err.open("w") as stderr:
        process = subprocess.Popen([PROGRAM, "demo", "--keep"], stdout=stdout, stderr=stderr, env=environment())
    try:
        wait_until(
            lambda: "docs/README.md" in out.read_text() or process.poll() is not None,
            what="it has shown everything",
            timeout=PATIENCE,
        )
        said = out.read_text()
        assert process.poll() is None, said + err.read_text()
        assert "\x1b" not in said
        assert len(re.findall(r"^  ✓ ", said, re.MULTILINE)) == 8
        assert "✗" not in said
        assert re.search(r"What was proven, \d+ s after the start", said)
        assert len(set(re.findall(r"^\S+ device (\S+): Done, runs 0\.2\.0$", said, re.MULTILINE))) == 11
        assert re.search(r"^\S+ rollout thermometer-0\.3\.0: Recalled, .*1 regressed", said, re.MULTILINE)
        for number in range(1, 13):
            assert re.search(rf"^{number} +(athens|berlin|cork) +0\.[12]\.0 ", said, re.MULTILINE)

        kubeconfig = re.search(r"export KUBECONFIG=(\S+)", said)
        assert kubeconfig is not None
        devices = asked(Path(kubeconfig[1]), "/apis/edgewright.dev/v1alpha1/devices")["items"]
        outcomes = sorted(each["status"]["lastFlash"]["outcome"] for each in devices)
        assert outcomes in (["refused", *["succeeded"] * 11], ["refused", "reverted", *["succeeded"] * 10])

        link = re.search(r"^  (http://127\.0\.0\.1:\d+)/sign-in#\S+$", said, re.MULTILINE)
        assert link is not None
        with urllib.request.urlopen(f"{link[1]}/healthz", timeout=60) as answer:
            assert answer.read() == b"ok"

        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert err.read_text() == ""
        assert not Path(kubeconfig[1]).exists()
    finally:
        process.kill()
        process.wait()


@contextmanager
def terminal(command: list[str | Path]) -> Iterator[tuple[subprocess.Popen[bytes], list[bytes]]]:
    """A command on a terminal of its own, and what it has shown so far."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(TERM="xterm-256color"),
        start_new_session=True,
    )
    os.close(theirs)
    shown: list[bytes] = []

    def read() -> None:
        while True:
            try:
                data = os.read(ours, 65_536)
            except OSError:  # as Linux says that nobody is at the other end any more
                return
            if not data:
                return
            shown.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield process, shown
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(ours)


def test_on_a_terminal_it_has_colours_and_an_interruption_leaves_nothing_behind(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with terminal([PROGRAM, "demo", "--data", data]) as (process, shown):

        def at_work() -> bool:
            assert process.poll() is None, b"".join(shown).decode()
            return b"is being flashed" in b"".join(shown)

        wait_until(at_work, what="devices are being flashed", timeout=PATIENCE)
        assert processes_of(data)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        text = b"".join(shown).decode()
    assert re.search(r"\x1b\[\d+mFlashing", text)
    assert re.search(r"\x1b\[\d+A", text), "the tree is drawn again in its place"
    assert "Traceback" not in text
    wait_until(lambda: not processes_of(data), what="its flash Pods are gone")


def processes_of(data: Path) -> list[str]:
    """The processes of flash Pods: the data directory is in their arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names are all that is wanted
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        except OSError:
            continue
        if str(data) in words and "\0demo\0" not in words:
            found.append(words)
    return found
