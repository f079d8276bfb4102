"""The folders behind PersistentVolumeClaims: made when a Pod first uses a claim, removed when the claim is gone.

`container_start` asks where a claim lies, `pod_loop` sweeps from time to time. Only the node of the embedded control
plane has them: the claims of other clusters are bound to volumes that this node cannot mount. On a node that gives each
Pod a user of its own, a claim has one: its Pods run as that user, or the next could not change what the last one wrote.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable, Set
from contextlib import suppress
from pathlib import Path
from typing import Final

from edgewright.local.node.sources import Missing
from edgewright.local.node.volumes import make_empty
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, Kind, RawObject

CLAIM: Final = Kind(group="", version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims")


class ClaimFolders:
    """All folders of claims, below one directory: by namespace, claim and volume."""

    def __init__(self, client: Client, directory: Path) -> None:
        self._client = client
        self._directory = directory

    def owner(self, namespace: str, volumes: Iterable[RawObject]) -> int:
        """The user of the first claim among these volumes whose folder is there; 0 where there is none."""
        names = claim_names(namespace, volumes)
        folders = (folder for place in names for folder in self._directory.glob(f"{'/'.join(place)}/*"))
        return next((folder.stat().st_uid for folder in folders), 0)

    def owners(self) -> set[int]:
        """The users of all claims: no other Pod gets one of them."""
        return {folder.stat().st_uid for folder in self._directory.glob("*/*/*")}

    async def of(self, namespace: str, volume: RawObject, *, user: int, group: int | None) -> Path:
        """The folder of the claim that a volume names; Missing where it is not there or not bound yet.

        A new one belongs to `user`, unless that is 0, and to the group.
        """
        name = volume["persistentVolumeClaim"].get("claimName", "")
        bound = await self._volume(Key(namespace, name))
        if bound is None:
            raise Missing(f'persistentvolumeclaim "{name}" not found')
        if not bound:
            raise Missing(f'persistentvolumeclaim "{name}" is not bound')
        folder: Path = self._directory / namespace / name / bound
        _make(folder, user, group)
        return folder

    async def sweep(self) -> None:
        """Removes the folders of claims that are gone, with what is in them."""
        for folder in sorted(self._directory.glob("*/*/*")):
            key = Key(folder.parent.parent.name, folder.parent.name)
            if await self._volume(key) != folder.name:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                for empty in (folder.parent, folder.parent.parent):
                    with suppress(OSError):  # it holds what is still claimed
                        empty.rmdir()

    async def _volume(self, key: Key) -> str | None:
        """The volume of a claim, empty while it has none; None where there is no claim."""
        try:
            claim = await self._client.raw(CLAIM).get(key)
        except NotFound:
            return None
        return str((claim.get("spec") or {}).get("volumeName", ""))


def claim_names(namespace: str, volumes: Iterable[RawObject]) -> set[tuple[str, str]]:
    """The claims among the volumes of a Pod, by namespace and name."""
    names = ((each.get("persistentVolumeClaim") or {}).get("claimName", "") for each in volumes)
    return {(namespace, name) for name in names if name}


def shared_user(claims: Set[tuple[str, str]], others: Iterable[tuple[int, Set[tuple[str, str]]]]) -> int:
    """The user of the first other Pod that has one of these claims, of users and claims; 0 where there is none.

    For claims whose folders are not made yet: whoever creates them, all their Pods must be able to write there.
    """
    return next((user for user, theirs in others if user and claims & theirs), 0)


def _make(folder: Path, user: int, group: int | None) -> None:
    """Makes a folder where there is none; one that is there is as the Pods have left it."""
    if not folder.exists():
        folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        make_empty(folder, group=group)
        if user:
            os.chown(folder, user, -1)
