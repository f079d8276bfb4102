"""Opens the host ports of workloads in a table of nftables that is the agent's own; no other table is touched.

The table is replaced as a whole in one transaction, from the ports that are wanted: a pure text. A rule that accepts
here cannot undo a drop in somebody else's table; docs/edge-agent.md says what to do then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from edgewright.agent.manifest import Port
from edgewright.agent.programs import ProgramError, run_program

TABLE: Final = "edgewright_agent"
_SECONDS: Final = 20.0


class FirewallError(Exception):
    """The rules could not be set, with the words of nft."""


class Firewall(Protocol):
    """What opens ports."""

    async def open(self, ports: Mapping[str, Sequence[Port]]) -> None:
        """Makes these ports, by workload, the only ones that are open on our behalf."""

    async def clear(self) -> None:
        """Removes every rule of ours."""


class NoFirewall:
    """A device whose ports are open, or opened by others."""

    async def open(self, ports: Mapping[str, Sequence[Port]]) -> None:
        """Does nothing."""

    async def clear(self) -> None:
        """Does nothing."""


class Nftables:
    """The kernel's own firewall, through the program nft."""

    def __init__(self, program: str = "nft") -> None:
        self._program = program
        self._set: str | None = None

    async def open(self, ports: Mapping[str, Sequence[Port]]) -> None:
        """Sets the table where it is not as it must be; one that somebody removed is set again."""
        wanted = script(ports)
        if wanted == self._set and await self._is_there():
            return
        await self._run("-f", "-", script=wanted)
        self._set = wanted

    async def clear(self) -> None:
        """Removes the table."""
        self._set = None
        await self._run("-f", "-", script=f"add table inet {TABLE}\ndelete table inet {TABLE}\n")

    async def _is_there(self) -> bool:
        try:
            await self._run("list", "table", "inet", TABLE)
        except FirewallError:
            return False
        return True

    async def _run(self, *arguments: str, script: str = "") -> None:
        try:
            await run_program([self._program, *arguments], script=script, seconds=_SECONDS)
        except ProgramError as error:
            raise FirewallError(str(error)) from error


def script(ports: Mapping[str, Sequence[Port]]) -> str:
    """The whole table as nft reads it: a chain for each workload, reached from the hooks that a packet may come by."""
    chains = {workload: sorted(set(each)) for workload, each in sorted(ports.items()) if each}
    lines = [f"add table inet {TABLE}", f"delete table inet {TABLE}", f"table inet {TABLE} {{"]
    for workload, each in chains.items():
        lines.append(f"  chain {chain(workload)} {{")
        for port in each:
            state = "ct state new,established"
            # To a program on the host itself, and to a pod: there podman has changed the port already.
            lines += [
                f"    {port.protocol} dport {port.number} {state} counter accept",
                f"    meta l4proto {port.protocol} ct original proto-dst {port.number} {state} counter accept",
            ]
        lines.append("  }")
    for hook in ("input", "forward"):
        lines.append(f"  chain {hook} {{")
        lines.append(f"    type filter hook {hook} priority filter - 10; policy accept;")
        lines += [f"    jump {chain(workload)}" for workload in chains]
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def chain(workload: str) -> str:
    """The name of a workload's chain: nft takes no dots, and no more than 127 letters."""
    name = "wl-" + workload.replace(".", "_")
    return name if len(name) < 128 else f"{name[:110]}_{hashlib.sha256(name.encode()).hexdigest()[:16]}"
