"""Documents whose nesting is deeper than anybody needs: they are no document, and no end of the flasher."""

from __future__ import annotations

from base64 import b64encode

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.devices.attestation import recognised
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.http import Answer
from edgewright.devices.oci.access import BadCredentials, read_dockerconfig
from edgewright.devices.oci.challenge import read_token
from edgewright.devices.oci.manifests import read_document
from edgewright.devices.simulated.registry import Registry
from tests.unit.devices.oci.keys import ecdsa_key
from tests.unit.devices.oci.registries import FIRMWARE, pull_from

DEPTH = 50_000
DEEP = b'{"x":' + b"[" * DEPTH + b"]" * DEPTH + b"}"
SIGNATURE = "dev.cosignproject.cosign/signature"
PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"


def test_a_manifest_is_corrupt() -> None:
    with pytest.raises(Ended, match="cannot be read") as ended:
        read_document(DEEP, "the manifest")
    assert ended.value.outcome is Outcome.CORRUPT


def test_a_pull_secret_is_none() -> None:
    with pytest.raises(BadCredentials):
        read_dockerconfig(DEEP)


def test_an_answer_of_a_token_service_has_no_token() -> None:
    assert read_token(DEEP) == ""


def test_an_answer_of_the_attestation_service_recognises_nobody() -> None:
    assert not recognised(Answer(200, {}, DEEP))


async def test_a_signed_payload_is_about_no_image() -> None:
    key = ecdsa_key()
    async with Registry() as registry:
        digest = registry.add_image("team/fw", "1", FIRMWARE)
        note = {SIGNATURE: b64encode(key.sign(DEEP)).decode()}
        layers = [registry.add_blob(DEEP, PAYLOAD, annotations=note)]
        registry.add_document("team/fw", f"{digest.replace(':', '-')}.sig", {"layers": layers})
        with pytest.raises(Ended, match="no signature of the image") as ended:
            await pull_from(registry, public_key=key.public)
    assert ended.value.outcome is Outcome.REFUSED
