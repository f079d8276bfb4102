"""What the environment of a flash Pod says, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewright.api.flash_pod import (
    ATTESTATION_HOST,
    PULL_FOLDER,
    SIGNATURE_FOLDER,
    TLS_FOLDER,
    Protocol,
    Role,
    Variable,
    VersionPolicy,
)
from edgewright.devices.flasher.environment import BadOrder, check_dialling_back, read_order
from edgewright.devices.timescale import TIME_SCALE
from tests.unit.devices.flasher.fakes import DIGEST, ENVIRONMENT, OTHER_DIGEST


def test_the_published_environment_alone_is_an_order() -> None:
    published = ("FIRMWARE", "UUID", "HOST_ENDPOINT", "DEVICE", "APPLICATION_TYPE", "VERSION", "EXTERNAL_IP")
    order = read_order({name: ENVIRONMENT[name] for name in published})
    assert (order.role, order.target.protocol, order.firmware.version_policy) == (
        Role.FLASH,
        Protocol.ESP32,
        VersionPolicy.IMAGE,
    )
    assert (order.target.endpoint, order.target.device, order.target.application) == ("192.0.2.7", "esp32s3", "thermo")
    assert (order.firmware.version, order.network.external_address, order.target.uuid) == (
        "0.2.0",
        "192.0.2.200",
        "5f0c",
    )
    assert str(order.firmware.reference) == "registry.example/team/firmware:0.2.0"
    assert (order.timeout, order.force, order.allow_insecure, order.firmware.verify_signature) == (
        600,
        False,
        False,
        False,
    )
    assert (str(order.folders.tls), str(order.folders.pull)) == (TLS_FOLDER, PULL_FOLDER)
    assert str(order.folders.signature) == SIGNATURE_FOLDER


def test_every_variable_of_ours_is_read() -> None:
    order = read_order(
        {
            **ENVIRONMENT,
            Variable.ROLE: "verify",
            Variable.PROTOCOL: "smp-udp",
            Variable.DIGEST: DIGEST,
            Variable.RECORDED_DIGEST: OTHER_DIGEST,
            Variable.TIMEOUT: "12.5",
            Variable.FORCE: "true",
            Variable.VERSION_POLICY: "Strict",
            Variable.ALLOW_INSECURE: "True",
            Variable.PLAIN_REGISTRIES: "registry.example:5000, , other.example",
            Variable.VERIFY_SIGNATURE: "true",
            "EDGEWRIGHT_TLS_FOLDER": "certificates",
        }
    )
    assert (order.role, order.target.protocol, order.firmware.version_policy) == (
        Role.VERIFY,
        "smp-udp",
        VersionPolicy.STRICT,
    )
    assert (order.firmware.pinned, order.target.recorded, order.timeout) == (DIGEST, OTHER_DIGEST, 12.5)
    assert (order.force, order.allow_insecure, order.firmware.verify_signature) == (True, True, True)
    assert order.firmware.plain_registries == {"registry.example:5000", "other.example"}
    assert order.folders.tls == Path("certificates")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        pytest.param(Variable.FIRMWARE, "fsdsdsd", "FIRMWARE: 'fsdsdsd' names no image", id="no-reference"),
        pytest.param(Variable.FIRMWARE, "", "FIRMWARE: it is empty", id="no-firmware"),
        pytest.param(Variable.HOST_ENDPOINT, " ", "HOST_ENDPOINT is empty", id="no-endpoint"),
        pytest.param(Variable.HOST_ENDPOINT, "1.2.3.4\r\nX: y", "HOST_ENDPOINT must be an address", id="line-break"),
        pytest.param(Variable.EXTERNAL_IP, "1.2.3.4 5", "EXTERNAL_IP must be an address", id="space"),
        pytest.param(Variable.VERSION, "", "VERSION is empty", id="no-version"),
        pytest.param(Variable.ROLE, "look", "EDGEWRIGHT_ROLE must be one of flash, inspect", id="role"),
        pytest.param(Variable.VERSION_POLICY, "strict", "must be one of Image, Strict", id="policy"),
        pytest.param(Variable.TIMEOUT, "soon", "EDGEWRIGHT_TIMEOUT must be a number of seconds", id="no-number"),
        pytest.param(Variable.TIMEOUT, "0", "EDGEWRIGHT_TIMEOUT must be a number of seconds", id="no-time"),
        pytest.param(Variable.TIMEOUT, "inf", "EDGEWRIGHT_TIMEOUT must be a number of seconds", id="for-ever"),
        pytest.param(Variable.FORCE, "yes", "EDGEWRIGHT_FORCE must be true or false, not 'yes'", id="flag"),
        pytest.param(Variable.DIGEST, "sha256:ab", "EDGEWRIGHT_DIGEST must be a digest", id="digest"),
        pytest.param(TIME_SCALE, "fast", "EDGEWRIGHT_TIME_SCALE must be a number above 0", id="time-scale"),
        pytest.param(Variable.ATTESTATION, "dice:8000", "EDGEWRIGHT_ATTESTATION must be an http", id="url"),
    ],
)
def test_a_mistake_is_a_sentence_that_names_the_variable(name: str, value: str, says: str) -> None:
    with pytest.raises(BadOrder) as caught:
        read_order({**ENVIRONMENT, name: value})
    assert says in str(caught.value)
    assert len(caught.value.mistakes) == 1


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(BadOrder) as caught:
        read_order({})
    assert [mistake.split()[0].rstrip(":") for mistake in caught.value.mistakes] == [
        Variable.FIRMWARE,
        Variable.HOST_ENDPOINT,
        Variable.VERSION,
    ]


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({ATTESTATION_HOST: "10.96.0.7"}, "http://10.96.0.7:8000", id="by-the-service"),
        pytest.param({ATTESTATION_HOST: "fd00::7"}, "http://[fd00::7]:8000", id="by-the-service-on-ipv6"),
        pytest.param(
            {ATTESTATION_HOST: "10.96.0.7", Variable.ATTESTATION: "https://dice.example"},
            "https://dice.example",
            id="ours-goes-first",
        ),
    ],
)
def test_the_attestation_service_is_found_by_its_url_or_by_kubernetes_variable(
    variables: dict[str, str], url: str
) -> None:
    assert read_order({**ENVIRONMENT, **variables}).network.attestation == url


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        pytest.param(Variable.POD_IP, "", "EDGEWRIGHT_POD_IP must be the Pod's own address, not ''", id="none"),
        pytest.param(Variable.POD_IP, "0.0.0.0", "which stands for every one", id="every-address"),
        pytest.param(Variable.POD_IP, "::", "which stands for every one", id="every-address-of-ipv6"),
        pytest.param(Variable.POD_IP, "pod", "must be the Pod's own address, not 'pod'", id="a-name"),
        pytest.param(Variable.EXTERNAL_IP, "", "EXTERNAL_IP is empty", id="nowhere-to-dial"),
    ],
)
def test_a_device_that_dials_back_needs_one_address_to_dial_and_one_to_be_heard_on(
    name: str, value: str, says: str
) -> None:
    check_dialling_back(read_order(ENVIRONMENT))
    with pytest.raises(BadOrder) as caught:
        check_dialling_back(read_order({**ENVIRONMENT, name: value}))
    assert says in str(caught.value)
