"""Whether the Secrets that a job's flash Pods mount are there: without one, a Pod would hang until its time is over.

The loop over FlashJobs asks before it claims. Of a Secret only the keys are read: its values are never kept or logged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

import msgspec

from edgewright.api.device import Device
from edgewright.api.flashjob import FlashJob
from edgewright.controllers.flashjob.manifests import protocol_of, secrets_of
from edgewright.controllers.flashjob.reasons import Reason
from edgewright.controllers.flashjob.validation import Problem
from edgewright.controllers.settings import Settings
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import Forbidden, NotFound
from edgewright.runtime.objects import Key, Kind, Resource

_KEYS: Final = {
    "spec.tlsSecretName": ("tls.crt", "tls.key"),
    "spec.firmwarePullSecret": (".dockerconfigjson",),
    "spec.signaturePublicKeySecret": ("cosign.pub",),
}
"""What each field's Secret must hold."""


class _Secret(Resource, frozen=True, kw_only=True):
    """A Secret of which only the keys are of interest; its values are skipped, not decoded."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Secret", plural="secrets")

    data: dict[str, msgspec.Raw] = {}


class Secrets:
    """The Secrets as they were last seen; each is looked at no more often than every `every` seconds."""

    def __init__(self, client: Client, clock: Clock, *, every: float) -> None:
        self._api = client.of(_Secret)
        self._clock = clock
        self._every = every
        self._seen: dict[tuple[Key, str], tuple[float, Problem | None]] = {}

    async def problem(self, job: FlashJob, devices: Iterable[Device], settings: Settings) -> Problem | None:
        """What is wrong with the first Secret that is missing for one of the devices; None where all are there."""
        if not settings.check_secrets:
            return None  # its Pod waits for it then, and the Events of the Pod say so
        needed: dict[str, str] = {}
        for device in {protocol_of(device): device for device in devices}.values():
            needed.update(secrets_of(job.spec, device, settings))
        for field, name in needed.items():
            problem = await self._look(Key(job.metadata.namespace, name), field)
            if problem is not None:
                return problem
        return None

    async def _look(self, key: Key, field: str) -> Problem | None:
        now = self._clock.elapsed()
        at, problem = self._seen.get((key, field), (None, None))
        if at is not None and now - at < self._every:
            return problem
        if len(self._seen) > 1000:  # of jobs that are long gone
            self._seen.clear()
        problem = await self._ask(key, field)
        self._seen[key, field] = (now, problem)
        return problem

    async def _ask(self, key: Key, field: str) -> Problem | None:
        where = f"Secret {key.name} in namespace {key.namespace}"
        try:
            secret = await self._api.get(key)
        except NotFound:
            return Problem(field, Reason.SECRET_MISSING, f"there is no {where}: make it, or name another one")
        except Forbidden:
            return Problem(
                field, Reason.SECRET_UNREADABLE, f"the operator may not get {where}: its role must allow that"
            )
        missing = [name for name in _KEYS[field] if name not in secret.data]
        if missing:
            return Problem(
                field, Reason.SECRET_MISSING, f"{where} has no {' and no '.join(missing)}: add what is missing"
            )
        return None
