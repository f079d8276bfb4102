"""A child that was called off leaves no open pipe, and does not keep whoever called it off."""

from __future__ import annotations

import asyncio
import sys

import pytest

from edgewright.runtime import child_process
from edgewright.runtime.child_process import end_child, to_the_end

# Its own child holds the pipe too, and outlives it where only one of them is killed.
PROGRAM = "import subprocess, sys; print('began', flush=True); subprocess.run([sys.executable, '-c', 'input()'])"


async def started(*, group: bool) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=group,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"began\n"
    return process


async def test_a_child_goes_with_all_that_it_started_and_its_pipes_are_closed() -> None:
    process = await started(group=True)
    await end_child(process, group=True)
    assert process.returncode == -9
    assert process.stdout is not None
    assert process.stdout.at_eof()


async def test_a_child_is_reaped_however_late_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_PIPES_WITHIN", 0.0)
    process = await started(group=True)
    await end_child(process, group=True)
    assert process.returncode == -9
    await process.communicate()


async def test_a_descendant_that_holds_the_pipe_does_not_hold_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_PIPES_WITHIN", 0.5)
    process = await started(group=True)
    async with asyncio.timeout(180):
        await end_child(process, group=False)
    assert process.returncode == -9
    assert process.stdin is not None
    process.stdin.close()
    assert process.stdout is not None
    assert await process.stdout.read() == b""


async def test_one_that_has_ended_is_left_as_it_is() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "raise SystemExit(3)")
    await process.wait()
    await end_child(process, group=False)
    assert process.returncode == 3


@pytest.mark.parametrize("turns", range(4))
async def test_a_child_is_reaped_although_its_end_is_cancelled(turns: int) -> None:
    process = await started(group=True)
    ending = asyncio.create_task(end_child(process, group=True))
    await asyncio.sleep(0)
    for _ in range(turns):
        ending.cancel()
        await asyncio.sleep(0)
    (ended,) = await asyncio.gather(ending, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError) == (turns > 0)
    assert process.returncode == -9


async def test_what_must_be_carried_out_says_how_it_ended() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        await to_the_end(fails())
