"""What an order is given to work with, and what is said where something of it is missing."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from edgewright.api.flash_pod import Outcome, Role, Variable
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.flasher.environment import BadOrder, Folders, Network, read_order
from edgewright.devices.flasher.setup import (
    CERTIFICATE_FILE,
    KEY_FILE,
    PUBLIC_KEY_FILE,
    PULL_FILE,
    credentials,
    equip,
    find_driver,
    public_key,
    puller,
    server_side,
    surroundings,
)
from edgewright.devices.simulated.certificates import server_pair
from edgewright.devices.simulated.registry import Registry
from tests.unit.devices.drivers.scripted import CERTIFICATE, Scripted, info, own_address, page
from tests.unit.devices.flasher.fakes import ENVIRONMENT, FakeDriver

ORDER = read_order(ENVIRONMENT)


def quiet(_line: str) -> None:
    """Hears nothing."""


@pytest.fixture(scope="module")
def tls_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As the Secret is mounted."""
    folder = tmp_path_factory.mktemp("tls")
    pair = server_pair()
    (folder / CERTIFICATE_FILE).write_text(pair.certificate)
    (folder / KEY_FILE).write_text(pair.key)
    return folder


def test_a_device_that_dials_back_is_heard_on_the_pods_address_alone(tls_folder: Path) -> None:
    equipment = equip(replace(ORDER, folders=Folders(tls=tls_folder)), quiet)
    assert equipment.driver.protocol == "esp32"
    assert (equipment.around.listen, equipment.around.external_address) == ("127.0.0.9", "192.0.2.200")
    assert equipment.around.tls is not None
    assert equipment.around.tls.minimum_version is ssl.TLSVersion.TLSv1_2


async def test_a_name_leads_the_flasher_no_further_than_the_prober(monkeypatch: pytest.MonkeyPatch) -> None:
    """Server-side request forgery by name: the flasher refused such addresses only where they were written out."""
    async with Scripted({"/info": info(), "/onboard": page(200, CERTIFICATE)}).running(own_address()) as device:
        host, _, port = device.endpoint.rpartition(":")
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, int(port)))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        order = replace(ORDER, role=Role.INSPECT)
        with pytest.raises(Ended, match="is a loopback address"):
            await equip(order, quiet).driver.inspect(f"door.example:{port}")
        local = replace(order, network=replace(order.network, local=True))
        assert (await equip(local, quiet).driver.inspect(f"door.example:{port}")).version


@pytest.mark.parametrize("role", [Role.INSPECT, Role.VERIFY])
def test_who_only_asks_needs_neither_a_key_nor_an_address(role: Role, tmp_path: Path) -> None:
    order = replace(ORDER, role=role, folders=Folders(tls=tmp_path), network=Network())
    around = equip(order, quiet).around
    assert (around.listen, around.tls) == ("", None)


def test_a_driver_that_dials_the_device_needs_no_address(tmp_path: Path) -> None:
    order = replace(ORDER, folders=Folders(tls=tmp_path), network=Network())
    assert surroundings(order, FakeDriver(), quiet).tls is None


def test_nobody_listens_where_the_pods_address_is_not_known(tls_folder: Path) -> None:
    with pytest.raises(BadOrder, match="EDGEWRIGHT_POD_IP"):
        equip(replace(ORDER, folders=Folders(tls=tls_folder), network=replace(ORDER.network, listen="")), quiet)


def test_an_unknown_protocol_is_told_with_those_that_are_known() -> None:
    with pytest.raises(Ended, match="known are esp32") as caught:
        find_driver("carrier-pigeon")
    assert caught.value.outcome is Outcome.FAILED


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(tls_folder: Path, tmp_path: Path) -> None:
    key = load_pem_private_key((tls_folder / KEY_FILE).read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hunter2"))
    (tmp_path / CERTIFICATE_FILE).write_text((tls_folder / CERTIFICATE_FILE).read_text())
    (tmp_path / KEY_FILE).write_bytes(locked)
    with pytest.raises(Ended, match="passphrase") as caught:
        server_side(tmp_path)
    assert caught.value.outcome is Outcome.FAILED


def test_a_certificate_that_is_none_is_told_without_its_content(tmp_path: Path) -> None:
    (tmp_path / CERTIFICATE_FILE).write_text("hunter2")
    (tmp_path / KEY_FILE).write_text("hunter2")
    with pytest.raises(Ended, match="cannot be used") as caught:
        server_side(tmp_path)
    assert "hunter2" not in caught.value.message


def test_that_there_is_no_attestation_service_is_said() -> None:
    said: list[str] = []
    assert surroundings(ORDER, FakeDriver(), said.append).attest is None
    assert said == ["there is no attestation service: the device is not attested"]
    url: dict[str, str] = {Variable.ATTESTATION: "http://dice.example:8000"}
    assert surroundings(read_order({**ENVIRONMENT, **url}), FakeDriver(), quiet).attest is not None


def test_credentials_are_read_where_there_are_some(tmp_path: Path) -> None:
    assert credentials(tmp_path) is None
    (tmp_path / PULL_FILE).write_text('{"auths": {"registry.example": {"username": "me", "password": "hunter2"}}}')
    found = credentials(tmp_path)
    assert found is not None
    login = found.find(ORDER.firmware.reference)
    assert login is not None
    assert login.user == "me"


def test_credentials_that_are_none_are_told_by_the_name_of_their_secret(tmp_path: Path) -> None:
    (tmp_path / PULL_FILE).write_text("hunter2")
    with pytest.raises(Ended, match="firmwarePullSecret") as caught:
        credentials(tmp_path)
    assert "hunter2" not in caught.value.message


def test_without_the_key_to_check_it_by_no_firmware_is_taken(tmp_path: Path) -> None:
    order = replace(ORDER, folders=Folders(signature=tmp_path))
    with pytest.raises(Ended, match="signaturePublicKeySecret") as caught:
        public_key(order)
    assert caught.value.outcome is Outcome.REFUSED
    (tmp_path / PUBLIC_KEY_FILE).write_bytes(b"a key")
    assert public_key(order) == b"a key"


async def test_the_pinned_digest_is_pulled_and_not_what_the_tag_stands_for_now(tmp_path: Path) -> None:
    async with Registry() as registry:
        first = registry.add_image("team/firmware", "0.2.0", b"the first")
        registry.add_image("team/firmware", "0.2.0", b"the second")
        changed: dict[str, str] = {
            Variable.FIRMWARE: f"{registry.host}/team/firmware:0.2.0",
            Variable.PLAIN_REGISTRIES: registry.host,
        }
        order = replace(read_order({**ENVIRONMENT, **changed}), folders=Folders(pull=tmp_path))
        assert (await puller(order, quiet)("esp32s3")).content == b"the second"
        image = await puller(replace(order, firmware=replace(order.firmware, pinned=first)), quiet)("esp32s3")
    assert (image.content, image.digest) == (b"the first", first)
