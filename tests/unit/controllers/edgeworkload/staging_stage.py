"""A workload with a rollout, its devices and its revisions, and the world after each decision about them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from edgewright.api.edge_revisions import Versions, content_of, hash_of
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.api.edgeworkloadrevision import EdgeWorkloadRevision
from edgewright.controllers.edgeworkload.staging import Change, Create, Decision, Delete, decide

START = datetime(2026, 1, 1, tzinfo=UTC)
CANARY = {"name": "canary", "size": 1, "soakSeconds": 0}
HALF = {"name": "half", "size": "50%", "soakSeconds": 0}


def workload(image: str, rollout: dict[str, Any] | None) -> EdgeWorkload:
    """A workload with this image, for every device."""
    spec = {
        "type": "pod",
        "deviceSelector": {},
        "pod": {"spec": {"containers": [{"name": "a", "image": image}]}},
        **({} if rollout is None else {"rollout": rollout}),
    }
    return msgspec.convert({"metadata": {"name": "w", "namespace": "d", "generation": 1}, "spec": spec}, EdgeWorkload)


class World:
    """What stands on the API server, and a clock."""

    def __init__(self, count: int, rollout: dict[str, Any] | None) -> None:
        self.now = START
        self.rollout = rollout
        self.image = "one"
        self.revisions: list[EdgeWorkloadRevision] = []
        self.entries: dict[str, dict[str, Any]] = {f"d{number}": {"phase": "Deploying"} for number in range(count)}
        self.offline: set[str] = set()
        self.labels: dict[str, dict[str, str]] = {}
        self.writes = 0

    @property
    def workload(self) -> EdgeWorkload:
        """As people have written it."""
        return workload(self.image, self.rollout)

    @property
    def devices(self) -> list[EdgeDevice]:
        """As they are known."""
        return [
            msgspec.convert(
                {
                    "metadata": {"name": name, "namespace": "d", "labels": self.labels.get(name, {})},
                    "status": {
                        "workloads": [{"name": "w", **entry}],
                        "conditions": [{"type": "Online", "status": "False" if name in self.offline else "True"}],
                    },
                },
                EdgeDevice,
            )
            for name, entry in self.entries.items()
        ]

    def step(self) -> Decision:
        """One decision, carried out."""
        decision = decide(self.workload, self.devices, self.revisions, self.now)
        for action in decision.actions:
            self.writes += 1
            match action:
                case Create(revision):
                    assert all(each.metadata.name != revision.metadata.name for each in self.revisions)
                    self.revisions.insert(0, revision)
                case Change(revision, spec):
                    place = self.revisions.index(revision)
                    self.revisions[place] = msgspec.structs.replace(revision, spec=spec)
                case Delete(revision):
                    self.revisions.remove(revision)
        return decision

    def settle(self) -> Decision:
        """Decides until there is nothing to write."""
        for _ in range(100):
            decision = self.step()
            if not decision.actions:
                return decision
        raise AssertionError("it never settles")

    def serve(self, how: Callable[[str], dict[str, Any]] | None = None) -> None:
        """Every device that is heard applies what it is sent, and tells how it does."""
        for name in self.entries.keys() - self.offline:
            version = self.sent()[name]
            told = {"phase": "Running", **({} if how is None else how(name)), "revision": version}
            known = self.entries[name]
            if {key: known.get(key) for key in told} != told:
                self.entries[name] = {**known, **told, "lastTransitionTime": self.now.isoformat()}

    def sent(self) -> dict[str, str]:
        """Which version the gateway sends each device, by its hash."""
        if self.rollout is None:
            return dict.fromkeys(self.entries, hash_of(content_of(self.workload)))
        versions = Versions(self.workload, self.revisions)
        return {name: version[0] for name in self.entries if (version := versions.of(name)) is not None}

    def having(self, image: str) -> set[str]:
        """The devices that are sent this image."""
        version = hash_of(content_of(workload(image, None)))
        return {name for name, sent in self.sent().items() if sent == version}

    def later(self, seconds: float) -> None:
        """Time passes."""
        self.now += timedelta(seconds=seconds)


def running(count: int, *batches: dict[str, Any], **rollout: Any) -> World:
    """A world in which every device runs version one."""
    world = World(count, {"batches": list(batches), **rollout})
    world.settle()
    world.serve()
    world.settle()
    assert len(world.having("one")) == count
    return world
