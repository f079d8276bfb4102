"""Decides what must happen to pods: a pure function from what is wanted and what podman shows to a list of actions.

`workloads` carries the actions out, in this order: what must go goes first, so that its host ports are free. A pod
without the device's label is somebody else's: it is never acted on, also where it has a name that is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final, TypeAlias

from edgewright.agent.manifest import DEVICE_LABEL, HASH_LABEL, Manifest
from edgewright.containers import Pod

_ENDED: Final = {"Created", "Exited", "Stopped", "Dead", "Degraded", "Error"}


@dataclass(frozen=True)
class Remove:
    """A pod of ours that is not wanted, or not like this."""

    name: str


@dataclass(frozen=True)
class Play:
    """A workload that has no pod, or whose pod is being removed."""

    name: str


@dataclass(frozen=True)
class Start:
    """A pod of ours that is as it must be but does not run."""

    name: str


@dataclass(frozen=True)
class Conflict:
    """A workload whose name a pod has that is not ours."""

    name: str


Action: TypeAlias = Remove | Play | Start | Conflict


def plan(
    wanted: Mapping[str, Manifest], pods: Iterable[Pod], *, device: str, keep: Set[str] = frozenset()
) -> list[Action]:
    """What must happen, removals first; nothing where everything is as it must be.

    `keep` names workloads that are wanted but cannot be made now: what runs of them goes on.
    """
    ours: dict[str, Pod] = {}
    foreign: set[str] = set()
    for pod in pods:
        if pod.label(DEVICE_LABEL) == device:
            ours[pod.name] = pod
        else:
            foreign.add(pod.name)
    removals: list[Action] = [Remove(name) for name in sorted(ours.keys() - wanted.keys() - keep)]
    starts: list[Action] = []
    for name in sorted(wanted):
        manifest, found = wanted[name], ours.get(name)
        if found is None:
            starts.append(Conflict(name) if name in foreign else Play(name))
        elif not fits(manifest, found):
            removals.append(Remove(name))
            starts.append(Play(name))
        elif must_start(manifest, found):
            starts.append(Start(name))
    return [*removals, *starts]


def fits(manifest: Manifest, pod: Pod) -> bool:
    """Whether a pod was made from this manifest, and whole: podman may have been cut off while it made it."""
    return pod.label(HASH_LABEL) == manifest.hash and {each.name for each in pod.workers} >= manifest.containers


def must_start(manifest: Manifest, pod: Pod) -> bool:
    """Whether a pod that does not run must be started: after a reboot, say. One that has done its work must not."""
    if pod.status not in _ENDED:
        return False
    return manifest.restart == "Always" or pod.status == "Created"
