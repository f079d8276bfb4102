"""The agent's settings: the published names, our own, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewright.agent.settings import load
from edgewright.runtime.tls import ConfigError

WHOLE = """\
protocol = "http"
path-prefix = "api/flotta-management/v1"
server = "gateway.example:8043"
cert-file = "/etc/pki/consumer/cert.pem"
key-file = "key.pem"
ca-root = ["ca.pem"]
log-level = "error"
"""


def write(folder: Path, text: str) -> Path:
    (folder / "machine-id").write_text("0A1B2C\n")
    path = folder / "config.toml"
    path.write_text(text)
    return path


def test_a_published_file_is_understood_as_it_is(tmp_path: Path) -> None:
    found = load(write(tmp_path, WHOLE), machine_id=tmp_path / "machine-id")
    assert (found.host, found.port, found.prefix) == ("gateway.example", 8043, "/api/flotta-management/v1")
    assert found.client_id == "0a1b2c"
    assert found.cert_file == "/etc/pki/consumer/cert.pem"
    assert found.key_file == str(tmp_path / "key.pem")
    assert found.ca_root == [str(tmp_path / "ca.pem")]
    assert found.state == Path("/var/lib/edgewright-agent")


def test_single_values_can_be_overridden(tmp_path: Path) -> None:
    path = write(tmp_path, WHOLE.replace('["ca.pem"]', '"ca.pem"'))
    found = load(path, overrides={"server": "[::1]", "client-id": "Device-1"}, machine_id=tmp_path / "none")
    assert (found.host, found.port, found.client_id) == ("::1", 8043, "device-1")
    assert found.ca_root == [str(tmp_path / "ca.pem")]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("server", "servers"), "servers"),
        (('"gateway.example:8043"', '""'), "is no host and port"),
        (('"gateway.example:8043"', '"h:99999"'), "is no host and port"),
        (('"gateway.example:8043"', "1"), "server"),
        (('["ca.pem"]', "[]"), "ca-root: names no file"),
        (("log-level", "poll-seconds = 0\nlog-level"), "poll-seconds: must be between"),
        (("log-level", "data-seconds = 1e9\nlog-level"), "data-seconds: must be between"),
        (("log-level", 'client-id = "a/b"\nlog-level'), "client-id: 'a/b' cannot be"),
        (("log-level", "client-id = "), "is not TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: tuple[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load(write(tmp_path, WHOLE.replace(*change)), machine_id=tmp_path / "machine-id")


def test_a_file_or_an_id_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="client-id: is not set"):
        load(write(tmp_path, WHOLE), machine_id=tmp_path / "none")
