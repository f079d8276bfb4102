"""Binds PersistentVolumeClaims to folders of the node's machine, and keeps those that Pods use.

`add` registers the controller. The folder itself is made by the node when a Pod first uses the claim; its name is that
of the claim's volume. A claim goes when its deletion was asked for and no Pod that has not ended uses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from edgewright.local.builtin.persistentvolumeclaim import PROTECTION
from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads.kinds import Claim, ClaimStatus
from edgewright.runtime import DONE, For, Key, Manager, Maps, Result
from edgewright.runtime.errors import NotFound
from edgewright.runtime.predicates import anything

_USERS = "Pods that use a claim"


def add(manager: Manager) -> None:
    """Registers the controller."""
    _Claims(manager).add()


def _used(pod: Pod) -> Iterable[Key]:
    if pod.status.phase in {"Succeeded", "Failed"}:
        return ()
    claims = (each.persistent_volume_claim for each in pod.spec.volumes)
    return {Key(pod.metadata.namespace, each.claim_name) for each in claims if each is not None}


class _Claims:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._client = manager.client
        self._claims = manager.cache(Claim)
        self._pods = manager.cache(Pod)
        self._pods.add_index(_USERS, _used)

    def add(self) -> None:
        self._manager.controller(
            "persistentvolumeclaims",
            self._reconcile,
            For(self._claims, when=anything),
            Maps(self._pods, _used),
        )

    async def _reconcile(self, key: Key) -> Result:
        claim = self._claims.get(key)
        if claim is None:
            return DONE
        if claim.deleting:
            if PROTECTION in claim.metadata.finalizers and not self._pods.count(_USERS, key):
                await self._release(claim)
            return DONE
        if not claim.spec.volume_name:
            if claim.spec.storage_class_name == "":
                return DONE  # it asks for a volume that somebody made, and creates none
            change = {"spec": {"volumeName": f"pvc-{claim.metadata.uid}"}}
            claim = await self._client.of(Claim).patch(key, change, resource_version=claim.metadata.resource_version)
        size = (claim.spec.resources.get("requests") or {}).get("storage", "0")
        wanted = ClaimStatus(phase="Bound", access_modes=claim.spec.access_modes, capacity={"storage": size})
        await self._client.of(Claim).write_status(claim, wanted)
        return DONE

    async def _release(self, claim: Claim) -> None:
        left = [each for each in claim.metadata.finalizers if each != PROTECTION]
        with suppress(NotFound):
            await self._client.of(Claim).patch(
                claim.key,
                {"metadata": {"finalizers": left or None}},
                resource_version=claim.metadata.resource_version,
            )
