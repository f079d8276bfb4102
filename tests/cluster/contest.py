"""Programs that compete for one lease, and the record of what each of them wrote, as the server tells it.

The tests of leadership use it. It starts each program under an identity of its own; it never judges the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import msgspec

from edgewright.runtime import Client, Key, Lease, config
from edgewright.runtime.client import WatchEvent
from edgewright.runtime.errors import Unreachable
from tests.cluster.leader_program import LABEL, LEASE_LOST, READY, ConfigMap
from tests.harness import ApiServer, Process, wait_until_async

PROGRAM = Path(__file__).with_name("leader_program.py")
OBJECTS = 20
LEASE = "writer"


@dataclass(frozen=True, kw_only=True)
class Times:
    """The lease's times in seconds, and how long each object rests between two writes."""

    duration: float = 1.0
    renew_within: float = 0.7
    retry_every: float = 0.15
    pause: float = 0.1

    def longer(self) -> Times:
        """A lease that lasts three times as long."""
        return replace(self, duration=3 * self.duration, renew_within=3 * self.renew_within)


# For many pairs on a busy machine, on which a leader that hurries loses the lease without being stopped.
UNHURRIED = Times(duration=2.0, renew_within=1.4, retry_every=0.2)

# For who follows, and nobody after it: however busy the machine, it leads until the end of the test.
LASTING = Times(duration=300.0, renew_within=200.0, retry_every=0.15)


class Program:
    """One process that competes for the lease, under an identity that no other process has."""

    def __init__(self, identity: str, kubeconfig: Path, namespace: str, times: Times, log: Path, *more: str) -> None:
        self.identity = identity
        settings = {
            "kubeconfig": kubeconfig,
            "namespace": namespace,
            "lease": LEASE,
            "identity": identity,
            "duration": times.duration,
            "renew-within": times.renew_within,
            "retry-every": times.retry_every,
            "pause": times.pause,
        }
        arguments = [f"--{name}={value}" for name, value in settings.items()]
        self.process = Process(
            identity,
            [sys.executable, "-W", "error", PROGRAM, *arguments, *more],
            log=log,
            ready=lambda: READY in self.process.output(),
        )

    async def start(self) -> None:
        """Starts it and waits until it has read what there is and stands for election."""
        await asyncio.to_thread(self.process.start)
        await asyncio.to_thread(self.process.wait_ready)

    async def end(self) -> None:
        """Waits until it has ended by itself."""
        what = f"{self.identity} has ended by itself, see {self.process.log}"
        await wait_until_async(lambda: not self.process.running, what=what)

    @property
    def stopped(self) -> bool:
        """Whether the process stands still by SIGSTOP."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def report(self) -> Counter[str]:
        """What it has counted; it has ended in good order, without a traceback."""
        output = self.process.output()
        assert "Traceback" not in output, output
        assert "Warning:" not in output, output
        return Counter(json.loads(output.splitlines()[-1]))


@dataclass
class Term:
    """The unbroken block of writes of one identity."""

    writer: str
    first: int
    began: float
    last: int = 0
    numbers: dict[int, str] = field(default_factory=dict)


class _Write(msgspec.Struct, frozen=True, rename="camel"):
    metadata: dict[str, Any]
    data: dict[str, str] = {}


class Record:
    """What took effect in a namespace, in its order, as the server tells it."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self.writes = 0
        self.violations: list[str] = []
        self.version = 0
        self._decode = msgspec.json.Decoder(_Write).decode

    async def follow(self, client: Client, namespace: str, version: str) -> None:
        """Notes every write from this version on, until cancelled."""
        while True:
            with contextlib.suppress(Unreachable):
                async for events in client.of(ConfigMap).watch(namespace, resource_version=version, labels=LABEL):
                    for event in events:
                        version = self._note(event)

    def _note(self, event: WatchEvent) -> str:
        obj = self._decode(event.object)
        version = int(obj.metadata["resourceVersion"])
        assert version >= self.version, "a watch tells what happened in its order"
        self.version = version
        if event.type == "MODIFIED":
            self._add(version, obj.metadata["name"], obj.data["writer"], int(obj.data["number"]))
        return str(version)

    def _add(self, version: int, name: str, writer: str, number: int) -> None:
        self.writes += 1
        if not self.terms or self.terms[-1].writer != writer:
            for term in self.terms:
                if term.writer == writer:
                    self.violations.append(f"{version}: {writer} wrote {name} after {self.terms[-1].writer} had begun")
            self.terms.append(Term(writer, version, time.monotonic()))
        term = self.terms[-1]
        if number in term.numbers:
            self.violations.append(f"{version}: write {number} of {writer} took effect twice")
        term.numbers[number] = name
        term.last = version

    def term_of(self, program: Program) -> Term | None:
        """The program's block of writes, once it has begun."""
        return next((term for term in self.terms if term.writer == program.identity), None)


class Contest:
    """A namespace with a lease, objects to write, programs that compete, and the record of what took effect."""

    def __init__(self, api_server: ApiServer, namespace: str, logs: Path) -> None:
        self.record = Record()
        self.namespace = namespace
        self._api_server = api_server
        self._logs = logs
        self._numbers = itertools.count(1)
        self._programs: list[Program] = []
        self._client = Client(config.load(kubeconfig=api_server.kubeconfig))
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        api = self._client.raw(ConfigMap.kind)
        for number in range(OBJECTS):
            name = f"object-{number:02}"
            await api.create({"metadata": {"name": name, "namespace": self.namespace, "labels": {LABEL: "yes"}}})
        version = (await api.list(self.namespace)).resource_version
        self._following = asyncio.create_task(self.record.follow(self._client, self.namespace, version))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._following is not None
        for program in self._programs:
            program.process.kill()
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        await self._client.close()

    async def program(self, *more: str, times: Times | None = None, server: str | None = None) -> Program:
        """A new competitor that stands for election; the server knows it as a user of its own."""
        identity = f"{self.namespace[-6:]}-{next(self._numbers)}"
        kubeconfig = self._api_server.kubeconfig_for(identity, ["system:masters"], server=server)
        log = self._logs / f"{identity}.log"
        program = Program(identity, kubeconfig, self.namespace, times or Times(), log, *more)
        self._programs.append(program)
        await program.start()
        return program

    async def leader(self, *more: str, reaches: Callable[[Program], object], server: str | None = None) -> Program:
        """A leader that has come so far with its lease.

        On a machine so busy that one loses the lease before that, without being stopped, the next has a longer one:
        who follows must wait for its end, so it is short where it can be.
        """
        times = Times()
        while True:
            program = await self.program(*more, times=times, server=server)
            what = f"{program.identity} has come so far or ended, see {program.process.log}"
            await self._until(lambda program=program: not program.process.running or reaches(program), what=what)
            if program.process.running:
                return program
            assert program.process.returncode == LEASE_LOST, program.process.output()
            times = times.longer()

    async def leads(self, program: Program) -> Term:
        """Waits for the program's first write that took effect."""
        what = f"{program.identity} writes, see {program.process.log}"
        found: Term = await self._until(lambda: self.record.term_of(program), what=what)
        return found

    async def leads_or_ends(self, program: Program) -> bool:
        """Waits for the program's first write or its end, and says whether it has written."""
        what = f"{program.identity} writes or ends, see {program.process.log}"
        await self._until(lambda: self.record.term_of(program) or not program.process.running, what=what)
        return self.record.term_of(program) is not None

    async def wrote_everything(self, program: Program) -> None:
        """Waits until the program has written every object."""
        term = await self.leads(program)
        await self._until(lambda: len(set(term.numbers.values())) == OBJECTS, what=f"{program.identity} wrote them all")

    async def caught_up(self) -> None:
        """Waits until the record holds everything that took effect before this call."""
        # An object of our own, which the watch sees and the programs do not.
        mark = {"metadata": {"generateName": "mark-", "namespace": self.namespace, "labels": {LABEL: "no"}}}
        made = await self._client.raw(ConfigMap.kind).create(mark)
        version = int(made["metadata"]["resourceVersion"])
        await self._until(lambda: self.record.version >= version, what="the record has caught up")

    async def lease(self) -> Lease:
        """The lease as it is now."""
        return await self._client.of(Lease).get(Key(self.namespace, LEASE))

    async def delete_lease(self) -> None:
        """Takes the lease away, as a person would with kubectl."""
        await self._client.of(Lease).delete(Key(self.namespace, LEASE))

    async def _until(self, condition: Any, *, what: str) -> Any:
        assert self._following is not None
        following = self._following

        def holds() -> Any:
            if following.done():
                following.result()
            return condition()

        return await wait_until_async(holds, what=what, interval=0.005)
