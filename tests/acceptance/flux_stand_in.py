"""A stand-in for `flux`: refuses what a broker refuses, waits for its peers as one does, and runs the command.

The Flux tests let `edgewright node` run it in the place of the image fluxrm/flux-sched:focal. It checks options,
configuration, certificate, hosts, its rank by the host name, and that as many peers as its quorum asks for are reached
by their names and have the same certificate. It schedules nothing: tasks run in the lead's Pod, one after the other;
and its protocol is its own. Standard library only: it is a file that a test copies.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from typing import Any, NoReturn

PATIENCE = 180.0
NAMES_PATIENCE = 90.0
"""So long the name of a peer may take to appear: its Pod may get an address later than ours."""
ATTRIBUTES = {
    "broker.quorum",
    "broker.rc2_none",
    "local-uri",
    "log-stderr-level",
    "log-stderr-mode",
    "rundir",
    "statedir",
    "tbon.connect_timeout",
    "tbon.fanout",
    "tbon.topo",
    "tbon.zmqdebug",
}
"""Those of a broker that are set here; any other is a slip."""


def refuse(message: str) -> NoReturn:
    """Ends as a broker does that cannot start."""
    print(f"flux-broker: {message}", file=sys.stderr, flush=True)
    sys.exit(1)


class Options:
    """What `flux start` was told: the folder of the configuration, attributes, and the command."""

    def __init__(self, arguments: list[str]) -> None:
        self.attributes: dict[str, str] = {}
        folder = ""
        words = list(arguments)
        while words and words[0].startswith("-"):
            word = words.pop(0)
            if word.startswith("--wrap="):
                continue
            if word != "-o" or not words:
                refuse(f"usage: flux start [-o OPTION]... [command...], not {arguments}")
            option = words.pop(0)
            name, _, value = option.removeprefix("-S").partition("=")
            if option.startswith("--config-path="):
                folder = option.removeprefix("--config-path=")
            elif option.startswith("-S") and name in ATTRIBUTES:
                self.attributes[name] = value
            else:
                refuse(f"unknown option {option}")
        if not folder:
            refuse(f"usage: flux start -o --config-path=DIR [command...], not {arguments}")
        self.folder = Path(folder)
        self.command = words
        for name in ("rundir", "statedir"):
            place = self.attributes.get(name)
            if place is not None and (not Path(place).is_dir() or Path(place).stat().st_mode & 0o077):
                refuse(f"{name} {place}: no folder of its owner alone")
        if len(self.attributes.get("local-uri", "").removeprefix("local://")) > 107:
            refuse("local-uri: the path is too long for a socket")


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
        self.met = threading.Condition()
        self.peers: dict[int, Line] = {}
        self.failure = ""
        self.started = self.ending = False
        self.quorum = len(self.hosts)

    def say(self, message: str) -> None:
        """A line in the log."""
        print(f"flux-broker: rank {self.rank} of {len(self.hosts)}: {message}", flush=True)

    def reach(self, host: str) -> Line:
        """A connection to a peer by its name."""
        while True:
            try:
                connection = socket.create_connection(place(self.connect, host, self.port), timeout=5)
            except OSError:
                time.sleep(0.1)  # the quorum has a limit
            else:
                connection.settimeout(None)
                return Line(connection)

    def lead(self, options: Options) -> int:
        """Rank 0: waits for the quorum, runs the command, and ends the instance."""
        self.quorum = int(options.attributes.get("broker.quorum") or len(self.hosts))
        for rank, host in enumerate(self.hosts[1:], 1):
            threading.Thread(target=self.meet, args=(rank, host), daemon=True).start()
        with self.met:
            if not self.met.wait_for(lambda: self.failure or len(self.peers) + 1 >= self.quorum, PATIENCE):
                refuse(f"no quorum: {len(self.peers) + 1} of {self.quorum}")
            if self.failure:
                refuse(self.failure)
            self.started = True
        online = [self.hosts[rank] for rank in (0, *sorted(self.peers))]
        self.say("online: " + ",".join(online))
        try:
            return self.run(options)
        finally:
            self.ending = True
            for line in list(self.peers.values()):
                with contextlib.suppress(OSError):
                    line.send(exit=True)

    def run(self, options: Options) -> int:
        """Runs the command, or serves until it is told to stop."""
        if options.attributes.get("broker.rc2_none"):
            self.say("serving")
            threading.Event().wait()
        command = options.command or ["/bin/sh"]
        around = {"FLUX_URI": options.attributes.get("local-uri") or "local://stand-in"}
        around["STAND_IN_STATE"] = options.attributes.get("statedir", "")
        try:
            code = subprocess.run(command, check=False, env={**os.environ, **around}).returncode
        except FileNotFoundError:
            self.say(f"{command[0]}: command not found")
            code = 127
        return code if code >= 0 else 128 - code

    def meet(self, rank: int, host: str) -> None:
        """Reaches a peer and keeps the connection, again and again."""
        while True:
            line = self.reach(host)
            line.send(certificate=self.certificate, everybody=self.quorum == len(self.hosts))
            answer = line.hear()
            problem = ""
            if answer.get("certificate") != self.certificate:
                problem = f"peer {host} has another certificate"
            elif answer.get("rank") != rank:
                problem = f"peer {host} has rank {answer.get('rank')}, not {rank}"
            elif answer["missing"]:
                problem = f"peer {host} cannot resolve {', '.join(answer['missing'])}"
            with self.met:
                self.failure = self.failure or problem
                self.peers[rank] = line
                self.met.notify_all()
                if self.started:
                    self.say(f"joined: {host}")
            line.hear()  # nothing but its end comes
            if self.ending:
                return
            with self.met:
                self.peers.pop(rank, None)
            self.say(f"lost: {host}")

    def follow(self) -> int:
        """Any other rank: serves until rank 0 says that the instance ends."""
        self.say("waiting for rank 0")
        while True:
            connection, _ = self.listener.accept()
            line = Line(connection)
            heard = line.hear()
            if heard.get("certificate") == self.certificate:
                break
            self.say("a stranger was turned away")
        missing = self.missing() if heard["everybody"] else []
        line.send(certificate=self.certificate, rank=self.rank, missing=missing)
        ended = line.hear().get("exit", False)
        self.say("the instance has ended" if ended else "rank 0 is lost")
        return 0 if ended else 1

    def missing(self) -> list[str]:
        """The peers that have no address under their names; brokers try again, so these may come late."""
        end = time.monotonic() + NAMES_PATIENCE
        while (found := [host for host in self.hosts if not self.resolves(host)]) and time.monotonic() < end:
            time.sleep(0.1)
        return found

    def resolves(self, host: str) -> bool:
        """Whether a peer has an address under its name."""
        try:
            socket.getaddrinfo(*place(self.connect, host, self.port))
        except OSError:
            return False
        return True


def submitted(arguments: list[str]) -> tuple[int, list[str]]:
    """The number of tasks and the command of `flux submit` or `flux batch`; others of their options are only read."""
    if "FLUX_URI" not in os.environ:
        refuse("submit: there is no broker here")
    tasks, nodes, words = 1, 1, list(arguments)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "-n":
            tasks = int(words.pop(0))
        elif word == "-N":
            nodes = int(words.pop(0))
        elif word not in {"--quiet", "--watch", "-vvv"} and not word.startswith(("--flags=", "--output=", "--env=")):
            refuse(f"submit: unknown option {word}")
    if nodes > tasks:
        refuse(f"submit: {nodes} nodes for {tasks} tasks")
    return tasks, words


def submit(arguments: list[str]) -> int:
    """`flux submit --watch`: each task runs here, one after the other."""
    tasks, words = submitted(arguments)
    codes = []
    for _ in range(tasks):
        try:
            codes.append(subprocess.run(words, check=False).returncode)
        except OSError as error:
            print(f"flux-job: {words[0]}: {error.strerror}", file=sys.stderr, flush=True)
            codes.append(127)
    return max(codes)


def batch(arguments: list[str]) -> int:
    """`flux batch`: the script runs at once; how it ended is for `flux job wait`."""
    _, words = submitted(arguments)
    code = subprocess.run(["/bin/sh", *words], check=False).returncode
    with (Path(os.environ["STAND_IN_STATE"]) / "batch").open("a") as file:
        file.write(f"{code}\n")
    return 0


def wait_all() -> int:
    """`flux job wait --all`: the worst of all batches."""
    noted = Path(os.environ["STAND_IN_STATE"]) / "batch"
    return max(map(int, noted.read_text().split())) if noted.exists() else 0


def encode(arguments: list[str]) -> int:
    """`flux R encode --hosts=HOSTS --local`: the resources of all hosts."""
    (hosts,) = (each.removeprefix("--hosts=") for each in arguments if each.startswith("--hosts="))
    if "--local" not in arguments:
        refuse("R encode: which resources?")
    print(json.dumps({"version": 1, "execution": {"nodelist": [hosts]}}))
    return 0


def start(arguments: list[str]) -> int:
    """`flux start`: a broker."""
    options = Options(arguments)
    broker = Broker(options.folder)
    return broker.follow() if broker.rank else broker.lead(options)


def main() -> int:
    """The program."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    match sys.argv[1:]:
        case ["start", *more]:
            return start(more)
        case ["submit", *more]:
            return submit(more)
        case ["batch", *more]:
            return batch(more)
        case ["job", "wait", "--all"]:
            return wait_all()
        case ["R", "encode", *more]:
            return encode(more)
        case other:
            refuse(f"{' '.join(other)}: no command of the stand-in")


if __name__ == "__main__":
    sys.exit(main())
