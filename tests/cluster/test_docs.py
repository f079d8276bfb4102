"""Every command that the README and the docs show is run here, page by page, against a real API server.

A page is one shell session, as it is for its reader: what a command sets or starts is there for the next one. `python`
and `edgewright` come from this environment, `kubectl` from the Kubernetes that the tests run on.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from edgewright.devices.timescale import TIME_SCALE
from tests.documents import ON_MACHINES, ROOT, Command, blocks, commands, matches, pages
from tests.harness import ControlPlane, programs

_SECONDS_A_PAGE = 600
_SCALE = 0.2
"""How fast simulated devices and their flashers live: what a page shows does not depend on it."""
_END = re.compile(r"^--- end of (\d+): (\d+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane with nothing in it; its logs are kept when a test fails."""
    failed_before = request.session.testsfailed
    control_plane = ControlPlane(parts={"controller-manager"})
    try:
        control_plane.start()
        yield control_plane
    finally:
        control_plane.stop(keep=request.session.testsfailed > failed_before)


def environment(server: ControlPlane, home: Path) -> dict[str, str]:
    path = (sysconfig.get_path("scripts"), str(programs.directory()), os.environ["PATH"])
    return {
        "PATH": os.pathsep.join(path),
        "HOME": str(home),
        "KUBECONFIG": str(server.kubeconfig),
        "CHECKOUT": str(ROOT),
        "XDG_CACHE_HOME": str(programs.directory().parents[2]),
        "LANG": "C.UTF-8",
        TIME_SCALE: str(_SCALE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def script(todo: list[Command]) -> str:
    """One session: each command as it is written, then a line with its exit code."""
    steps = [f'{each.text}\ncode=$?; echo; echo "--- end of {number}: $code"' for number, each in enumerate(todo)]
    return "\n".join(["set -m", *steps])


def run(todo: list[Command], *, folder: Path, env: dict[str, str]) -> list[tuple[int, str]]:
    """The exit code and the output of each command; what the session left running is ended."""
    # Into a file and not a pipe: what a page starts in the background may keep its output open.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        session = subprocess.Popen(
            ["bash", "-c", script(todo)],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        hung = False
        try:
            session.wait(timeout=_SECONDS_A_PAGE)
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            _end_session(session)
        output.seek(0)
        printed = output.read()
    found: list[tuple[int, str]] = []
    begin = 0
    for end in _END.finditer(printed):
        found.append((int(end[2]), printed[begin : end.start()].removesuffix("\n")))
        begin = end.end() + 1
    why = f"not done after {_SECONDS_A_PAGE} s" if hung else "the session ended early"
    assert len(found) == len(todo), f"{todo[len(found)]}: {why}: {printed[-2000:]}"
    return found


def _end_session(session: subprocess.Popen[bytes]) -> None:
    """Ends whatever still belongs to the session: with job control each job is a process group of its own."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if os.getsid(int(entry.name)) == session.pid:
                    os.kill(int(entry.name), signal.SIGKILL)
            except ProcessLookupError:
                continue
    session.wait()


def once(found: Iterable[Command]) -> list[Command]:
    """The commands without a target of the Makefile that the page has shown before, and shows no output of."""
    kept: dict[str, Command] = {}
    for number, each in enumerate(found):
        plain = each.text.partition(" #")[0].strip()
        again = plain in kept and plain.startswith("make ") and not each.output
        kept[f"{number}: {plain}" if not again and plain in kept else plain] = kept[plain] if again else each
    return list(kept.values())


PAGES = [page for page in pages() if commands(page) and page not in ON_MACHINES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_the_page_works_and_prints_what_the_page_shows(
    page: Path, server: ControlPlane, tmp_path: Path
) -> None:
    files = [block for block in blocks(page) if block.file]
    for block in files:
        (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    todo = once(command for command in commands(page) if command.target is None)
    # A page that has files of its own is followed in a folder of its own, the others in the checkout.
    results = run(todo, folder=tmp_path if files else ROOT, env=environment(server, tmp_path))
    for command, (code, printed) in zip(todo, results, strict=True):
        assert code == 0, f"{command} ended with {code}: {printed}"
        if command.output:
            shown = "\n".join(command.output)
            assert matches(command.output, printed), f"{command} printed\n{printed}\nand the page shows\n{shown}"
