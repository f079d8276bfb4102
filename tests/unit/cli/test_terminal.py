"""What a person sees: in a real pseudo-terminal of 80 and of 200 columns, through a pipe, and without colours."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.device import Device, DeviceSpec
from edgewright.api.firmwarerollout import FirmwareRollout, FirmwareRolloutSpec
from edgewright.cli import terminal
from edgewright.runtime.objects import Key, ObjectMeta
from tests.unit.cli.command import PROGRAM, environment
from tests.unit.cli.typed import Plane

NAME = "spring-update"
LONG = "waits for the window, which opens at 22:00 in Europe/Athens, and for the two devices of site north " * 2
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@pytest.fixture(scope="module")
def rollout(plane: Plane) -> str:
    async def make(client: Any) -> None:
        spec = FirmwareRolloutSpec(firmware="registry.example/team/thermometer:1.4.0", version="1.4.0")
        made = FirmwareRollout(metadata=ObjectMeta(name=NAME, namespace="default"), spec=spec)
        await client.of(FirmwareRollout).create(made)
        status = {
            "observedGeneration": 1,
            "phase": "Completed",
            "progress": "3/3",
            "message": LONG,
            "batches": [{"number": 1, "name": "canary", "phase": "Passed", "size": 3, "done": 3, "message": LONG}],
        }
        await client.of(FirmwareRollout).patch(Key("default", NAME), {"status": status}, subresource="status")
        device = Device(metadata=ObjectMeta(name="door-1"), spec=DeviceSpec(type="esp32", endpoint="192.0.2.1"))
        await client.of(Device).create(device)

    plane.do(make)
    return NAME


def seen(plane: Plane, columns: int, *words: str, **more: str) -> tuple[int, str]:
    """What a command writes to a terminal of so many columns, and what it ends with."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = environment(TERM="xterm-256color", LANG="C.UTF-8", KUBECONFIG=str(plane.kubeconfig), **more)
    with subprocess.Popen([PROGRAM, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        text = b""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 1.0)[0]:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # everybody has closed it
                    break
                if not part:
                    break
                text += part
            elif process.poll() is not None:
                break
        code = process.wait(60)
    os.close(ours)
    return code, text.decode()


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("words", [("get",), ("watch",)], ids=["get", "watch"])
def test_a_terminal_gets_a_tree_in_colours_that_fits(
    plane: Plane, rollout: str, columns: int, words: tuple[str, ...]
) -> None:
    code, text = seen(plane, columns, "rollout", *words, rollout)
    assert code == 0, text
    assert "\x1b[32mCompleted\x1b[0m" in text
    assert "└─ canary (1): " in text
    lines = [ANSI.sub("", line.rstrip("\r")) for line in text.split("\n")]
    assert max(map(len, lines)) <= columns
    assert (max(map(len, lines)) > 80) is (columns == 200)


@pytest.mark.parametrize("columns", [80, 200])
def test_a_table_fits_the_terminal(plane: Plane, rollout: str, columns: int) -> None:
    code, text = seen(plane, columns, "devices", "list")
    assert code == 0, text
    lines = [ANSI.sub("", line.rstrip("\r")) for line in text.split("\n")]
    assert max(map(len, lines)) <= max(columns, 90)
    assert "door-1" in text


def test_no_color_takes_the_colours_and_nothing_else(plane: Plane, rollout: str) -> None:
    _, coloured = seen(plane, 80, "rollout", "get", rollout)
    code, plain = seen(plane, 80, "rollout", "get", rollout, NO_COLOR="1")
    assert code == 0
    assert "\x1b" not in plain
    assert plain == ANSI.sub("", coloured)


def test_a_pipe_gets_whole_lines_without_colours_and_in_ascii_where_that_is_all(plane: Plane, rollout: str) -> None:
    for language, branch in (("C.UTF-8", "└─ canary"), ("C", "`- canary")):
        env = environment(
            TERM="xterm-256color",
            KUBECONFIG=str(plane.kubeconfig),
            LC_ALL=language,
            PYTHONIOENCODING="utf-8" if language != "C" else "ascii",
        )
        words = [str(PROGRAM), "rollout", "get", rollout]
        done = subprocess.run(words, capture_output=True, env=env, check=True, timeout=60)
        text = done.stdout.decode()
        assert "\x1b" not in text
        assert branch in text
        assert LONG.strip() in text
        assert done.stderr == b""


def test_questions_are_asked_on_a_terminal_in_the_words_of_the_script(plane: Plane, tmp_path: Path) -> None:
    code, text = seen(plane, 80, "rollout", "create", "--file", str(tmp_path / "job.yaml"))
    # This plane serves no Instances; nothing is asked before that is known.
    assert code == 1
    assert "is Akri installed?" in text


@pytest.mark.parametrize(
    ("environ", "tty", "colours"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, False, True),
        ({"CLICOLOR_FORCE": "0"}, False, False),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_colours_are_for_terminals_unless_somebody_says_otherwise(
    environ: dict[str, str], tty: bool, colours: bool
) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return tty

    assert terminal.coloured(Stream(), environ) is colours


def test_a_moment_is_said_in_utc() -> None:
    now = datetime(2026, 11, 17, 12, tzinfo=UTC)
    assert terminal.stamp(now) == "2026-11-17T12:00:00Z"
    closed = io.StringIO()
    closed.close()
    assert not terminal.is_terminal(closed)


def test_a_screen_is_drawn_again_in_its_place_and_never_longer_than_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LINES", "4")
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    screen = terminal.Screen(stream)
    screen.draw(["a", "b"])
    screen.draw(["a", "b", "c", "d", "e"])
    assert stream.getvalue() == "a\nb\n\x1b[2A\r\x1b[Ja\nb\n… and 3 more lines\n"


def test_a_question_is_answered_by_a_person_or_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal.asks("Really?", yes=True)
    assert terminal.asks("Really?", yes=False)  # nobody is there to be asked
    monkeypatch.setattr(terminal, "is_terminal", lambda _: True)
    for answer, goes_on in (("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        assert terminal.asks("Really?", yes=False) is goes_on
