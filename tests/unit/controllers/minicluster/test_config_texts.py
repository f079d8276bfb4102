"""The texts of a FluxSetup, plain and in manifests, and what is said of those that cannot be used."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from edgewright.controllers.minicluster import curve
from edgewright.controllers.minicluster.config_texts import BadText, certificate_of, text_of

CERTIFICATE = curve.generated("mine", datetime(2026, 3, 1, 12, tzinfo=UTC))
ENCODED = base64.b64encode(CERTIFICATE.encode()).decode()


def manifest(kind: str, **fields: Any) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, **fields}, sort_keys=False)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        pytest.param("", "", id="none"),
        pytest.param("[bootstrap]\nport = 1\n", "[bootstrap]\nport = 1\n", id="plain"),
        pytest.param("- apiVersion: x\n", "- apiVersion: x\n", id="a list"),
        pytest.param(manifest("ConfigMap", data={"hostfile": "a\nb\n"}), "a\nb\n", id="manifest"),
        pytest.param('{"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}', "b", id="JSON"),
    ],
)
def test_a_text_is_plain_or_the_only_key_of_a_config_map(config: str, text: str) -> None:
    assert text_of(config) == text


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (manifest("Secret", data={"a": "b"}), "kind 'Secret': give a ConfigMap"),
        (manifest("ConfigMap"), "exactly one key"),
        (manifest("ConfigMap", data={"a": "b", "c": "d"}), "exactly one key"),
        (manifest("ConfigMap", data={"a": 1}), "value is not a text"),
        ("kind: ConfigMap\ndata: [", "not valid YAML"),
    ],
)
def test_a_manifest_that_holds_no_single_text_is_refused(config: str, problem: str) -> None:
    with pytest.raises(BadText, match=problem):
        text_of(config)


@pytest.mark.parametrize(
    ("config", "certificate"),
    [
        pytest.param(CERTIFICATE, CERTIFICATE, id="plain"),
        pytest.param(manifest("Secret", data={"curve.cert": ENCODED}), CERTIFICATE, id="data"),
        pytest.param(manifest("Secret", stringData={"a": "x", "b": CERTIFICATE}), CERTIFICATE, id="stringData"),
        pytest.param(
            manifest("Secret", type="kubernetes.io/tls", data={"tls.crt": "MIIC ...", "tls.key": "/w=="}),
            None,
            id="TLS, as published",
        ),
    ],
)
def test_a_certificate_is_plain_or_in_a_secret(config: str, certificate: str | None) -> None:
    assert certificate_of(config) == certificate


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("secret words", "holds no curve certificate"),
        (manifest("ConfigMap", data={"curve.cert": CERTIFICATE}), "kind 'ConfigMap': give a Secret"),
        (manifest("Secret", data={"x": "secret words"}), "put what `flux keygen` writes under curve.cert"),
    ],
)
def test_what_is_no_certificate_is_refused_and_not_quoted(config: str, problem: str) -> None:
    with pytest.raises(BadText, match=problem) as caught:
        certificate_of(config)
    assert "secret words" not in str(caught.value)
