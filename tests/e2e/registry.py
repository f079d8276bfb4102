"""Debian's docker-registry as a process for tests: with TLS and a password where asked for, and images pushed into it.

The tests of pulling from a real registry start it. `make boards` gets the program.
It keeps its images in the directory that it is given, where a test can damage them.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
from base64 import b64encode
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urljoin

import pytest

from edgewright.devices.http import Session
from edgewright.devices.simulated.registry import Registry as SimulatedRegistry
from tests.harness.certificates import Authority
from tests.harness.processes import Process, free_port

PACKAGE = "docker-registry"
USER, PASSWORD = "ann", "s3cret"
_HTPASSWD = f"{USER}:$2b$05$fCvMiE73VQipQoOmJgI6k.8slCGrIyrBB2HmdLjNZQoj98Bgk7WCe\n"
"""The password above, as bcrypt keeps it: the only way that this registry reads."""


def program() -> str:
    """The registry's program."""
    found = shutil.which(PACKAGE)
    if found is None:
        pytest.fail(f"{PACKAGE} is missing: run make boards, which gets it or says how", pytrace=False)
    return found


class RealRegistry:
    """One registry on a port of this machine, while the context lasts."""

    def __init__(
        self,
        directory: Path,
        *,
        authority: Authority | None = None,
        password: bool = False,
        address: str = "127.0.0.1",
    ) -> None:
        """With an authority it speaks TLS; with a password it lets nobody in without."""
        self._address = address
        self._storage = directory / "storage"
        self._authority = authority
        self._password = password
        self._port = free_port()
        config = directory / "registry.json"  # JSON is YAML too
        config.write_text(json.dumps(self._config(directory)), encoding="utf-8")
        command = [program(), "serve", str(config)]
        self._process = Process(PACKAGE, command, log=directory / "registry.log", ready=self._answers)

    @property
    def host(self) -> str:
        """What stands before the first / of a reference to an image in here."""
        return f"{self._address}:{self._port}"

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    def __enter__(self) -> Self:
        self._process.start()
        self._process.wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()

    async def push(self, images: SimulatedRegistry) -> None:
        """Pushes everything that was made in a simulated registry, as any client would."""
        tls = ssl.create_default_context(cadata=self._authority.certificate.decode()) if self._authority else None
        login = (
            {"Authorization": "Basic " + b64encode(f"{USER}:{PASSWORD}".encode()).decode()} if self._password else {}
        )
        base = f"{'https' if tls else 'http'}://{self.host}"
        async with Session(tls=tls) as session:
            for repository in sorted({repository for repository, _ in images.manifests}):
                for digest, content in images.blobs.items():
                    begun = await session.request("POST", f"{base}/v2/{repository}/blobs/uploads/", headers=login)
                    assert begun.status == 202, begun
                    place = urljoin(base, begun.headers["location"])
                    url = f"{place}{'&' if '?' in place else '?'}digest={digest}"
                    headers = {**login, "Content-Type": "application/octet-stream"}
                    done = await session.request("PUT", url, headers=headers, body=content)
                    assert done.status == 201, done
            # What an index lists must be there before it.
            documents = sorted(images.manifests.items(), key=lambda found: "manifests" in json.loads(found[1][1]))
            for (repository, name), (media_type, body) in documents:
                url = f"{base}/v2/{repository}/manifests/{name}"
                done = await session.request("PUT", url, headers={**login, "Content-Type": media_type}, body=body)
                assert done.status == 201, done

    def damage(self, digest: str) -> None:
        """Changes a byte of a blob where it lies."""
        hexdigits = digest.removeprefix("sha256:")
        file = self._storage / "docker/registry/v2/blobs/sha256" / hexdigits[:2] / hexdigits / "data"
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

    def _config(self, directory: Path) -> dict[str, object]:
        http: dict[str, object] = {"addr": self.host}
        config: dict[str, object] = {
            "version": "0.1",
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": str(self._storage)}},
            "http": http,
        }
        if self._authority is not None:
            server = self._authority.server("registry", names=["localhost"], addresses=[self._address])
            certificate, key = server.write(directory, "registry")
            http["tls"] = {"certificate": str(certificate), "key": str(key)}
        if self._password:
            passwords = directory / "htpasswd"
            passwords.write_text(_HTPASSWD, encoding="utf-8")
            config["auth"] = {"htpasswd": {"realm": "test", "path": str(passwords)}}
        return config

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self._address, self._port)) == 0
