"""Two programs and one lease: whatever happens to the leader, nothing of it takes effect after its successor began.

Each program is a process (`leader_program`) with an identity of its own, so the rule is simple to check: in the order
of resource versions, which is the order in which writes took effect, the writes of each identity are one unbroken
block. The order is read from the server by a watch of the test's own, never from what the programs say of themselves.
"""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from edgewright.runtime import Client, For, Key, LeaseSettings, Manager, config
from tests.cluster.contest import LASTING, LEASE, UNHURRIED, Contest, Program, Times
from tests.cluster.leader_program import LABEL, LEASE_LOST, ConfigMap
from tests.harness import ApiServer, repetition, wait_until_async

PAIRS = 6


# Many rounds


@dataclass
class Tally:
    """What many rounds came to."""

    takeovers: list[float] = field(default_factory=list)
    writes: int = 0
    untouched: int = 0
    in_mid_send: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    async def count(self, leader: Program) -> None:
        """Waits for the end of a leader that lost its lease, in one of the two ways in which that happens."""
        await leader.end()
        if leader.process.returncode == -signal.SIGALRM:
            self.in_mid_send += 1
        else:
            self.counts += await _ended_by_a_lost_lease(leader)

    def lines(self) -> list[str]:
        """For people."""
        median, longest = statistics.median(self.takeovers), max(self.takeovers)
        fence, server, unheard = (self.counts[name] for name in ("refused_by_fence", "refused_by_server", "unheard"))
        return [
            f"{len(self.takeovers)} rounds, {self.writes} writes took effect, none out of turn",
            f"from the stop to the other's first write: {median:.2f} s (median), {longest:.2f} s at most",
            f"after they were continued, leaders tried {fence} writes that were not sent; the server refused {server};",
            f"the answers to {unheard} that had been sent before were not waited for",
            f"{self.in_mid_send} stood in the middle of a send when the lease ended, and were ended by the kernel",
            f"{self.untouched} leaders lost the lease without being stopped (a slow machine)",
        ]


async def _first_to_write(pair: Contest, program: Program, tally: Tally) -> Program:
    """Waits until the program writes, which has no rival that runs; where it lost the lease before, a new one does."""
    while not await pair.leads_or_ends(program):
        await tally.count(program)
        tally.untouched += 1
        program = await pair.program(times=UNHURRIED)
    return program


async def _rounds(pair: Contest, rounds: int, chance: random.Random, tally: Tally) -> None:
    leader = await pair.program(times=UNHURRIED)
    while rounds:
        other = await pair.program(times=UNHURRIED)
        while not await pair.leads_or_ends(leader):  # it lost the lease before it could: the other is next in line
            await tally.count(leader)
            tally.untouched += 1
            leader, other = other, await pair.program(times=UNHURRIED)
        await asyncio.sleep(chance.uniform(0, 0.2))
        leader.process.stop()
        was_there = leader.process.running
        stopped_at = time.monotonic()
        other = await _first_to_write(pair, other, tally)
        if chance.random() < 0.5:  # at once, or when the other is in full swing
            await asyncio.sleep(chance.uniform(0.05, 0.4))
        leader.process.resume()
        await tally.count(leader)
        if was_there:
            tally.takeovers.append((await pair.leads(other)).began - stopped_at)
            rounds -= 1
        else:
            tally.untouched += 1
        leader = other
    await asyncio.to_thread(leader.process.terminate)
    await pair.caught_up()
    tally.writes += pair.record.writes


# It is the programs that are on trial: on the local server fewer rounds show that it plays the same part.
@pytest.mark.parametrize(
    ("api_server", "rounds"),
    [
        pytest.param("cluster", repetition.times(12, 1000), id="real"),
        pytest.param("local_plane", repetition.times(6, 1000), id="local"),
    ],
    indirect=["api_server"],
)
@pytest.mark.repeated
def test_nothing_of_a_stopped_leader_takes_effect_after_its_successor_began(
    api_server: ApiServer, tmp_path: Path, rounds: int, request: pytest.FixtureRequest
) -> None:
    seed = repetition.seed()
    print(f"seed {seed} (repeat with EDGEWRIGHT_SEED={seed})")
    tally = Tally()
    records = []

    async def one_pair(number: int, share: int) -> None:
        namespace = await asyncio.to_thread(api_server.create_namespace, f"pair-{number}")
        async with Contest(api_server, namespace, tmp_path) as pair:
            records.append(pair.record)
            await _rounds(pair, share, random.Random(f"{seed} {number}"), tally)

    async def all_pairs() -> None:
        shares = [len(range(number, rounds, PAIRS)) for number in range(PAIRS)]
        async with asyncio.timeout(300 + 30 * rounds), asyncio.TaskGroup() as group:
            for number, share in enumerate(shares):
                group.create_task(one_pair(number, share))

    asyncio.run(all_pairs())
    assert [violation for record in records for violation in record.violations] == []
    assert len(tally.takeovers) == rounds
    assert tally.in_mid_send <= 1 + rounds // 10, "to be ended by the kernel is the exception"
    print("\n".join(tally.lines()))


# The worst moments, hit every time


def _stopped(program: Program) -> bool:
    return program.stopped


async def _ended_by_a_lost_lease(program: Program) -> Counter[str]:
    await program.end()
    assert program.process.returncode == LEASE_LOST, program.process.output()
    return program.report()


# What is held up is held up in the program: whose server it is makes no difference, and the rounds above have both.
@pytest.mark.parametrize("api_server", [pytest.param("cluster", id="real")], indirect=True)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--stop-at=before-request"], id="before-request"),
        pytest.param(["--stop-at=after-request"], id="after-request"),
        pytest.param(["--stop-at=after-connection"], id="after-connection"),
        pytest.param(["--stop-at=after-watch"], id="after-watch"),
        pytest.param(
            ["--stop-at=after-connection", "--replace"], id="after-connection-with-a-verb-that-can-be-repeated"
        ),
    ],
)
async def test_a_write_that_was_held_up_on_its_way_is_not_sent(
    api_server: ApiServer, namespace: str, tmp_path: Path, options: list[str]
) -> None:
    async with Contest(api_server, namespace, tmp_path) as pair:
        leader = await pair.leader(*options, "--stop-after=30", "--workers=1", reaches=_stopped)
        await pair.leads(await pair.program(times=LASTING))
        leader.process.resume()
        counts = await _ended_by_a_lost_lease(leader)
        await pair.caught_up()
        assert pair.record.violations == []
        term = await pair.leads(leader)
        assert sorted(term.numbers) == list(range(1, 30))
        assert counts["refused_by_fence"] + counts["unheard"] >= 1
        assert counts["written"] == 29


async def test_a_write_that_was_sent_before_the_stop_takes_effect_before_the_successor_begins(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    async with Contest(api_server, namespace, tmp_path) as pair:
        leader = await pair.leader("--stop-at=after-send", "--stop-after=30", "--workers=1", reaches=_stopped)
        await pair.leads(await pair.program(times=LASTING))
        leader.process.resume()
        counts = await _ended_by_a_lost_lease(leader)
        await pair.caught_up()
        assert pair.record.violations == []
        assert sorted((await pair.leads(leader)).numbers) == list(range(1, 31))
        assert counts["written"] == 29, "the answer came when it meant nothing any more"


async def test_a_write_that_was_held_up_after_the_last_check_is_not_sent_either(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    async with Contest(api_server, namespace, tmp_path) as pair:
        leader = await pair.leader("--stop-at=after-socket", "--stop-after=30", "--workers=1", reaches=_stopped)
        await pair.leads(await pair.program(times=LASTING))
        leader.process.resume()
        await leader.end()
        await pair.caught_up()
        assert pair.record.violations == []
        assert sorted((await pair.leads(leader)).numbers) == list(range(1, 30))
        assert leader.process.returncode == -signal.SIGALRM, leader.process.output()


async def test_writes_that_the_network_held_back_change_nothing_when_they_arrive(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    with api_server.proxy() as proxy:
        async with Contest(api_server, namespace, tmp_path) as pair:
            leader = await pair.program(server=proxy.url, times=UNHURRIED.longer())
            await pair.leads(leader)
            other = await pair.program(times=LASTING)
            proxy.pause()
            counts = await _ended_by_a_lost_lease(leader)
            assert counts["unheard"] >= 1
            await pair.wrote_everything(other)
            proxy.resume()
            await wait_until_async(lambda: proxy.open == 0, what="the proxy has carried what it held")
            await pair.caught_up()
            assert pair.record.violations == []


# Other ends of a term


async def test_a_leader_that_is_asked_to_end_gives_the_lease_back(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    times = Times(duration=300, renew_within=200, retry_every=0.2)
    async with Contest(api_server, namespace, tmp_path) as pair:
        leader = await pair.program(times=times)
        await pair.wrote_everything(leader)
        other = await pair.program(times=times)
        asked_at = time.monotonic()
        await asyncio.to_thread(leader.process.terminate)
        assert leader.process.returncode == 0, leader.process.output()
        counts = leader.report()
        took = (await pair.leads(other)).began - asked_at
        assert took < times.duration, f"the other led after {took:.2f} s: it waited for the end of the lease"
        await pair.caught_up()
        assert pair.record.violations == []
        assert counts["written"] == len((await pair.leads(leader)).numbers), "what was under way was finished"
        assert (await pair.lease()).spec.holder_identity == other.identity


async def test_a_leader_that_cannot_renew_ends(api_server: ApiServer, namespace: str, tmp_path: Path) -> None:
    with api_server.proxy() as proxy:
        async with Contest(api_server, namespace, tmp_path) as pair:
            leader = await pair.program(server=proxy.url, times=UNHURRIED.longer())
            await pair.leads(leader)
            other = await pair.program(times=LASTING)
            proxy.refuse()
            proxy.cut()
            counts = await _ended_by_a_lost_lease(leader)
            proxy.accept()
            await pair.leads(other)
            await pair.caught_up()
            assert pair.record.violations == []
            assert counts["refused_by_server"] == 0


async def test_a_lease_that_is_deleted_ends_its_holder_and_is_left_alone_until_then(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    """Whoever deletes a lease wants another election; the winner waits, because the loser has not noticed yet."""
    times = Times(duration=4.0, renew_within=3.0, retry_every=1.0)
    async with Contest(api_server, namespace, tmp_path) as pair:
        leader = await pair.program(times=times)
        await pair.leads(leader)
        other = await pair.program(times=replace(LASTING, retry_every=0.05))
        await pair.wrote_everything(leader)
        # Who has never seen a lease cannot know that there was one.
        await wait_until_async(
            lambda: f"holder={leader.identity}" in other.process.output(), what="the other has seen who leads"
        )
        before = await pair.lease()
        deleted_at = time.monotonic()
        await pair.delete_lease()
        await _ended_by_a_lost_lease(leader)
        term = await pair.leads(other)
        await pair.caught_up()
        assert pair.record.violations == []
        assert term.began - deleted_at > times.duration
        after = await pair.lease()
        assert after.spec.holder_identity == other.identity
        assert after.metadata.uid != before.metadata.uid


async def test_a_lease_is_not_given_back_while_a_pass_that_was_cut_off_may_still_take_effect(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    async with Contest(api_server, namespace, tmp_path) as alone:
        manager = Manager(
            Client(config.load(kubeconfig=api_server.kubeconfig)),
            namespaces=[namespace],
            lease=LeaseSettings(name=LEASE, namespace=namespace, identity="slow"),
            drain_seconds=0.1,
        )
        begun = asyncio.Event()

        async def never_ends(_: Key) -> None:
            begun.set()
            await asyncio.Event().wait()

        manager.controller("slow", never_ends, For(manager.cache(ConfigMap, labels=LABEL)))
        running = asyncio.create_task(manager.run())
        await begun.wait()
        manager.stop()
        await running
        assert (await alone.lease()).spec.holder_identity == "slow"
