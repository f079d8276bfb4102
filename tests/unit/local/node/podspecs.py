"""Pods and attempts for the tests of decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from edgewright.local.node.folders import Attempt, Exit, State
from edgewright.local.node.pods import Pod
from edgewright.local.node.processes import Identity

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(*names: str, init: tuple[str, ...] = (), sidecars: tuple[str, ...] = (), **more: Any) -> Pod:
    """A Pod with containers of these names."""
    metadata = {"name": "pod", "namespace": "default", "uid": "u", "generation": 1, **more.pop("metadata", {})}
    status = more.pop("status", {})
    inits = [{"name": name, "restartPolicy": "Always"} for name in sidecars] + [{"name": name} for name in init]
    spec = {"containers": [{"name": name, "image": "sh"} for name in names or ("main",)], **more}
    if inits:
        spec["initContainers"] = inits
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


def ran(
    number: int = 0, *, code: int | None = None, step: int = 0, ago: float = 0.0, lasted: float = 1.0, **end: Any
) -> Attempt:
    """An attempt that runs, or ended with a code so many seconds before now."""
    finished = NOW - timedelta(seconds=ago)
    started = nanoseconds(finished - timedelta(seconds=lasted))
    who = Identity(pid=1, start=1)
    ended = None if code is None else Exit(code=code, finished=nanoseconds(finished), started=started, **end)
    return Attempt(
        number=number, step=step, image="sh", state=State(boot="b", shim=who, main=who, started=started), end=ended
    )
