"""The inventory at work where Instances tell what once was, or spell one address in several ways."""

from __future__ import annotations

from pathlib import Path

from edgewright.api.device import Device, DeviceSpec, LastFlash
from edgewright.api.instance import Instance
from edgewright.runtime.objects import Key, ObjectMeta
from tests.unit.controllers.inventory.site import Site, has, only, site


async def flash(it: Site, name: str, before: str, after: str) -> None:
    """A job flashes the Device; its Instance, which Akri does not change, is looked at again."""
    ended = LastFlash(version_before=before, version_after=after, time=it.clock.now())
    version = after or (await it.devices())[name].status.version
    await it.flash_ends(name, application="lamp", version=version, last_flash=ended)
    await it.until(lambda: it._devices.get(Key("", name)).status.last_flash == ended)
    await it.clock.advance(451)  # it is written down again that the device was seen
    await it.settled(lambda found: found[name].status.last_seen >= ended.time)  # type: ignore[operator] # it was seen
    assert await it.quiet()


async def test_a_device_keeps_what_its_flashes_proved_until_discovery_tells_otherwise(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        async with it.at_work():
            seen = await it.sees("http-1")
            name = only(await it.settled(has(seen))).metadata.name
            for before, after in (("1.0.0", "2.0.0"), ("2.0.0", "3.0.0"), ("3.0.0", "3.0.0"), ("", "")):
                await flash(it, name, before, after)
                device = only(await it.devices())
                assert (device.status.version, device.status.application) == (after or "3.0.0", "lamp")
        async with it.at_work():
            assert await it.quiet()
            assert only(await it.devices()).status.version == "3.0.0", "a new process knows it too"
        await it.client.of(Instance).patch(seen.key, {"spec": {"brokerProperties": {"VERSION": "1.1.0"}}})
        async with it.at_work():
            await it.settled(lambda found: only(found).status.version == "1.1.0")
            await it.client.of(Instance).patch(seen.key, {"spec": {"brokerProperties": {"VERSION": "1.0.0"}}})
            await it.settled(lambda found: only(found).status.version == "1.0.0")


async def test_all_spellings_of_an_address_are_one_device(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        spellings = ("10.0.0.7", "10.0.0.7:80", "http://10.0.0.7", "::ffff:10.0.0.7")
        seen = [await it.sees(f"http-{number}", HOST_ENDPOINT=told) for number, told in enumerate(spellings)]
        async with it.at_work():
            await it.settled(has(*seen))
            assert await it.quiet()


async def test_an_instance_shows_the_device_that_people_wrote_with_its_port(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        written = Device(metadata=ObjectMeta(name="bench"), spec=DeviceSpec(endpoint="10.0.0.7:80"))
        await it.client.of(Device).create(written)
        async with it.at_work():
            seen = await it.sees("http-1")
            device = only(await it.settled(has(seen)))
        assert (device.metadata.name, device.spec) == ("bench", written.spec)
