"""Lets a program that listens on every address do so where a Service of the machine has the same port.

Pods that are processes share the machine's network, in which a Service at port 4433 of one address keeps everybody from
port 4433 of every address. The shim's child puts itself under a seccomp filter that asks before each bind(2), and the
shim answers: a bind to every address at such a port becomes one to the Pod's own address, which is where Services and
probes look for it; any other is the kernel's business, as if nobody had asked. It takes no rights, so it works for an
ordinary user too. It runs in the shim, and imports little.
"""

from __future__ import annotations

import _socket
import ctypes
import errno
import fcntl
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SYSTEM_CALLS = {"x86_64": (0xC000003E, 49, 317), "aarch64": (0xC00000B7, 200, 277)}
"""By machine: how the kernel names its way to call, and the numbers of bind and seccomp."""
_PIDFD_GETFD = 438
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_CALL_AT, _WAY_AT = 0, 4
_ASK, _ALLOW = 0x7FC00000, 0x7FFF0000
_SET_FILTER, _NEW_LISTENER, _ONLY_KILLED = 1, 1 << 3, 1 << 5
_RECEIVE, _SEND, _STILL_ASKS = 0xC0502100, 0xC0182101, 0x40082102
_REQUEST_SIZE, _ARGUMENTS_AT, _MAX_ADDRESS = 80, 32, 28
_GO_ON = 1
_MAPPED = bytes(10) + b"\xff\xff"
_PROTOCOLS = {int(_socket.SOCK_STREAM): "TCP", int(_socket.SOCK_DGRAM): "UDP"}

_libc = ctypes.CDLL(None, use_errno=True)


def channel() -> tuple[_socket.socket, _socket.socket]:
    """The two ends over which a child hands its listener to the shim."""
    return _socket.socketpair()


def submit(to: _socket.socket) -> None:
    """Lets whoever is at the other end answer each bind of this process and of all that it starts.

    It must have given up new privileges before.
    """
    listener = _listen()
    to.sendmsg([b"l"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("=i", listener))])
    os.close(listener)
    to.close()


def _listen() -> int:
    machine = os.uname().machine
    if machine not in _SYSTEM_CALLS:
        raise OSError(errno.ENOSYS, f"nothing is known of system calls on {machine}")
    way, bind, seccomp = _SYSTEM_CALLS[machine]
    steps = ((_LOAD, 0, 0, _WAY_AT), (_EQUAL, 0, 3, way), (_LOAD, 0, 0, _CALL_AT), (_EQUAL, 0, 1, bind))
    results = ((_RETURN, 0, 0, _ASK), (_RETURN, 0, 0, _ALLOW))
    code = b"".join(struct.pack("=HBBI", *step) for step in (*steps, *results))
    held = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(steps) + len(results), ctypes.addressof(held))
    for flags in (_NEW_LISTENER | _ONLY_KILLED, _NEW_LISTENER):  # an old kernel does not know the second one
        listener = _libc.syscall(ctypes.c_long(seccomp), _SET_FILTER, flags, program)
        if listener >= 0:
            return int(listener)
    number = ctypes.get_errno()
    raise OSError(number, f"cannot be asked before a bind: {os.strerror(number)}")


def receive(from_: _socket.socket) -> int | None:
    """The listener of a child that has become its program; None where it has not got that far."""
    from_.setblocking(False)
    try:
        _, passed, _, _ = from_.recvmsg(1, _socket.CMSG_SPACE(4))
    except BlockingIOError:
        return None
    finally:
        from_.close()
    return struct.unpack("=i", passed[0][2])[0] if passed else None


def wildcard_port(address: bytes) -> tuple[int, int] | None:
    """The family and port of an address to bind that stands for every address; None where it is another."""
    if len(address) < 8:  # family, port and the four bytes of IPv4
        return None
    family, port = *struct.unpack_from("=H", address), *struct.unpack_from("!H", address, 2)
    if family == _socket.AF_INET:
        return (family, port) if not any(address[4:8]) else None
    host = address[8:24]
    if family == _socket.AF_INET6 and host in (bytes(16), _MAPPED + bytes(4)):
        return family, port
    return None


class BindSupervisor:
    """Answers the binds of one container."""

    def __init__(self, listener: int, address: str, ports: Mapping[str, Sequence[int]]) -> None:
        """`ports` are by protocol those at which every address means `address`."""
        self._listener = listener
        self._address = address
        self._ports = ports

    def answer(self) -> None:
        """Answers who asks now; to be called when the listener can be read."""
        request = bytearray(_REQUEST_SIZE)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, request)
            identifier, thread = struct.unpack_from("=QI", request)
            said = self._decide(identifier, thread, *struct.unpack_from("=3Q", request, _ARGUMENTS_AT))
            fcntl.ioctl(self._listener, _SEND, struct.pack("=QqiI", identifier, 0, *said))
        except OSError:
            return  # who has asked was killed meanwhile

    def _decide(self, identifier: int, thread: int, fd: int, at: int, size: int) -> tuple[int, int]:
        """The error that the program gets, and whether the kernel is to carry the bind out itself."""
        go_on = 0, _GO_ON
        try:
            wanted = wildcard_port(_read(thread, at, size))
            if wanted is None or not any(wanted[1] in ports for ports in self._ports.values()):
                return go_on
            if os.readlink(f"/proc/{thread}/ns/net") != os.readlink("/proc/self/ns/net"):  # noqa: PTH115
                return go_on  # a program that has made a network of its own, where no Service is
            socket = _socket_of(thread, fd)
        except (OSError, OverflowError, ValueError):
            return go_on  # it cannot be looked at, or is no such thing: the kernel will say
        try:
            fcntl.ioctl(self._listener, _STILL_ASKS, struct.pack("=Q", identifier))  # else it was somebody else's
            if not self._concerns(socket, *wanted):
                return go_on
            where = (f"::ffff:{self._address}" if wanted[0] == _socket.AF_INET6 else self._address, wanted[1])
            if socket.getsockname()[:2] != where:  # a signal has interrupted it, and it asks once more
                socket.bind(where)
        except OSError as error:
            return -(error.errno or errno.EINVAL), 0
        finally:
            socket.close()
        return 0, 0

    def _concerns(self, socket: _socket.socket, family: int, port: int) -> bool:
        if socket.family != family or port not in self._ports.get(_PROTOCOLS.get(socket.type, ""), ()):
            return False
        return family == _socket.AF_INET or not socket.getsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY)


def _read(thread: int, at: int, size: int) -> bytes:
    memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, min(size, _MAX_ADDRESS), at)
    finally:
        os.close(memory)


def _socket_of(thread: int, fd: int) -> _socket.socket:
    """A descriptor of another process, as one of ours."""
    with open(f"/proc/{thread}/status") as file:  # noqa: PTH123 - pathlib would cost each container a megabyte
        process = next((int(line.split()[1]) for line in file if line.startswith("Tgid:")), 0)
    held = os.pidfd_open(process)
    try:
        found = _libc.syscall(ctypes.c_long(_PIDFD_GETFD), held, ctypes.c_int(fd & 0xFFFFFFFF), 0)
        if found < 0:
            raise OSError(ctypes.get_errno(), "no such descriptor")
    finally:
        os.close(held)
    try:
        return _socket.socket(fileno=found)
    except OSError:
        os.close(found)
        raise
