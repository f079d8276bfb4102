"""Images for containers: whether podman has one, and fetching it in the background where it does not.

`podman_runtime` asks with every attempt to start a container and is told to wait while an image is on its way; the Pod
gets its next pass when it is here, or when it could not be had. A registry that fails is asked less and less often.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from edgewright.containers import ContainersError, Image, Podman
from edgewright.local.node.lifecycle import NotStarted
from edgewright.local.node.sources import Missing, Sources
from edgewright.runtime.backoff import delay
from edgewright.runtime.clock import Clock
from edgewright.runtime.objects import Key, RawObject

_FIRST_WAIT, _MAX_WAIT = 10.0, 300.0

Credentials = Mapping[str, Mapping[str, str]]
"""By registry: user name and password."""


class NoImage(NotStarted):
    """A container has to wait for its image."""


@dataclass
class _Pull:
    """One image that is or was fetched."""

    task: asyncio.Task[str] | None = None
    waiting: set[Key] = field(default_factory=set)
    """Whom to tell when it is here."""
    failures: int = 0
    retry_at: float = 0.0
    problem: str = ""


class ImagePulls:
    """All images that this node is fetching."""

    def __init__(self, *, clock: Clock, changed: Callable[[Key], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._pulls: dict[tuple[str, str], _Pull] = {}

    async def get(self, podman: Podman, container: RawObject, key: Key, credentials: Credentials) -> Image:
        """The image of a container, where podman has it; NoImage while it does not."""
        reference = container.get("image", "")
        policy = container.get("imagePullPolicy") or default_policy(reference)
        pull = self._pulls.setdefault((reference, repr(sorted(credentials))), _Pull())
        if pull.task is not None and pull.task.done():
            done, pull.task = pull.task, None
            if found := self._fetched(pull, done):
                image = await podman.image(found)
                if image is not None:
                    return image
        if pull.task is None and policy != "Always" and (here := await podman.image(reference)) is not None:
            return here
        if policy == "Never":
            text = f'Container image "{reference}" is not present with pull policy of Never'
            raise NoImage("ErrImageNeverPull", text, retry=_FIRST_WAIT)
        wait = pull.retry_at - self._clock.elapsed()
        if pull.task is None and wait > 0:
            reason = "ErrImagePull" if pull.failures <= 1 else "ImagePullBackOff"
            raise NoImage(reason, pull.problem, retry=wait)
        if pull.task is None:
            pull.task = asyncio.create_task(podman.pull_image(reference, credentials=credentials or None))
            pull.task.add_done_callback(lambda _: self._tell(pull))
        pull.waiting.add(key)
        raise NoImage("ContainerCreating", "")

    def _fetched(self, pull: _Pull, done: asyncio.Task[str]) -> str:
        """The id of what was fetched; empty where it could not be, which is then written down."""
        try:
            found = done.result()
        except ContainersError as error:
            pull.failures += 1
            pull.problem = str(error)
            wait = delay(pull.failures, base=_FIRST_WAIT, cap=_MAX_WAIT)
            pull.retry_at = self._clock.elapsed() + wait
            return ""
        pull.failures, pull.retry_at, pull.problem = 0, 0.0, ""
        return found

    def _tell(self, pull: _Pull) -> None:
        waiting, pull.waiting = pull.waiting, set()
        for key in waiting:
            self._changed(key)

    async def close(self) -> None:
        """Stops fetching."""
        tasks = [pull.task for pull in self._pulls.values() if pull.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def default_policy(reference: str) -> str:
    """As Kubernetes has it: what is called latest is fetched each time."""
    last = reference.rpartition("/")[2]
    return "Always" if "@" not in last and last.partition(":")[2] in {"", "latest"} else "IfNotPresent"


async def credentials_of(pod_spec: RawObject, sources: Sources) -> dict[str, dict[str, str]]:
    """What the imagePullSecrets of a Pod say about registries; one that is missing counts for nothing."""
    found: dict[str, dict[str, str]] = {}
    for each in pod_spec.get("imagePullSecrets") or ():
        content = await sources.secret(each.get("name", ""), optional=True) or {}
        try:
            said = msgspec.json.decode(content.get(".dockerconfigjson", b"{}"))
            for registry, login in (said.get("auths") or {}).items():
                found[registry] = _login(login)
        except (msgspec.DecodeError, ValueError, AttributeError):
            raise Missing(f"secret {each.get('name', '')}: .dockerconfigjson cannot be read") from None
    return found


def _login(login: RawObject) -> dict[str, str]:
    if login.get("auth"):
        name, _, word = base64.b64decode(login["auth"]).decode().partition(":")
        return {"username": name, "password": word}
    return {"username": login.get("username", ""), "password": login.get("password", "")}
