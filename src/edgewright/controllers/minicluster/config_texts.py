"""The texts of a FluxSetup: plain, or in a whole manifest of a ConfigMap or Secret, as the published samples have them.

`model` reads them with it. Pure; what is wrong with a text is a `BadText` that says what a right one is, and never
quotes it.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

import yaml

from edgewright.controllers.minicluster.curve import FILE_NAME, is_certificate
from edgewright.runtime import yaml_loader

_MANIFEST: Final = re.compile(r"""^[\s{]*["']?(apiVersion|kind)["']?\s*:""", re.MULTILINE)
_TLS: Final = "kubernetes.io/tls"


class BadText(ValueError):
    """The text cannot be used; the message says why and what to do."""


def text_of(config: str) -> str:
    """The text itself, or that of the only key of the ConfigMap whose manifest it is."""
    manifest = _manifest(config)
    if manifest is None:
        return config
    if manifest.get("kind") != "ConfigMap":
        raise BadText(f"is a manifest of kind {manifest.get('kind')!r}: give a ConfigMap, or the text itself")
    data = manifest.get("data")
    if not isinstance(data, dict) or len(data) != 1:
        raise BadText("is a ConfigMap without exactly one key under data: put the text under one key")
    (value,) = data.values()
    if not isinstance(value, str):
        raise BadText("is a ConfigMap whose value is not a text: write it as a block after `|`")
    return value


def certificate_of(config: str) -> str | None:
    """The certificate, or that in the Secret whose manifest it is; None for a TLS Secret, which brokers cannot use."""
    manifest = _manifest(config)
    if manifest is None:
        if not is_certificate(config):
            raise BadText("holds no curve certificate: give what `flux keygen` writes, or leave it out")
        return config
    if manifest.get("kind") != "Secret":
        raise BadText(f"is a manifest of kind {manifest.get('kind')!r}: give a Secret, or the certificate itself")
    found = [text for text in _values(manifest) if is_certificate(text)]
    if found:
        return found[0]
    if manifest.get("type") == _TLS:
        return None
    raise BadText(f"is a Secret without a curve certificate: put what `flux keygen` writes under {FILE_NAME}")


def _manifest(config: str) -> dict[str, Any] | None:
    if not _MANIFEST.search(config):
        return None
    try:
        loaded = yaml_loader.load(config)
    except yaml.YAMLError:
        raise BadText("looks like a manifest and is not valid YAML: correct it, or give the text itself") from None
    return loaded if isinstance(loaded, dict) and "kind" in loaded else None


def _values(manifest: dict[str, Any]) -> list[str]:
    values = [value for value in (manifest.get("stringData") or {}).values() if isinstance(value, str)]
    for value in (manifest.get("data") or {}).values():
        try:
            values.append(base64.b64decode(str(value), validate=False).decode())
        except (binascii.Error, UnicodeDecodeError):
            continue
    return values
