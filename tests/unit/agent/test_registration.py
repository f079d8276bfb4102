"""How a device gets its certificate: the steps as a table, and with a gateway over mutual TLS."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from edgewright.agent.identity import BadIdentity, certificate_request, identity, new_key, split
from edgewright.agent.registration import NotRegistered, Registrar, Step, next_step
from edgewright.agent.settings import load
from edgewright.agent.state import State
from edgewright.agent.uplink import CertificateRefused, ClosedWithoutAnswer, GatewayUnavailable, Uplink, _tls_problem
from edgewright.api.edge_hardware import HardwareInfo, SystemVendor
from edgewright.api.edge_protocol import Directive, Heartbeat
from edgewright.runtime.clock import SystemClock
from tests.edge.stub_gateway import StubGateway
from tests.harness.certificates import Authority

FACTS = HardwareInfo(hostname="press-7", system_vendor=SystemVendor(product_name="Board"))


class Device:
    """A device of a stub gateway, without an agent around it."""

    def __init__(self, gateway: StubGateway, folder: Path) -> None:
        self.settings = load(gateway.write_config(folder, device="dev-1"))
        self.state = State(self.settings.state)
        self.state.lock()
        self.uplink = Uplink(self.settings, SystemClock())
        self.registrar = Registrar(settings=self.settings, state=self.state, uplink=self.uplink)

    async def close(self) -> None:
        await self.uplink.close()
        self.state.unlock()


@pytest.mark.parametrize(
    ("status", "own", "step"),
    [
        (200, True, Step.DONE),
        (200, False, Step.DONE),
        (401, True, Step.AS_REGISTRAR),
        (403, True, Step.AS_REGISTRAR),
        (403, False, Step.WAIT),
        (404, False, Step.ENROL),
        (404, True, Step.ENROL),
        (400, False, Step.WAIT),
        (500, True, Step.WAIT),
    ],
)
def test_what_follows_from_an_answer(status: int, own: bool, step: Step) -> None:
    assert next_step(status, own=own) is step


async def test_a_device_registers_and_keeps_its_certificate_with_its_key(tmp_path: Path) -> None:
    async with StubGateway(tmp_path / "gateway") as gateway:
        device = Device(gateway, tmp_path / "agent")
        with pytest.raises(GatewayUnavailable, match="no certificate of its own"):
            await device.uplink.configuration("")
        first = await device.registrar.register(FACTS, own=False)
        assert device.registrar.known() == first
        assert first.renew_at(1.0) < first.not_after
        assert gateway.devices["dev-1"].presented == ["register"]
        second = await device.registrar.register(FACTS, own=True)
        assert gateway.devices["dev-1"].presented == ["register", "dev-1"]
        assert second.key == first.key
        assert gateway.devices["dev-1"].registrations[0].hardware == FACTS
        reply = await device.uplink.post(Directive.HEARTBEAT, Heartbeat())
        assert reply.status == 200
        await device.close()


async def test_a_key_that_was_kept_before_a_crash_is_used_again(tmp_path: Path) -> None:
    async with StubGateway(tmp_path / "gateway") as gateway:
        device = Device(gateway, tmp_path / "agent")
        gateway.refuse["registration"] = [500]
        with pytest.raises(NotRegistered, match="500 registration is refused"):
            await device.registrar.register(FACTS, own=False)
        kept = device.state.key()
        assert kept is not None
        assert (await device.registrar.register(FACTS, own=False)).key == kept
        device.state.keep_key(b"damaged")
        assert (await device.registrar.register(FACTS, own=False)).key != kept
        await device.close()


async def test_a_certificate_that_is_refused_is_replaced_with_the_registration_certificate(tmp_path: Path) -> None:
    async with StubGateway(tmp_path / "gateway") as gateway:
        device = Device(gateway, tmp_path / "agent")
        await device.registrar.register(FACTS, own=False)
        gateway.refuse["registration"] = [403]
        await device.registrar.register(FACTS, own=True)
        assert gateway.devices["dev-1"].presented == ["register", "register"]
        await device.close()


async def test_a_foreign_certificate_fails_in_the_handshake_and_the_registration_certificate_helps(
    tmp_path: Path,
) -> None:
    async with StubGateway(tmp_path / "gateway") as gateway:
        device = Device(gateway, tmp_path / "agent")
        await device.registrar.register(FACTS, own=False)
        gateway.authority, before = Authority("another"), gateway.authority
        key = new_key()
        foreign = gateway.sign("dev-1", certificate_request(key, "dev-1").encode()).encode()
        gateway.authority = before
        device.uplink.present_device(identity(foreign, key))
        with pytest.raises((CertificateRefused, ClosedWithoutAnswer)):
            await device.uplink.configuration("")
        await device.registrar.register(FACTS, own=True)
        assert gateway.devices["dev-1"].presented == ["register", "register"]
        await device.close()


async def test_a_device_that_is_not_approved_enrols_and_waits(tmp_path: Path) -> None:
    async with StubGateway(tmp_path / "gateway") as gateway:
        device = Device(gateway, tmp_path / "agent")
        gateway.approved = False
        with pytest.raises(NotRegistered, match="waits for approval"):
            await device.registrar.register(FACTS, own=False)
        (enrolment,) = gateway.devices["dev-1"].enrolments
        assert enrolment.features is not None
        assert enrolment.features.model_name == "Board"
        gateway.refuse["enrolment"] = [403]
        with pytest.raises(NotRegistered, match="refuses enrolment: 403"):
            await device.registrar.register(FACTS, own=False)
        gateway.refuse |= {"registration": [404], "enrolment": [208]}
        gateway.approved = True
        await device.registrar.register(FACTS, own=False)
        await device.close()


async def test_a_certificate_for_another_key_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with StubGateway(tmp_path / "gateway") as gateway:
        device = Device(gateway, tmp_path / "agent")
        other = gateway.sign("dev-1", certificate_request(new_key(), "dev-1").encode())
        for certificate in (other, "nonsense"):
            monkeypatch.setattr(gateway, "sign", lambda *_, certificate=certificate: certificate)
            with pytest.raises(NotRegistered, match="cannot be used"):
                await device.registrar.register(FACTS, own=False)
        assert device.state.identity() is None
        await device.close()


async def test_an_identity_on_the_disk_that_is_damaged_is_as_good_as_none(tmp_path: Path) -> None:
    async with StubGateway(tmp_path / "gateway") as gateway:
        device = Device(gateway, tmp_path / "agent")
        assert device.registrar.known() is None
        device.state.keep_identity(b"damaged", b"damaged")
        assert device.registrar.known() is None
        await device.close()


async def test_a_gateway_that_is_unavailable_or_not_the_one_we_trust_is_unavailable(tmp_path: Path) -> None:
    async with StubGateway(tmp_path / "gateway") as gateway:
        device = Device(gateway, tmp_path / "agent")
        await device.registrar.register(FACTS, own=False)
        await gateway.stop()
        with pytest.raises(GatewayUnavailable, match=r"Connection refused|closed"):
            await device.uplink.configuration("")
        await gateway.start()
        assert (await device.uplink.configuration("")).status == 200
        await device.close()
        gateway.ca.write_bytes(Authority("another").certificate)
        stranger = Uplink(device.settings, SystemClock())
        stranger.present_registration()
        with pytest.raises(GatewayUnavailable, match="TLS: certificate verify failed"):
            await stranger.post(Directive.HEARTBEAT, Heartbeat(), registering=True)
        await stranger.close()


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("TLSV1_ALERT_UNKNOWN_CA", CertificateRefused), ("CERTIFICATE_VERIFY_FAILED", GatewayUnavailable)],
)
def test_what_the_gateway_complains_of_is_told_from_what_we_complain_of(reason: str, kind: type[Exception]) -> None:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    assert type(_tls_problem("gateway", error)) is kind


async def test_answers_that_cannot_be_read_are_a_gateway_that_is_unavailable(tmp_path: Path) -> None:
    async with StubGateway(tmp_path / "gateway") as gateway:
        device = Device(gateway, tmp_path / "agent")
        await device.registrar.register(FACTS, own=False)
        gateway.configurations["dev-1"] = b'"text"'
        assert (await device.uplink.configuration("")).content == b'"text"'
        gateway.commands["dev-1"] = ["ping", "reconnect"]
        reply, command = await device.uplink.command()
        assert command is not None
        assert (reply.status, command.command) == (200, "ping")
        assert (await device.uplink.pong()).status == 200
        assert msgspec.json.decode(gateway.devices["dev-1"].control[0].content) == "pong"
        await device.close()


async def test_an_expired_certificate_gets_401_and_can_only_register_again(tmp_path: Path) -> None:
    async with StubGateway(tmp_path / "gateway") as gateway:
        device = Device(gateway, tmp_path / "agent")
        gateway.lifetime = timedelta(seconds=-1)
        await device.registrar.register(FACTS, own=False)
        assert (await device.uplink.configuration("")).status == 401
        gateway.lifetime = timedelta(days=1)
        await device.registrar.register(FACTS, own=True)
        assert gateway.devices["dev-1"].presented == ["register", "dev-1"]
        assert (await device.uplink.configuration("")).status == 200
        await device.close()


@pytest.mark.parametrize(
    ("certificate", "key", "text"),
    [
        (b"x", new_key(), "holds no PEM certificate"),
        (None, b"x", "holds no PEM key"),
        (None, new_key(), "is for another key"),
    ],
)
def test_an_identity_that_does_not_fit_is_none(certificate: bytes | None, key: bytes, text: str) -> None:
    made = Authority().client("x")
    with pytest.raises(BadIdentity, match=text):
        identity(made.certificate if certificate is None else certificate, key)


def test_certificate_and_key_are_found_in_one_text() -> None:
    key = new_key()
    assert split(b"certificate\n" + key) == (b"certificate\n", key)
    with pytest.raises(BadIdentity, match="holds no key"):
        split(b"certificate")
