"""Pushing firmware: what is made of files, what a registry gets, and what its refusals mean."""

from __future__ import annotations

import json

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.api.reference import parse_reference
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.oci import Access, pull
from edgewright.devices.oci.push import File, Package, package, push
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.registry import Registry

ONE = File(name="a.bin", content=esp_image(version="1.4.0", project="thermo"), device="esp32", version="1.4.0")
OTHER = File(name="b.bin", content=b"other", device="esp32s3")


def test_the_same_files_give_the_same_image_with_the_labels_that_flashers_read() -> None:
    made = package([ONE])
    assert made == package([ONE])
    config = json.loads(made.blobs[0].content)
    assert (config["os"], config["architecture"]) == ("custom", "esp32")
    assert config["config"]["Labels"] == {
        "com.urunc.iot.path": "/firmware/a.bin",
        "org.opencontainers.image.version": "1.4.0",
    }
    assert len(made.manifests) == 1
    index = json.loads(package([ONE, OTHER]).manifests[-1].content)
    assert [each["platform"]["architecture"] for each in index["manifests"]] == ["esp32", "esp32s3"]


async def pushed(registry: Registry, content: Package, *, plain: bool = True) -> str:
    access = Access(plain_hosts=frozenset({registry.host} if plain else ()))
    return await push(parse_reference(f"{registry.host}/team/fw:1"), content, access=access)


@pytest.mark.parametrize("files", [[ONE], [ONE, OTHER]], ids=["one type", "two types"])
async def test_what_was_pushed_is_pulled(files: list[File]) -> None:
    async with Registry() as registry:
        digest = await pushed(registry, package(files))
        for file in files:
            access = Access(plain_hosts=frozenset({registry.host}))
            image = await pull(parse_reference(f"{registry.host}/team/fw:1"), device=file.device, access=access)
            assert (image.content, image.digest, image.label_version) == (file.content, digest, file.version)


async def test_a_registry_that_gives_tokens_is_logged_in_to() -> None:
    async with Registry(tokens=True) as registry:
        assert (await pushed(registry, package([ONE]))).startswith("sha256:")


@pytest.mark.parametrize(
    ("settings", "outcome", "said"),
    [
        ({"login": ("me", "secret")}, Outcome.REFUSED, "wants credentials"),
        ({"busy": 5}, Outcome.FAILED, "it answers 503"),
    ],
    ids=["no credentials", "busy"],
)
async def test_a_refusal_is_said(settings: dict[str, object], outcome: Outcome, said: str) -> None:
    login = settings.get("login")
    async with Registry(login=login if isinstance(login, tuple) else None) as registry:
        registry.faults.busy = int(str(settings.get("busy", 0)))
        with pytest.raises(Ended, match=said) as ended:
            await pushed(registry, package([ONE]))
        assert ended.value.outcome is outcome


async def test_a_blob_that_was_changed_on_the_way_is_refused_by_the_registry() -> None:
    async with Registry() as registry:
        made = package([ONE])
        registry.faults.busy = 0
        with pytest.raises(Ended, match="cannot be reached"):
            await pushed(registry, made, plain=False)  # it speaks no TLS
        assert registry.blobs == {}
