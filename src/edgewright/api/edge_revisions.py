"""Which version of a workload each edge device gets: pure functions that the gateway and the controllers share.

A workload without a rollout is what its spec says, for every device at once. With one, a device has the newest revision
of which a batch has it. Nothing here reads a status, so that a wiped one changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from edgewright.api.edge_rules import problem_of
from edgewright.api.edgeworkload import WORKLOAD_REFERENCE_FINALIZER, EdgeWorkload, EdgeWorkloadSpec
from edgewright.api.edgeworkloadrevision import EdgeWorkloadRevision
from edgewright.runtime.objects import Key

Owner: TypeAlias = tuple[str, Key]
"""A workload by its kind and its name: its revisions outlive a restore, in which uids change."""

PODMAN: Final = "podman/"
"""What the labels and annotations of a workload begin with that its pod gets."""
_NOT_SENT: Final = ("type", "device", "deviceSelector", "rollout")
_HASH: Final = 10


def content_of(workload: EdgeWorkload) -> dict[str, Any]:
    """What devices are sent of a workload; which devices, and in which steps, is not part of it."""
    spec = {name: value for name, value in workload.spec.to_raw().items() if name not in _NOT_SENT}
    labels = {name: value for name, value in workload.metadata.labels.items() if name.startswith(PODMAN)}
    annotations = {name: value for name, value in workload.metadata.annotations.items() if name.startswith(PODMAN)}
    return {
        "spec": spec,
        **({"labels": labels} if labels else {}),
        **({"annotations": annotations} if annotations else {}),
    }


def hash_of(content: dict[str, Any]) -> str:
    """What a version is known by."""
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:_HASH]


def with_content(workload: EdgeWorkload, content: dict[str, Any]) -> EdgeWorkload:
    """The workload with the content of another version; it selects devices as it does now."""
    spec = msgspec.convert(content.get("spec", {}), EdgeWorkloadSpec)
    now = workload.spec
    return msgspec.structs.replace(
        workload,
        spec=msgspec.structs.replace(
            spec, type=now.type, device=now.device, device_selector=now.device_selector, rollout=now.rollout
        ),
        metadata=msgspec.structs.replace(
            workload.metadata,
            labels=_replaced(workload.metadata.labels, content.get("labels", {})),
            annotations=_replaced(workload.metadata.annotations, content.get("annotations", {})),
        ),
    )


def workload_of(revision: EdgeWorkloadRevision) -> Owner:
    """The workload that a revision is one of."""
    return revision.spec.kind, Key(revision.metadata.namespace, revision.spec.workload)


def owner(workload: EdgeWorkload) -> Owner:
    """What a workload is known by to its revisions."""
    return workload.kind.kind, workload.key


def by_workload(revisions: Iterable[EdgeWorkloadRevision]) -> dict[Owner, list[EdgeWorkloadRevision]]:
    """The revisions of each workload, the newest first."""
    found: dict[Owner, list[EdgeWorkloadRevision]] = {}
    for each in sorted(revisions, key=lambda each: each.spec.number, reverse=True):
        if not each.deleting:
            found.setdefault(workload_of(each), []).append(each)
    return found


def stable(revisions: Sequence[EdgeWorkloadRevision]) -> EdgeWorkloadRevision | None:
    """The newest revision that every device has got; `revisions` are of one workload, the newest first."""
    return next((each for each in revisions if each.spec.for_all), None)


def served(workload: EdgeWorkload, revisions: Sequence[EdgeWorkloadRevision]) -> EdgeWorkload:
    """The workload as it can be sent: one with a rollout whose new spec cannot be is as all devices have it."""
    if workload.spec.rollout is None or problem_of(workload) is None:
        return workload
    known = stable(revisions)
    return workload if known is None else with_content(workload, known.spec.content)


class Versions:
    """The versions of one workload that has a rollout, and who has which."""

    def __init__(self, workload: EdgeWorkload, revisions: Sequence[EdgeWorkloadRevision]) -> None:
        """`revisions` are those of the workload, the newest first."""
        self._current = workload
        self._steps: list[tuple[frozenset[str] | None, str, EdgeWorkload]] = []
        for each in revisions:
            spec = each.spec
            names = frozenset(name for batch in spec.batches for name in batch.devices)
            self._steps.append((None if spec.for_all else names, spec.hash, with_content(workload, spec.content)))
            if spec.for_all:
                break

    def of(self, device: str) -> tuple[str, EdgeWorkload] | None:
        """The hash of the version that a device gets, and the workload in it; None where it gets none yet."""
        for names, revision, workload in self._steps:
            if names is None or device in names:
                return revision, workload
        if self._steps:  # somebody has deleted the revision that all had: the oldest that is known comes closest
            return self._steps[-1][1:]
        if WORKLOAD_REFERENCE_FINALIZER not in self._current.metadata.finalizers:
            return None  # its first version is written down first: a change that comes at once is staged then
        # An operator without revisions has seen it: devices may run it, and must not be told to remove it.
        return hash_of(content_of(self._current)), self._current


def _replaced(now: dict[str, str], podman: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in now.items() if not name.startswith(PODMAN)} | podman
