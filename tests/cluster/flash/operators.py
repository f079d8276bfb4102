"""Operators as processes that trouble befalls while devices are flashed: one that is killed, or two that lead in turn.

Scenarios run `at_work` next to their jobs. When something befalls an operator is chosen by chance, and counted in what
has happened to the devices by then, so that it falls into the middle of the work however fast the machine is.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from edgewright.cli.operator_options import LEASE
from edgewright.runtime.errors import NotFound
from edgewright.runtime.lease import Lease
from edgewright.runtime.objects import Key
from tests.cluster.flash.stage import Stage
from tests.harness import Process, wait_until_async
from tests.harness.localplane import PROGRAM

T = TypeVar("T")

PATIENCE = 300.0
_EACH = 5
"""So much happens to a device at least, that is flashed: trouble is spread over the first so many entries a device."""
_LOST = (1, -signal.SIGALRM)
"""How an operator ends that lost its lease: with a sentence, or in the middle of a send by the kernel."""


@dataclass(frozen=True)
class Trouble:
    """What befalls the operators of a run."""

    kills: int = 0
    """How often the only one is killed; it has no lease, and another begins at once."""
    behind: float = 0.0
    """By how many seconds caches are behind, at the most."""
    changes: int = 0
    """How often the lease is taken from whichever of two leads: it is killed, or stopped until the other leads."""
    command: bool = False
    """Whether the two are `edgewright run` as people type it, with the times that it has."""


@asynccontextmanager
async def at_work(stage: Stage, directory: Path, trouble: Trouble, chance: random.Random) -> AsyncIterator[None]:
    """Operators next to the block, while trouble befalls them; their logs are in the directory.

    At the end of the block the lease must have changed hands as often as it was to.
    """
    lease = LEASE if trouble.command else "operator"
    names = ("one", "two") if trouble.changes else ("operator",)
    operators = {name: _operator(stage, directory, name, trouble) for name in names}
    rivals = Rivals(stage, operators, lease=lease)
    befalling = (
        rivals.change(trouble.changes, chance)
        if trouble.changes
        else _kill(stage, operators["operator"], trouble.kills, chance)
    )
    for operator in operators.values():
        operator.start()
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(befalling)  # where it fails, the block ends
            yield
            task.cancel()
        assert rivals.changes == trouble.changes, f"{rivals.changes} of {trouble.changes} times another one led"
    finally:
        for operator in operators.values():
            operator.kill()


def _operator(stage: Stage, directory: Path, name: str, trouble: Trouble) -> Process:
    if not trouble.command:
        return stage.operator_process(directory, name=name, lease=bool(trouble.changes), behind=trouble.behind)
    settings = stage.settings
    command = ["/usr/bin/env", f"POD_NAME={name}", str(PROGRAM), "run", "--local"]
    command += ["--kubeconfig", str(stage.server.kubeconfig), "--lease-namespace", stage.namespace]
    command += ["--attestation", settings.attestation]
    for registry in settings.plain_registries:
        command += ["--plain-registry", registry]
    return Process(name, command, log=directory / f"{name}.log", ready=lambda: True)


async def _until_happened(stage: Stage, moment: int, tended: Callable[[], None]) -> None:
    """Waits until so much has happened to the devices."""

    def reached() -> bool:
        tended()
        return sum(len(device.journal) for device in stage.fleet) >= moment

    await wait_until_async(reached, timeout=PATIENCE, what=f"{moment} things have happened to the devices")


async def _kill(stage: Stage, operator: Process, times: int, chance: random.Random) -> None:
    """Kills the operator at random moments and starts another at once; afterwards it must only not end by itself."""

    def lives() -> None:
        assert operator.running, f"the operator has ended by itself, see {operator.log}"

    # Much happens before anything happens to a device: the first one is always then.
    moments = sorted(chance.randrange(_EACH * len(stage.fleet)) for _ in range(times - 1))
    for moment in [0, *moments][:times]:
        await _until_happened(stage, moment, lives)
        await asyncio.sleep(chance.uniform(0, 1.5))
        lives()
        await asyncio.to_thread(operator.kill)
        operator.start()
    while True:
        lives()
        await asyncio.sleep(1)


class Rivals:
    """Two operators, of which the one that holds the Lease works; one that ends for want of it is started again."""

    def __init__(self, stage: Stage, operators: Mapping[str, Process], *, lease: str) -> None:
        self._stage = stage
        self._operators = operators
        self._key = Key(stage.namespace, lease)
        self._leases = stage.client.of(Lease)
        self.changes = 0
        """How often another one has led by now."""

    async def change(self, times: int, chance: random.Random) -> None:
        """Takes the lease from the leader that often, by turns in either way; afterwards both are only tended."""
        share = _EACH * len(self._stage.fleet) // times
        stopped = chance.random() < 0.5
        for number in range(times):
            # Much happens before anything happens to a device: the first time is always then.
            moment = 0 if number == 0 else number * share - chance.randrange(share)
            await _until_happened(self._stage, moment, self.tend)
            await self._take(chance, stopped=stopped)
            stopped = not stopped
        while True:
            self.tend()
            await asyncio.sleep(0.3)

    async def _take(self, chance: random.Random, *, stopped: bool) -> None:
        """Ends or stops whoever leads now, at some moment, and waits until another leads."""
        await self._until(self.holder, "one of them leads")
        await asyncio.sleep(chance.uniform(0, 1))
        before = await self._until(self.holder, "one of them leads")
        leader = self._operators[before.rpartition("_")[0]]
        await asyncio.to_thread(leader.stop if stopped else leader.kill)

        async def another() -> bool:
            return await self.holder() not in (None, before)

        try:
            await self._until(another, f"another one leads than {before}")
            self.changes += 1
            await asyncio.sleep(chance.uniform(0, 1))  # the other is at work when it goes on
        finally:
            leader.resume()

    async def holder(self) -> str | None:
        """Who holds the Lease: the name of an operator, and what tells its processes apart."""
        try:
            return (await self._leases.get(self._key)).spec.holder_identity
        except NotFound:
            return None

    def tend(self) -> None:
        """Starts those again that are not there, as a kubelet does; one must not have ended for another reason."""
        for name, operator in self._operators.items():
            if operator.running:
                continue
            if operator.returncode != -signal.SIGKILL:
                said = operator.returncode == -signal.SIGALRM or "the lease" in operator.output()[-2000:]
                lost = operator.returncode in _LOST and said
                assert lost, f"operator {name} has ended by itself with {operator.returncode}, see {operator.log}"
            operator.start()

    async def _until(self, condition: Callable[[], Awaitable[T | None]], what: str) -> T:
        async def tended() -> T | None:
            self.tend()
            return await condition()

        return await wait_until_async(tended, timeout=PATIENCE, what=what, interval=0.1)
