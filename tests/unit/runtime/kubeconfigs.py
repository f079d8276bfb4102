"""Kubeconfigs for tests: how one is made, written and loaded, and what is said of one that is refused.

The tests of `config` and `kubeconfig` use it. It loads only the file that a test names, never the machine's own.
"""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from edgewright.runtime.config import Config, ConfigError, load
from tests.harness.certificates import Authority

AUTHORITY = Authority()
CLIENT = AUTHORITY.client("jane")
OTHER = AUTHORITY.client("other")
CHAIN = AUTHORITY.certificate.decode()

Document = dict[str, Any]


def encoded(data: bytes) -> str:
    """As the `-data` fields of a kubeconfig hold it."""
    return base64.b64encode(data).decode()


def document(
    *, cluster: Document | None = None, user: Document | None = None, context: Document | None = None
) -> Document:
    """A kubeconfig with one context `dev`; what is given is added to its entries."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kind", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "me", "user": user or {}}],
        "contexts": [{"name": "dev", "context": {"cluster": "kind", "user": "me", **(context or {})}}],
        "current-context": "dev",
    }


def write(file: Path, content: Document | str | bytes) -> Path:
    """Write a file, in a folder that need not be there yet."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content) if isinstance(content, dict) else content
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def read(file: Path, **settings: Any) -> Config:
    """Load this file and look nowhere else."""
    return load(kubeconfig=file, environ={}, **settings)


def refusal(file: Path, **settings: Any) -> str:
    """What load says of the file; one line, and it starts with the file's name."""
    with pytest.raises(ConfigError) as caught:
        read(file, **settings)
    said = str(caught.value)
    assert "\n" not in said
    return said


def headers(config: Config) -> list[tuple[str, str]]:
    """What the credentials send, in order."""
    return sorted(asyncio.run(config.credentials.headers()).items())


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "plugin", "interactiveMode": "Never"}
CERTIFICATE_DATA = {"client-certificate-data": encoded(CLIENT.certificate)}
KEY_DATA = {"client-key-data": encoded(CLIENT.key)}
