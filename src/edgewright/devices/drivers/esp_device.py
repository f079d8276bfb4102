"""An ESP32 device as its small HTTP server shows it: what it says of itself, and whether it has restarted since.

Both ESP32 drivers ask through here: `inspect` and `verify` are the same for secure and plain OTA. It reads only, but
for `order_update`, which tells the device that firmware is to be had; nothing here sends firmware.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import ipaddress
import math
import socket
from dataclasses import dataclass
from typing import Final, Self

import msgspec

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended, Facts, Identity, Surroundings
from edgewright.devices.firmware.esp import chip_of
from edgewright.devices.http import Answer, request

MAX_CERTIFICATE: Final = 16 << 10
"""A device's certificate has about one kibibyte; nobody may send us more than this."""
_MAX_INFO: Final = 16 << 10
_MAX_TEXT: Final = 256
_FASTEST_POLL: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long things may take, in seconds; `scaled` makes it that of a simulated fleet that lives faster."""

    ask: float = 4.0
    """One answer to /info or /update."""
    tries: int = 3
    """How often /info is asked before the device counts as unreachable."""
    onboard: float = 15.0
    """One answer to /onboard: the published firmware creates its certificate when it is first asked."""
    poll: float = 0.5
    """Between two questions while the device is watched."""
    glance: float = 1.5
    """One answer while the device is watched: it is unavailable if it takes longer twice in a row."""
    steady: int = 3
    """How many equal answers in a row are believed."""
    hold: float = 10.0
    """For how long the wanted version must be reported without a break; every device takes so much longer.

    A firmware that crashes answers for a moment each time it starts, until the boot loader goes back to the other slot.
    The chip's watchdogs look after 5 s (tasks) and 9 s (boot) by default: in 10 s both have had their say, and a boot
    loop with WiFi has gone round more than once. What fails later than that is drift, which discovery shows.
    """
    settle: float = 8.0
    """For how long any other one must be: the device may be trying to start what it has been given."""
    reboot: float = 60.0
    """After this long without a reboot there will be none; the published firmware waits 4 s."""
    dial: float = 90.0
    """By when the device must have dialled: the published firmware tries 20 times, 4 s apart."""
    courtesy: float = 2.0
    """How long one that calls from another address than the device's waits for the device itself, which needs one to
    three seconds to introduce itself. Where a NAT or a LoadBalancer hides addresses, every flash takes so much longer.
    """
    leave: float = 12.0
    """By when a device must be seen to go away after such a one took everything: it restarts after 4 s, and two
    questions without an answer tell that it did. Then the next one gets its turn.
    """
    turn: float = 120.0
    """How long such a one may take for the transfer while others wait."""
    late: float = 20.0
    """By when, after the order, the device itself may still call though such a one has had its turn: a copy may call
    from near, and faster than a LoadBalancer lets the device through, which tries every 4 s.
    """
    redial: float = 12.0
    """By when it must have dialled again after its transfer was cut; older firmware does, newer does not."""
    introduction: float = 15.0
    """How long a caller may take for the TLS handshake and its certificate; a device needs one to three seconds."""
    spared: float = 5.0
    """For how long it keeps its place all the same where every place is taken: then one that has not introduced itself
    makes room for the next, which may be the device.
    """
    stall: float = 30.0
    """How long a device may take nothing of the transfer: it erases its flash at the beginning."""
    farewell: float = 10.0
    """How long it may take to close its side when it has everything."""

    def scaled(self, scale: float) -> Self:
        """The same for devices whose time is multiplied by `scale`.

        A network and a busy machine do not get faster with them: what waits for an answer keeps some seconds.
        """
        at_least = {
            "poll": _FASTEST_POLL,
            "hold": 2 * _FASTEST_POLL,
            "settle": 10 * _FASTEST_POLL,
            "reboot": 5.0,
            "dial": 20.0,
            "courtesy": 2 * _FASTEST_POLL,
            "leave": 1.0,
            "turn": 10.0,
            "late": 1.0,
            "redial": 1.0,
        }
        changed = {name: max(getattr(self, name) * scale, floor) for name, floor in at_least.items()}
        return dataclasses.replace(self, **changed)


class NotUnderstood(ValueError):
    """The device answers, but not as an ESP32 with this firmware does; the message says how it answers."""


class _Info(msgspec.Struct):
    version: str | int | float
    device: str = ""
    application: str = ""
    build: str = ""
    boot: str | int | float = ""


def parse_info(body: bytes) -> Identity:
    """What an answer to /info says; NotUnderstood where it is none. Pure."""
    try:
        info = msgspec.json.decode(body, type=_Info)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise NotUnderstood(f"its /info is not what was expected: {error}") from None
    return Identity(
        device=_clean(info.device),
        application=_clean(info.application),
        version=_clean(str(info.version)),
        build=_clean(info.build).lower(),
        boots=_clean(str(info.boot)),
    )


def certificate_length(beginning: bytes) -> int | None:
    """How long a DER certificate is by its first bytes; None: more are needed. NotUnderstood where it is none. Pure."""
    if not b"\x30".startswith(beginning[:1]):
        raise NotUnderstood("what it sent is no certificate in DER form")
    if len(beginning) < 2:
        return None
    octets = beginning[1] & 0x7F if beginning[1] & 0x80 else 0
    if octets > 3 or beginning[1] == 0x80:
        raise NotUnderstood("what it sent is no certificate in DER form")
    if len(beginning) < 2 + octets:
        return None
    length = 2 + octets + (int.from_bytes(beginning[2 : 2 + octets]) if octets else beginning[1])
    if length > MAX_CERTIFICATE:
        raise NotUnderstood(f"its certificate would have {length} bytes; {MAX_CERTIFICATE} are allowed")
    return length


async def ask_info(endpoint: str, *, timeout: float) -> Identity:
    """What the device says of itself; OSError where it does not answer, NotUnderstood where it answers oddly."""
    answer = await request("GET", url_of(endpoint, "/info"), limit=_MAX_INFO, timeout=timeout)
    if answer.status != 200:
        raise NotUnderstood(f"it answers /info with HTTP {answer.status}")
    return parse_info(answer.body)


async def inspect_device(endpoint: str, timing: Timing) -> Identity:
    """As `ask_info`, patiently: Ended(UNREACHABLE) where it does not answer, Ended(FAILED) where it answers oddly."""
    problem: OSError | NotUnderstood | None = None
    for _ in range(timing.tries):
        try:
            return await ask_info(endpoint, timeout=timing.ask)
        except (OSError, NotUnderstood) as error:
            problem = error
        await asyncio.sleep(timing.poll)
    if isinstance(problem, NotUnderstood):
        raise Ended(Outcome.FAILED, f"the device at {endpoint} cannot be understood: {problem}") from problem
    raise Ended(Outcome.UNREACHABLE, f"the device at {endpoint} does not answer: {problem}") from problem


async def ask_certificate(endpoint: str, timing: Timing) -> bytes:
    """The device's DER certificate by /onboard; empty where it has no such page, as plain firmware has none."""
    try:
        url = url_of(endpoint, "/onboard")
        answer = await request("GET", url, limit=MAX_CERTIFICATE, timeout=timing.onboard)
    except OSError as error:
        raise Ended(Outcome.UNREACHABLE, f"the device at {endpoint} does not show its certificate: {error}") from error
    if answer.status in {404, 405}:
        return b""
    if answer.status != 200:
        raise Ended(Outcome.FAILED, f"the device at {endpoint} answers /onboard with HTTP {answer.status}")
    try:
        length = certificate_length(answer.body)
    except NotUnderstood as error:
        raise Ended(Outcome.FAILED, f"the device at {endpoint} shows no certificate: {error}") from error
    if length != len(answer.body):
        raise Ended(Outcome.FAILED, f"the certificate that the device at {endpoint} shows is cut off or too long")
    return answer.body


async def order_update(endpoint: str, address: str, timing: Timing) -> Answer:
    """Tells the device to fetch its firmware from that address; OSError where it does not answer.

    It is never told twice: the published firmware would run two updates at once.
    """
    return await request(
        "POST",
        url_of(endpoint, "/update"),
        headers={"Content-Type": "text/plain"},
        body=f"ip: {address}".encode(),
        limit=_MAX_INFO,
        timeout=timing.ask,
    )


class RebootWatch:
    """Decides from a device's answers and silences when it has restarted and what it runs for good. Pure."""

    def __init__(
        self, before: Identity, wanted: str, facts: Facts, *, timing: Timing, now: float, away: bool = False
    ) -> None:
        """`before` is what it said before it was flashed, `wanted` the version that it must report; `away` tells that
        it was seen to go away already.
        """
        self._before = before
        self._wanted = wanted
        self._build = facts.build
        self._timing = timing
        self._give_up = now + timing.reboot
        self._misses = 0
        self._away = away
        self.rebooted = False
        """Whether a reboot was seen."""
        self._latest: Identity | None = None
        self._equal = 0
        self._since = math.inf

    @property
    def left(self) -> bool:
        """Whether it went away, or has restarted without that being seen."""
        return self._away or self.rebooted

    def missed(self, *, refused: bool) -> None:
        """It did not answer; `refused` tells that nobody listens, which is no lost packet but a device in mid-boot."""
        self._misses += 1
        self._latest = None
        if refused or self._misses > 1:
            self._away = True

    def confused(self) -> None:
        """It answered, but not so that it could be understood: this tells nothing of a reboot."""
        self._misses = 0
        self._latest = None

    def heard(self, said: Identity, now: float) -> Identity | None:
        """It answered: gives what it runs once that is settled, with `boots` changed where a reboot was seen."""
        self._misses = 0
        self.rebooted = self.rebooted or self._tells_reboot(said)
        if not self.rebooted:
            return self._told(said) if now >= self._give_up else None
        if said != self._latest:
            self._latest, self._equal, self._since = said, 0, now
        self._equal += 1
        steady = self._equal >= self._timing.steady
        needed = self._timing.hold if self._as_wanted(said) else self._timing.settle
        return self._told(said) if steady and now - self._since >= needed else None

    def _tells_reboot(self, said: Identity) -> bool:
        before = self._before
        if (said.version, said.application, said.build) != (before.version, before.application, before.build):
            return True
        if said.boots and before.boots:  # it counts itself: a silence is then a matter of the network
            return said.boots != before.boots
        return self._away

    def _as_wanted(self, said: Identity) -> bool:
        other_build = bool(said.build and self._build and said.build != self._build)
        return said.version == self._wanted and not other_build

    def _told(self, said: Identity) -> Identity:
        boots = said.boots
        if self.rebooted and boots == self._before.boots:
            boots += "+1"
        return dataclasses.replace(said, certificate=self._before.certificate, boots=boots)


async def until_it_leaves(endpoint: str, before: Identity, *, timing: Timing) -> None:
    """Asks the device until it does not answer any more, or otherwise than before; for ever where it stays."""
    now = asyncio.get_running_loop().time
    watch = RebootWatch(before, "", Facts(), timing=timing, now=now())
    while True:
        try:
            watch.heard(await ask_info(endpoint, timeout=timing.glance), now())
        except OSError as error:
            if is_silence(error):
                watch.missed(refused=isinstance(error, ConnectionRefusedError))
        except NotUnderstood:
            watch.confused()
        if watch.left:
            return
        await asyncio.sleep(timing.poll)


async def watch_reboot(
    endpoint: str,
    before: Identity,
    wanted: str,
    facts: Facts,
    around: Surroundings,
    *,
    timing: Timing,
    left: bool = False,
) -> Identity:
    """Asks the device until it has restarted and its answers are settled; for ever where it stays away.

    `left` tells that it was seen to go away already.
    """
    now = asyncio.get_running_loop().time
    watch = RebootWatch(before, wanted, facts, timing=timing, now=now(), away=left)
    state = ""
    while True:
        try:
            said = await ask_info(endpoint, timeout=timing.glance)
        except OSError as error:
            if is_silence(error):
                watch.missed(refused=isinstance(error, ConnectionRefusedError))
                line = "the device is unavailable"
            else:
                watch.confused()
                line = f"the device could not be asked: {error}"
        except NotUnderstood as error:
            watch.confused()
            line = f"the device answers oddly: {error}"
        else:
            settled = watch.heard(said, now())
            if settled is not None:
                if not watch.rebooted:
                    around.log(f"the device goes on as before: no reboot was seen within {timing.reboot:g} s")
                _check_same_kind(endpoint, before, settled)
                return settled
            line = f"the device reports {said.version}" if watch.rebooted else "waiting for the device to restart"
        if line != state:
            state = line
            around.log(line)
        await asyncio.sleep(timing.poll)


def _check_same_kind(endpoint: str, before: Identity, after: Identity) -> None:
    """Ended(FAILED) where another chip answers than before: addresses may be given to others meanwhile."""
    was, now = chip_of(before.device), chip_of(after.device)
    if was is not None and now is not None and was != now:
        raise Ended(
            Outcome.FAILED,
            f"another device has the address {endpoint} now: it is a {after.device}, and the one before was a "
            f"{before.device}",
        )


def is_silence(error: OSError) -> bool:
    """Whether it is the device that did not answer: not our own network or machine, and no answer without end. Pure."""
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    several_addresses = type(error) is OSError and error.errno is None  # asyncio tried them all
    return several_addresses or error.errno in {errno.EHOSTUNREACH, errno.EHOSTDOWN}


def host_of(endpoint: str) -> str:
    """The endpoint without its port."""
    if endpoint.startswith("["):
        return endpoint[1:].partition("]")[0]
    return endpoint if endpoint.count(":") > 1 else endpoint.partition(":")[0]


async def addresses_of(endpoint: str, timing: Timing) -> frozenset[str]:
    """The addresses that a device at this endpoint may call from; none where its name stands for none."""
    host = host_of(endpoint)
    try:
        return frozenset({str(ipaddress.ip_address(host))})
    except ValueError:
        pass
    try:
        async with asyncio.timeout(timing.ask):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return frozenset()
    return frozenset(str(entry[4][0]) for entry in found)


def url_of(endpoint: str, path: str) -> str:
    """Where a page of the device is; OSError where the endpoint is no address."""
    if not endpoint or any(letter in "/\\?#@%" or letter.isspace() for letter in endpoint):
        raise OSError(f"{endpoint[:200]!r} is no address of a device")
    bare_v6 = endpoint.count(":") > 1 and not endpoint.startswith("[")
    return f"http://[{endpoint}]{path}" if bare_v6 else f"http://{endpoint}{path}"


def _clean(text: str) -> str:
    """Text of a device as it may stand in a log or a status: printable, and not long."""
    return "".join(letter for letter in text if letter.isprintable()).strip()[:_MAX_TEXT]
