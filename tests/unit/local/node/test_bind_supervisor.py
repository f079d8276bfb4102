"""Programs that bind every address where a Service has the port: when they get the Pod's, and what is left alone.

Most of it asks in a thread of its own, which alone is under the filter; the rest runs the real shim, or the whole node.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.node import bind_supervisor, shim
from edgewright.local.node.bind_supervisor import BindSupervisor, wildcard_port
from edgewright.local.node.container_start import SHIM, program_folders
from edgewright.local.node.logfiles import parse
from edgewright.local.node.mount_check import binds_work, processes_work
from edgewright.local.node.node import Network
from tests.unit.local.node.fakeapi import FakeApi
from tests.unit.local.node.test_node_runs import directory, one, running, until_phase

__all__ = ["directory"]

POD = "127.129.7.7"
V4, V6, TCP, UDP = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM


@pytest.fixture
def port() -> Iterator[int]:
    """One that a Service has on another address of this machine, TCP and UDP."""
    with socket.create_server(("127.60.7.7", 0)) as listener, socket.socket(type=UDP) as datagrams:
        number = int(listener.getsockname()[1])
        datagrams.bind(("127.60.7.7", number))
        yield number


def asked(program: Callable[[], Any], ports: dict[str, list[int]]) -> Any:
    """What a program comes to that asks before each bind: its result, or the number of its error."""
    ours, theirs = bind_supervisor.channel()
    submitted, results = threading.Event(), list[Any]()

    def run() -> None:
        shim._forbid_new_privileges()
        bind_supervisor.submit(theirs)  # it counts for this thread alone
        submitted.set()
        try:
            results.append(program())
        except OSError as error:
            results.append(error.errno)

    thread = threading.Thread(target=run)
    thread.start()
    assert submitted.wait(60)
    listener = bind_supervisor.receive(ours)
    assert listener is not None
    supervisor, poll = BindSupervisor(listener, POD, ports), select.poll()
    poll.register(listener, select.POLLIN)
    while poll.poll(60_000) == [(listener, select.POLLIN)]:
        supervisor.answer()
    thread.join(60)
    os.close(listener)
    return results[0]


def bound(*where: Any, family: int = V4, kind: int = TCP, v6only: int = 0) -> Callable[[], Any]:
    """A program that binds an address and listens; it says which it has then."""

    def program() -> Any:
        with socket.socket(family, kind) as made:
            if family == V6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6only)
            made.bind(where)
            if kind == TCP:
                made.listen()
            return made.getsockname()[0]

    return program


@pytest.mark.parametrize(
    ("host", "how", "expected"),
    [
        ("0.0.0.0", {}, POD),
        ("::", {"family": V6}, f"::ffff:{POD}"),
        ("::ffff:0.0.0.0", {"family": V6}, f"::ffff:{POD}"),
        ("0.0.0.0", {"kind": UDP}, POD),
        ("::", {"family": V6, "v6only": 1}, "::"),
        ("127.129.7.8", {}, "127.129.7.8"),
        ("127.60.7.7", {}, errno.EADDRINUSE),
        ("192.0.2.1", {}, errno.EADDRNOTAVAIL),
    ],
    ids=["IPv4", "both", "mapped", "UDP", "IPv6 alone", "one address", "that of the Service", "of another machine"],
)
def test_every_address_is_the_pods_own_and_any_other_bind_is_left_alone(
    port: int, host: str, how: dict[str, Any], expected: Any
) -> None:
    assert asked(bound(host, port, **how), {"TCP": [port], "UDP": [port]}) == expected


def test_a_port_that_no_service_has_is_bound_on_every_address(port: int) -> None:
    assert asked(bound("0.0.0.0", 0), {"TCP": [port]}) == "0.0.0.0"
    assert asked(bound("0.0.0.0", port, kind=UDP), {"TCP": [port]}) == errno.EADDRINUSE
    assert asked(bound("0.0.0.0", port), {"UDP": [port]}) == errno.EADDRINUSE


def test_a_second_program_of_the_pod_is_told_that_the_port_is_taken(port: int) -> None:
    def twice() -> Any:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("0.0.0.0", port))
            second.bind(("0.0.0.0", port))

    assert asked(twice, {"TCP": [port]}) == errno.EADDRINUSE


def test_who_asks_once_more_for_what_it_has_got_already_is_told_that_it_has_it(port: int) -> None:
    def again() -> Any:
        with socket.socket() as made:
            made.bind(("0.0.0.0", port))
            made.bind(("0.0.0.0", port))  # as after a signal that came while the first was answered
            return made.getsockname()

    assert asked(again, {"TCP": [port]}) == (POD, port)


def raw_bind(fd: int, address: Any, size: int) -> Callable[[], Any]:
    """A program whose bind is not what it should be."""

    def program() -> Any:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.bind(ctypes.c_int(fd), address, ctypes.c_uint(size)) != 0:
            raise OSError(ctypes.get_errno(), "as it should be")

    return program


def test_nonsense_is_answered_by_the_kernel_as_ever(port: int) -> None:
    everywhere = struct.pack("=H", V4) + struct.pack("!HI", port, 0) + bytes(8)
    with socket.socket() as made, socket.socket(socket.AF_UNIX) as other, Path("/dev/null").open() as file:
        fd = made.fileno()
        assert asked(raw_bind(file.fileno(), everywhere, 16), {"TCP": [port]}) == errno.ENOTSOCK
        assert asked(raw_bind(9999, everywhere, 16), {"TCP": [port]}) == errno.EBADF
        assert asked(raw_bind(other.fileno(), everywhere, 16), {"TCP": [port]}) == errno.EINVAL
        assert asked(raw_bind(fd, ctypes.c_void_p(1 << 63), 16), {"TCP": [port]}) == errno.EFAULT
        assert asked(raw_bind(fd, ctypes.c_void_p(8), 16), {"TCP": [port]}) == errno.EFAULT
        assert asked(raw_bind(fd, everywhere, 3), {"TCP": [port]}) == errno.EINVAL


@pytest.mark.parametrize("address", [b"", b"\x02\0\0\0", bytes(16), struct.pack("=H", V6) + bytes(10)])
def test_what_is_no_address_stands_for_none(address: bytes) -> None:
    assert wildcard_port(address) is None


def test_a_child_that_did_not_get_that_far_has_no_listener() -> None:
    for ended in (True, False):
        ours, theirs = bind_supervisor.channel()
        if ended:
            theirs.close()
        assert bind_supervisor.receive(ours) is None
        theirs.close()


def test_on_a_machine_whose_calls_are_not_known_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "here", "1", "1", "pdp11")))
    ours, theirs = bind_supervisor.channel()
    with pytest.raises(OSError, match="nothing is known of system calls on pdp11"):
        bind_supervisor.submit(theirs)
    for each in (ours, theirs):
        each.close()


PYTHON = """
import socket, sys
made = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print(*made.getsockname())
"""


def run_in_shim(folder: Path, port: int, *before: str, **more: Any) -> list[str]:
    """What a program says that listens on every address at a port of a Service, with the real shim."""
    order: dict[str, Any] = {
        "command": [*before, sys.executable, "-c", PYTHON, str(port)],
        "environment": {"PATH": "/usr/bin:/bin"},
        "folder": "/",
        "binds": {"address": POD, "ports": {"TCP": [port]}},
        **more,
    }
    (folder / "order.json").write_text(json.dumps(order))
    subprocess.run([sys.executable, "-I", "-S", "-B", str(SHIM), str(folder)], check=True, timeout=120)
    assert json.loads((folder / "exit.json").read_text())["code"] == 0
    said = [parse(line) for line in (folder / "log").read_bytes().splitlines()]
    return [each.text.decode() for each in said if each]


def test_the_shim_answers_its_program(tmp_path: Path, port: int) -> None:
    assert run_in_shim(tmp_path, port) == [f"{POD} {port}"]


@pytest.mark.skipif(not processes_work(), reason="this machine gives us no PID namespace")
def test_the_shim_answers_a_program_that_has_processes_of_its_own(tmp_path: Path, port: int) -> None:
    (tmp_path / "base").mkdir()
    shown = [str(path) for path in program_folders()]
    more: dict[str, Any] = {
        "root": {"base": str(tmp_path / "base"), "processes": True, "shown": shown, "mounts": []},
        "user": {"uid": 2_000_000_000, "gid": 2_000_000_000, "groups": []} if os.geteuid() == 0 else None,
    }
    assert run_in_shim(tmp_path, port, **more) == [f"{POD} {port}"]


@pytest.mark.skipif(not processes_work(), reason="this machine gives us no namespaces")
def test_a_program_that_makes_a_network_of_its_own_is_left_alone_in_it(tmp_path: Path, port: int) -> None:
    assert run_in_shim(tmp_path, port, "unshare", "--map-root-user", "--net") == [f"0.0.0.0 {port}"]


def test_this_machine_lets_the_shim_answer() -> None:
    assert binds_work()


def service(port: int) -> dict[str, Any]:
    ports = [{"port": port, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken", "namespace": "default"},
        "spec": {"clusterIP": "127.60.7.7", "ports": ports},
    }


def listening(port: int) -> dict[str, Any]:
    """A Pod that succeeds where it can listen on every address."""
    return one(f"{sys.executable} -c 'import socket; socket.create_server((\"\", {port}))'")


async def test_the_node_lets_pods_have_the_ports_that_services_have(directory: Path, port: int) -> None:
    api = FakeApi()
    api.put("/api/v1/namespaces/default/services/taken", service(port))
    async with running(api, directory, network=Network(services=True)):
        for name in ("pod", "other"):
            api.add_pod(name, **listening(port))
            await until_phase(api, "Succeeded", name)


async def test_a_node_whose_machine_has_no_services_asks_for_nothing(directory: Path, port: int) -> None:
    api = FakeApi()
    api.put("/api/v1/namespaces/default/services/taken", service(port))
    async with running(api, directory):
        api.add_pod(**listening(port))
        await until_phase(api, "Failed")


async def test_where_the_kernel_does_not_let_it_answer_pods_run_all_the_same_and_the_log_says_so(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("edgewright.local.node.node.binds_work", lambda: False)
    api = FakeApi()
    async with running(api, directory, network=Network(services=True)):
        assert "cannot have a port that a Service has" in caplog.text
        api.add_pod(**one("true"))
        await until_phase(api, "Succeeded")
