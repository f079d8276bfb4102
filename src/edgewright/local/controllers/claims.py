"""Binds PersistentVolumeClaims to folders of the node's machine, and keeps those that Pods use.

`add` registers the controller. The folder itself is made by the node when a Pod first uses the claim; its name is that
of the claim's volume, a PersistentVolume that is made here to show it. A claim goes when its deletion was asked for and
no Pod that has not ended uses it, and its volume goes with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from edgewright.local.builtin import persistentvolume, persistentvolumeclaim
from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads.kinds import Claim, ClaimStatus, Volume, VolumeStatus
from edgewright.runtime import DONE, For, Key, Manager, Maps, RawObject, Result
from edgewright.runtime.errors import NotFound
from edgewright.runtime.predicates import anything

_USERS = "Pods that use a claim"
_CLAIMS = "volumes of a claim"
FOLDERS = Path("/var/lib/edgewright/node/claims")
"""Where the folders are, unless somebody says otherwise."""


def add(manager: Manager, *, folders: Path = FOLDERS) -> None:
    """Registers the controller."""
    _Claims(manager, folders)


def _used(pod: Pod) -> Iterable[Key]:
    if pod.status.phase in {"Succeeded", "Failed"}:
        return ()
    claims = (each.persistent_volume_claim for each in pod.spec.volumes)
    return {Key(pod.metadata.namespace, each.claim_name) for each in claims if each is not None}


def _claimed(volume: Volume) -> Iterable[Key]:
    claim = volume.spec.claim_ref
    return [Key(claim.namespace, claim.name)] if claim.uid else []


class _Claims:
    def __init__(self, manager: Manager, folders: Path) -> None:
        self._client = manager.client
        self._folders = folders
        self._claims = manager.cache(Claim)
        self._volumes = manager.cache(Volume)
        self._volumes.add_index(_CLAIMS, _claimed)
        self._pods = manager.cache(Pod)
        self._pods.add_index(_USERS, _used)
        sources = For(self._claims, when=anything), Maps(self._pods, _used), Maps(self._volumes, _claimed)
        manager.controller("persistentvolumeclaims", self._reconcile, *sources)

    async def _reconcile(self, key: Key) -> Result:
        claim = self._claims.get(key)
        for volume in self._volumes.by(_CLAIMS, key):
            if claim is None or volume.spec.claim_ref.uid != claim.metadata.uid:
                await self._reclaim(volume)
        if claim is None:
            return DONE
        if claim.deleting:
            if not self._pods.count(_USERS, key):
                await self._release(claim, persistentvolumeclaim.PROTECTION)
            return DONE
        if claim.spec.storage_class_name == "" and not claim.spec.volume_name:
            return DONE  # it asks for a volume that somebody made, and gets no other
        name = claim.spec.volume_name or f"pvc-{claim.metadata.uid}"
        if not await self._provide(claim, name):
            return DONE
        if not claim.spec.volume_name:
            claim = await self._client.of(Claim).change(claim, {"spec": {"volumeName": name}})
        wanted = ClaimStatus(phase="Bound", access_modes=claim.spec.access_modes, capacity=_capacity(claim))
        await self._client.of(Claim).write_status(claim, wanted)
        return DONE

    async def _provide(self, claim: Claim, name: str) -> bool:
        """Makes the volume what the claim asks for; False where it is another claim's."""
        volume = self._volumes.get(Key("", name))
        if volume is None:
            await self._client.raw(Volume.kind).create(_volume(claim, name, self._folders))
            return True
        if volume.spec.claim_ref.uid != claim.metadata.uid:
            return False
        if volume.spec.capacity != _capacity(claim):
            volume = await self._client.of(Volume).change(volume, {"spec": {"capacity": _capacity(claim)}})
        await self._client.of(Volume).write_status(volume, VolumeStatus(phase="Bound"))
        return True

    async def _reclaim(self, volume: Volume) -> None:
        """Removes a volume whose claim is gone."""
        if volume.deleting:
            await self._release(volume, persistentvolume.PROTECTION)
            return
        await self._client.of(Volume).discard(volume)

    async def _release(self, obj: Claim | Volume, finalizer: str) -> None:
        if finalizer not in obj.metadata.finalizers:
            return
        left = [each for each in obj.metadata.finalizers if each != finalizer]
        with suppress(NotFound):
            await self._client.of(type(obj)).change(obj, {"metadata": {"finalizers": left or None}})


def _capacity(claim: Claim) -> dict[str, str]:
    return {"storage": (claim.spec.resources.get("requests") or {}).get("storage", "0")}


def _volume(claim: Claim, name: str, folders: Path) -> RawObject:
    """The folder of a claim, as the API shows it."""
    metadata = claim.metadata
    reference = {"apiVersion": "v1", "kind": Claim.kind.kind, "namespace": metadata.namespace, "name": metadata.name}
    return {
        "apiVersion": "v1",
        "kind": Volume.kind.kind,
        "metadata": {"name": name},
        "spec": {
            "capacity": _capacity(claim),
            "accessModes": list(claim.spec.access_modes),
            "claimRef": {**reference, "uid": metadata.uid},
            "hostPath": {"path": str(folders / metadata.namespace / metadata.name / name)},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": claim.spec.storage_class_name or "",
            "volumeMode": claim.spec.volume_mode,
        },
    }
