"""Rollouts on a stage of simulated devices: making them, waiting for them, and what the devices saw of their limits.

Scenarios use it next to `stage`. Limits are measured at the devices: from the moment that one is told to update until
it has started again, or has given up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any, Final

from edgewright.api import Device, FlashJob
from edgewright.api.firmwarerollout import FirmwareRollout, FirmwareRolloutStatus
from edgewright.api.fleet import FLEET, Fleet
from edgewright.devices.simulated.journal import Did
from edgewright.runtime import Key
from edgewright.runtime.errors import NotFound
from tests.cluster.flash.stage import PATIENCE, Stage

STAGE, SITE = "stage", "site"
FAILS: Final = "drop-transfer"
"""The fault of a device that only has to fail: the flasher knows at once. For one that vanishes it waits for long."""
_ENDS = frozenset({Did.REBOOTED, Did.REVERTED, Did.GAVE_UP, Did.CUT, Did.DAMAGED, Did.VANISHED})


class Rolling:
    """The rollouts of a stage."""

    def __init__(self, stage: Stage, sites: int) -> None:
        self.stage = stage
        self._sites = sites
        self._api = stage.client.raw(FirmwareRollout.kind)
        self.names: dict[int, str] = {}
        """The name of the Device of each simulated device, by its number."""

    async def label(self) -> None:
        """Waits for the Devices, and gives each the label of its site, and of this stage."""
        stage = self.stage

        async def all_there() -> bool:
            return len(await stage.devices()) == len(stage.fleet)

        await stage.until(all_there, "all devices are discovered", 300)
        by_endpoint = {each.endpoint: each.number for each in stage.fleet}
        api = stage.client.raw(Device.kind)
        for device in await stage.devices():
            number = by_endpoint[device.spec.endpoint]
            self.names[number] = device.metadata.name
            labels = {STAGE: stage.namespace, SITE: self.site_of(number)}
            await api.patch(device.key, {"metadata": {"labels": labels}})

    def site_of(self, number: int) -> str:
        """The site of a simulated device."""
        return f"site-{number % self._sites}"

    async def make(self, name: str = "rollout", *, version: str | None = "0.2.0", **spec: Any) -> None:
        """Makes a rollout for all devices of the stage; without a version it has the firmwares of its spec."""
        mine = {"labels": {"matchLabels": {STAGE: self.stage.namespace}}}
        template = {"timeoutSeconds": 60, "retries": 0, **spec.pop("template", {})}
        brings = {"firmware": self.stage.firmware(version), "version": version} if version is not None else {}
        body = {
            "apiVersion": FirmwareRollout.kind.api_version,
            "kind": "FirmwareRollout",
            "metadata": {"name": name, "namespace": self.stage.namespace},
            "spec": {"selector": mine, "template": template, **brings, **spec},
        }
        await self._api.create(body)

    async def make_recall(self, name: str, recalled: FirmwareRollout) -> None:
        """Makes a rollout that takes the devices of another one back."""
        reference = {"name": recalled.metadata.name, "uid": recalled.metadata.uid}
        body = {
            "apiVersion": FirmwareRollout.kind.api_version,
            "kind": "FirmwareRollout",
            "metadata": {"name": name, "namespace": self.stage.namespace},
            "spec": {"recall": reference, "template": {"timeoutSeconds": 60}},
        }
        await self._api.create(body)

    async def change(self, name: str = "rollout", **spec: Any) -> None:
        """Changes fields of a rollout's spec."""
        await self._api.patch(Key(self.stage.namespace, name), {"spec": spec})

    async def freeze(self, *, frozen: bool) -> None:
        """Freezes or thaws the fleet."""
        api, body = self.stage.client.raw(Fleet.kind), {"frozen": frozen, "reason": "a test"}
        try:
            await api.patch(Key("", FLEET), {"spec": body})
        except NotFound:
            kind = {"apiVersion": Fleet.kind.api_version, "kind": "Fleet"}
            await api.create({**kind, "metadata": {"name": FLEET}, "spec": body})

    async def until(
        self,
        condition: Callable[[FirmwareRolloutStatus], object],
        what: str,
        name: str = "rollout",
        patience: float = PATIENCE,
    ) -> FirmwareRolloutStatus:
        """The status of a rollout as soon as the condition holds, for this generation of its spec."""
        last = FirmwareRolloutStatus()

        async def holds() -> FirmwareRolloutStatus | None:
            nonlocal last
            try:
                rollout = await self.stage.client.of(FirmwareRollout).get(Key(self.stage.namespace, name))
            except NotFound:
                return None
            last = rollout.status
            seen = last.observed_generation == rollout.metadata.generation
            return last if seen and condition(last) else None

        try:
            return await self.stage.until(holds, f"{name}: {what}", patience)
        except AssertionError as error:
            raise AssertionError(f"{error}; its status is {last.to_raw()}") from None

    async def until_phase(self, phase: str, name: str = "rollout", patience: float = PATIENCE) -> FirmwareRolloutStatus:
        """The status of a rollout as soon as it is in this phase."""
        return await self.until(lambda status: status.phase == phase, phase, name, patience)

    async def delete_all(self) -> None:
        """Deletes the rollouts, and waits until their FlashJobs have gone with them."""
        stage = self.stage
        for rollout in (await stage.client.of(FirmwareRollout).list(stage.namespace)).items:
            await self._api.delete(rollout.key)

        async def gone() -> bool:
            left = (await stage.client.of(FlashJob).list(stage.namespace)).items
            return not any(job.metadata.owner_references for job in left)

        await stage.until(gone, "the FlashJobs have gone with their rollout")

    # --- what the devices saw --------------------------------------------------------------------------------------

    def asked(self) -> set[int]:
        """The devices that were told to update."""
        return {device.number for device in self.stage.fleet if device.journal.count(Did.ASKED)}

    def most_at_once(self, numbers: Collection[int] | None = None) -> int:
        """The most of these devices that were updating at one time."""
        moments: list[tuple[float, int]] = []
        for device in self.stage.fleet:
            if numbers is not None and device.number not in numbers:
                continue
            since: float | None = None
            for entry in device.journal:
                if entry.did is Did.ASKED and since is None:
                    since = entry.at
                elif entry.did in _ENDS and since is not None:
                    moments += [(since, 1), (entry.at, -1)]
                    since = None
        most = now = 0
        for _, change in sorted(moments):
            now += change
            most = max(most, now)
        return most

    def sites(self) -> dict[str, set[int]]:
        """The devices of each site."""
        found: dict[str, set[int]] = {}
        for device in self.stage.fleet:
            found.setdefault(self.site_of(device.number), set()).add(device.number)
        return found

    def versions(self) -> dict[int, str]:
        """What the devices themselves run."""
        return {device.number: device.running.version for device in self.stage.fleet}


@asynccontextmanager
async def rolling(stage: Stage, *, sites: int = 3) -> AsyncIterator[Rolling]:
    """Rollouts on a stage whose devices are at so many sites; they are deleted in the end."""
    found = Rolling(stage, sites)
    await found.label()
    try:
        yield found
    finally:
        await found.freeze(frozen=False)
        await found.delete_all()
