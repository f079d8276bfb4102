"""Runs the few programs of the machine that the agent needs: nft, mount, and the hook that updates the system.

`firewall`, `mounts` and `system_updates` call it, with a fixed program and checked arguments: nothing that the gateway
sends is ever run, and no shell is in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from edgewright.runtime.child_process import end_child


class ProgramError(Exception):
    """A program could not be run or failed, with its own words."""


async def run_program(command: Sequence[str], *, script: str = "", seconds: float = 20.0) -> str:
    """Runs a program and gives what it printed; ProgramError where it fails or takes too long."""
    program = command[0]
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ProgramError(f"{program} cannot be run: {error.strerror or error}") from error
    try:
        async with asyncio.timeout(seconds):
            printed, said = await process.communicate(script.encode())
    except TimeoutError:
        await end_child(process, group=True)
        raise ProgramError(f"{program} did not end within {seconds:g} s") from None
    except asyncio.CancelledError:
        await end_child(process, group=True)
        raise
    if process.returncode:
        words = " ".join(said.decode(errors="replace").split())[:500]
        raise ProgramError(f"{program}: {words or f'exit code {process.returncode}'}")
    return printed.decode(errors="replace")
