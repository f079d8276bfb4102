"""A stand-in for `flux`: refuses what a broker refuses, waits for its peers as one does, and runs the command.

The Flux tests let `edgewright node` run it in the place of the image fluxrm/flux-sched:focal. It checks configuration,
certificate, hosts, its rank by the host name, and that every peer is reached by its name and has the same certificate.
It schedules nothing, and its protocol is its own. Standard library only: it is a file that a test copies.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any, NoReturn

PATIENCE = 60.0


def refuse(message: str) -> NoReturn:
    """Ends as a broker does that cannot start."""
    print(f"flux-broker: {message}", file=sys.stderr, flush=True)
    sys.exit(1)


def config_path(arguments: list[str]) -> tuple[Path, list[str]]:
    """The folder of the configuration, and the command: `start -o --config-path=DIR [command...]`."""
    if arguments[:2] != ["start", "-o"] or not arguments[2:] or not arguments[2].startswith("--config-path="):
        refuse(f"usage: flux start -o --config-path=DIR [command...], not {arguments}")
    return Path(arguments[2].removeprefix("--config-path=")), arguments[3:]


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration: all TOML files of the folder."""
    files = sorted(folder.glob("*.toml"))
    if not files:
        refuse(f"{folder}: no configuration")
    config: dict[str, Any] = {}
    for file in files:
        try:
            config |= tomllib.loads(file.read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            refuse(f"{file}: {error}")
    bootstrap = config.get("bootstrap")
    if not isinstance(bootstrap, dict):
        refuse("there is no [bootstrap]")
    needed = {"curve_cert": str, "default_port": int, "default_bind": str, "default_connect": str, "hosts": list}
    for key, kind in needed.items():
        if not isinstance(bootstrap.get(key), kind):
            refuse(f"bootstrap.{key} is missing or of the wrong type")
    return config


def read_certificate(path: str) -> str:
    """The fingerprint of the certificate; a broker takes none that others may read."""
    try:
        status = Path(path).stat()
        text = Path(path).read_text()
    except OSError as error:
        refuse(f"loading certificate: {error}")
    if status.st_mode & 0o077:
        refuse(f"{path}: file permissions are too open: {status.st_mode & 0o777:o}")
    if status.st_uid != os.geteuid():
        refuse(f"{path}: belongs to {status.st_uid}, not to {os.geteuid()}")
    keys = dict(re.findall(r'^\s+(public-key|secret-key) = "([^"]{40})"$', text, re.MULTILINE))
    if keys.keys() != {"public-key", "secret-key"}:
        refuse(f"{path}: no certificate with both keys")
    return hashlib.sha256("".join(keys.values()).encode()).hexdigest()


def expand(hosts: list[dict[str, str]]) -> list[str]:
    """The hosts by rank; name-[0-3] stands for four."""
    found: list[str] = []
    for each in hosts:
        match = re.fullmatch(r"(.*)\[(\d+)-(\d+)\]", each["host"])
        if match is None:
            found.append(each["host"])
        else:
            found += [f"{match[1]}{number}" for number in range(int(match[2]), int(match[3]) + 1)]
    return found


def place(uri: str, host: str, port: int) -> tuple[str, int]:
    """Host and port of a URI with %h and %p."""
    found = re.fullmatch(r"tcp://(.+):(\d+)", uri.replace("%h", host).replace("%p", str(port)))
    if found is None:
        refuse(f"{uri}: not tcp://HOST:PORT")
    return found[1], int(found[2])


class Line:
    """Messages over a connection, one JSON document per line."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rw", encoding="utf-8")

    def send(self, **message: Any) -> None:
        """Says something."""
        self._file.write(json.dumps(message) + "\n")
        self._file.flush()

    def hear(self) -> dict[str, Any]:
        """What the other one says; empty at the end."""
        line = self._file.readline()
        return json.loads(line) if line else {}


class Broker:
    """One broker of an instance."""

    def __init__(self, folder: Path) -> None:
        bootstrap = read_config(folder)["bootstrap"]
        self.certificate = read_certificate(bootstrap["curve_cert"])
        self.hosts = expand(bootstrap["hosts"])
        name = socket.gethostname()
        if name not in self.hosts:
            refuse(f"host name {name} is none of {', '.join(self.hosts)}")
        self.rank = self.hosts.index(name)
        self.port = bootstrap["default_port"]
        self.connect = bootstrap["default_connect"]
        bind = place(bootstrap["default_bind"], name, self.port)
        try:
            socket.inet_aton(bind[0])
        except OSError:
            refuse(f"bind: {bind[0]} is neither an address nor an interface")
        self.listener = socket.create_server(bind)

    def say(self, message: str) -> None:
        """A line in the log."""
        print(f"flux-broker: rank {self.rank} of {len(self.hosts)}: {message}", flush=True)

    def reach(self, host: str) -> Line:
        """A connection to a peer by its name."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                connection = socket.create_connection(place(self.connect, host, self.port), timeout=5)
            except OSError as error:
                if time.monotonic() > until:
                    refuse(f"peer {host} cannot be reached by its name: {error}")
                time.sleep(0.1)
            else:
                connection.settimeout(None)
                return Line(connection)

    def lead(self, command: list[str]) -> int:
        """Rank 0: waits for the quorum, runs the command, and ends the instance."""
        peers = []
        for rank, host in enumerate(self.hosts[1:], 1):
            line = self.reach(host)
            line.send(certificate=self.certificate)
            answer = line.hear()
            if answer.get("certificate") != self.certificate:
                refuse(f"peer {host} has another certificate")
            if answer.get("rank") != rank:
                refuse(f"peer {host} has rank {answer.get('rank')}, not {rank}")
            if missing := answer["missing"]:
                refuse(f"peer {host} cannot resolve {', '.join(missing)}")
            peers.append(line)
        self.say("online: " + ",".join(self.hosts))
        try:
            code = subprocess.run(command, check=False, env={**os.environ, "FLUX_URI": "local://stand-in"}).returncode
        except FileNotFoundError:
            self.say(f"{command[0]}: command not found")
            code = 127
        for line in peers:
            line.send(exit=True)
        return code if code >= 0 else 128 - code

    def follow(self) -> int:
        """Any other rank: serves until rank 0 says that the instance ends."""
        self.say("waiting for rank 0")
        while True:
            connection, _ = self.listener.accept()
            line = Line(connection)
            if line.hear().get("certificate") == self.certificate:
                break
            self.say("a stranger was turned away")
        missing = [host for host in self.hosts if not self.resolves(host)]
        line.send(certificate=self.certificate, rank=self.rank, missing=missing)
        ended = line.hear().get("exit", False)
        self.say("the instance has ended" if ended else "rank 0 is lost")
        return 0 if ended else 1

    def resolves(self, host: str) -> bool:
        """Whether a peer has an address under its name."""
        try:
            socket.getaddrinfo(*place(self.connect, host, self.port))
        except OSError:
            return False
        return True


def main() -> int:
    """The program."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder, command = config_path(sys.argv[1:])
    broker = Broker(folder)
    if broker.rank:
        return broker.follow()
    return broker.lead(command or ["/bin/sh"])


if __name__ == "__main__":
    sys.exit(main())
