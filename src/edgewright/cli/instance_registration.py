"""Registers simulated devices at an API server, as Akri and its discovery handler would: one Instance per device.

`simulate` and the demo run it next to a fleet. What Akri does is done here too: an Instance is deleted when its device
does not answer, comes back with another uid, and is made again where somebody deleted it. It looks at the fleet and
writes Instances; it never writes a Device, nor the Instance of a fleet that still runs.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgewright.api.instance import Instance, InstanceSpec, instance_crd
from edgewright.cli.failure import Failed
from edgewright.runtime import Client, logs
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.definitions import DEFINITION, install
from edgewright.runtime.errors import AlreadyExists, Conflict, KubernetesError, NotFound
from edgewright.runtime.objects import Key, Kind, ObjectMeta

if TYPE_CHECKING:
    from edgewright.devices.simulated.device import Device
    from edgewright.devices.simulated.fleet import Fleet

SECRET: Final = Kind(group="", version="v1", kind="Secret", plural="secrets")
LABEL: Final = "edgewright.dev/simulated"
"""What our Instances carry, so that those of a fleet that was killed are found and removed."""
RUN: Final = "edgewright.dev/simulated-by"
"""And which run of a fleet they are of: no other one changes them."""

_AT_ONCE: Final = 16
# A simulated device is on this machine; one that takes longer has no time for discovery either.
_ANSWERS_WITHIN: Final = 3.0
_log = logs.get("cli.registering")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What discovery finds out about a device that answers."""

    endpoint: str
    device: str
    application: str
    version: str

    @property
    def properties(self) -> dict[str, str]:
        """The broker properties, as the published discovery handler writes them."""
        return {
            "AKRI_HTTP": "http",
            "HOST_ENDPOINT": self.endpoint,
            "APPLICATION_TYPE": self.application,
            "DEVICE": self.device,
            "VERSION": self.version,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What must be done so that the Instances say what was seen, by the numbers of devices."""

    appeared: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()


def compare(registered: Mapping[int, Seen], seen: Mapping[int, Seen]) -> Changes:
    """The way from what is registered to what was seen.

    A device with another application, or elsewhere, is another discovery's find: it goes, and appears when it is
    looked for next. Another version alone is a change of the same Instance.
    """
    gone, changed = [], []
    for number, before in registered.items():
        now = seen.get(number)
        if now is None or (now.application, now.endpoint) != (before.application, before.endpoint):
            gone.append(number)
        elif now != before:
            changed.append(number)
    return Changes(
        appeared=tuple(number for number in seen if number not in registered), gone=tuple(gone), changed=tuple(changed)
    )


def instance_names(configuration: str, endpoints: Iterable[str]) -> list[str]:
    """The name of each device's Instance: the Configuration and six hex digits, no two alike."""
    taken: dict[str, None] = {}
    for endpoint in endpoints:
        digits, salt = "", 0
        while not digits or f"{configuration}-{digits}" in taken:
            digits = hashlib.sha256(f"{endpoint} {salt or ''}".encode()).hexdigest()[:6]
            salt += 1
        taken[f"{configuration}-{digits}"] = None
    return list(taken)


class Registration:
    """Keeps the Instances of one fleet; `begin`, then `run`, and `end` whatever happened."""

    def __init__(
        self,
        client: Client,
        fleet: Fleet,
        *,
        namespace: str,
        configuration: str,
        node: str,
        every: float,
        clock: Clock | None = None,
    ) -> None:
        """`every` is how many seconds lie between two looks at the fleet."""
        self.names: dict[int, str] = {}
        """The names of the Instances by their devices' numbers, once it has begun."""
        self._client = client
        self._fleet = fleet
        self._namespace, self._configuration, self._node = namespace, configuration, node
        self._every = every
        self._clock = clock or SystemClock()
        self._labels = {LABEL: configuration, RUN: secrets.token_hex(6)}
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def begin(self) -> None:
        """Sees to it that there are Instances at all, removes what an earlier fleet has left, and registers all.

        Failed where a fleet that may still run has an Instance that ours would need.
        """
        await install_instances(self._client)
        names = instance_names(self._configuration, (device.endpoint for device in self._fleet))
        self.names = {device.number: name for device, name in zip(self._fleet, names, strict=True)}
        await self._remove(await self._left_behind())
        for problem in await self.look():
            if isinstance(problem, AlreadyExists):
                raise Failed(
                    f"{problem}: it is not of this machine's simulated devices. Choose another Configuration or other "
                    "addresses, or delete that Instance"
                )
            raise problem

    async def run(self) -> None:
        """Looks at the fleet again and again, until it is cancelled; what the server refuses is tried again."""
        while True:
            await self._clock.sleep(self._every)
            for problem in (await self.look())[:1]:
                _log.warning("simulated device not registered; retrying", error=str(problem))

    async def end(self) -> None:
        """Removes the Instances; those that cannot be removed are left to the next fleet of the same Configuration."""
        try:
            await self._remove(each.metadata.name for each in await self._instances(self._labels))
        except KubernetesError as error:
            _log.warning("Instances of simulated devices are left behind", error=str(error))

    async def look(self) -> list[KubernetesError]:
        """Makes the Instances say what is seen of the devices now; gives what went wrong."""
        seen = {device.number: _seen(device, self._fleet.type) for device in self._fleet if device.present}
        try:
            there = {each.metadata.name: _registered(each) for each in await self._instances(self._labels)}
        except KubernetesError as error:
            return [error]
        changes = compare({number: there[name] for number, name in self.names.items() if name in there}, seen)
        work = [self._delete(self.names[number]) for number in changes.gone]
        work += [self._create(number, seen[number]) for number in changes.appeared]
        work += [self._change(number, seen[number]) for number in changes.changed]
        return [problem for problem in await asyncio.gather(*work) if problem is not None]

    async def _create(self, number: int, seen: Seen) -> KubernetesError | None:
        name = self.names[number]
        made = Instance(
            metadata=ObjectMeta(name=name, namespace=self._namespace, labels=self._labels),
            spec=InstanceSpec(
                configuration_name=self._configuration,
                cdi_name=f"akri.sh/{self._configuration}={name.rpartition('-')[2]}",
                capacity=1,
                shared=True,
                nodes=(self._node,),
                device_usage={f"{name}-0": ""},
                broker_properties=seen.properties,
            ),
        )
        async with self._places:
            api = self._client.of(Instance)
            try:
                await api.create(made)
            except AlreadyExists as error:
                return None if await self._is_ours(name) else error  # ours where the first reply was lost
            except KubernetesError as error:
                return error
        return None

    async def _is_ours(self, name: str) -> bool:
        try:
            found = await self._client.of(Instance).get(Key(self._namespace, name))
        except KubernetesError:
            return False
        return found.metadata.labels.get(RUN) == self._labels[RUN]

    async def _change(self, number: int, seen: Seen) -> KubernetesError | None:
        async with self._places:
            try:
                await self._client.of(Instance).patch(
                    Key(self._namespace, self.names[number]), {"spec": {"brokerProperties": seen.properties}}
                )
            except NotFound:
                return None  # somebody deleted it: it is made again when it is looked for next
            except KubernetesError as error:
                return error
        return None

    async def _delete(self, name: str) -> KubernetesError | None:
        async with self._places:
            try:
                await self._client.of(Instance).delete(Key(self._namespace, name))
            except NotFound:
                return None
            except KubernetesError as error:
                return error
        return None

    async def _remove(self, names: Iterable[str]) -> None:
        for problem in await asyncio.gather(*map(self._delete, names)):
            if problem is not None:
                raise problem

    async def _instances(self, labels: Mapping[str, str]) -> list[Instance]:
        wanted = ",".join(f"{name}={text}" for name, text in labels.items())
        return (await self._client.of(Instance).list(self._namespace, labels=wanted)).items

    async def _left_behind(self) -> list[str]:
        """The Instances of this machine's earlier fleets: at whose endpoint is a device of ours now, or none."""
        found = await self._instances({LABEL: self._configuration})
        here = [each for each in found if each.spec.nodes in {(), (self._node,)}]
        ours = {device.endpoint for device in self._fleet}

        async def is_left(instance: Instance) -> bool:
            endpoint = _registered(instance).endpoint
            async with self._places:
                return endpoint in ours or not await _answers(endpoint)

        left = await asyncio.gather(*map(is_left, here))
        return [each.metadata.name for each, gone in zip(here, left, strict=True) if gone]


def _registered(instance: Instance) -> Seen:
    """What an Instance says of its device."""
    said = instance.spec.broker_properties
    return Seen(
        endpoint=said.get("HOST_ENDPOINT", ""),
        device=said.get("DEVICE", ""),
        application=said.get("APPLICATION_TYPE", ""),
        version=said.get("VERSION", ""),
    )


async def _answers(endpoint: str) -> bool:
    """Whether there is a device at this endpoint, of whatever fleet."""
    from edgewright.devices.drivers.esp_device import NotUnderstood, ask_info  # noqa: PLC0415

    try:
        await ask_info(endpoint, timeout=_ANSWERS_WITHIN)
    except (OSError, NotUnderstood):
        return False
    return True


def _seen(device: Device, kind: str) -> Seen:
    return Seen(
        endpoint=device.endpoint,
        device=kind,
        application=device.running.application,
        version=device.running.version,
    )


async def install_instances(client: Client) -> None:
    """Installs Akri's Instance where the server does not know it; Akri's own definition is left as it is."""
    document = instance_crd()
    try:
        await client.raw(DEFINITION).get(Key("", document["metadata"]["name"]))
    except NotFound:
        await install(client, document)


async def pinned_certificate(client: Client, *, namespace: str, name: str) -> str:
    """The PEM certificate that the devices pin: from the Secret that is there, else a new Secret with a new one."""
    from edgewright.devices.simulated.certificates import first_certificate, server_pair  # noqa: PLC0415

    api, key = client.raw(SECRET), Key(namespace, name)
    try:
        found = await api.get(key)
    except NotFound:
        pair = server_pair()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "type": "kubernetes.io/tls",
            "data": {"tls.crt": _encoded(pair.certificate), "tls.key": _encoded(pair.key)},
        }
        try:
            await api.create(secret)
        except (AlreadyExists, Conflict):
            return await pinned_certificate(client, namespace=namespace, name=name)
        return pair.certificate
    try:
        certificate = base64.b64decode(found.get("data", {}).get("tls.crt", "")).decode()
        first_certificate(certificate)
    except ValueError:
        raise Failed(
            f"the Secret {key} has no certificate in tls.crt: put one there, or delete it for a new one"
        ) from None
    return certificate


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
