"""Asks devices what they run, with the first verb of their drivers: many at once, at a bounded pace.

The operator asks through it, where it is enabled, Devices that no discovery tells of; whoever watches devices after a
flash may do the same. It sends what `inspect` of a driver sends and nothing else, so that it changes no device, and
whatever goes wrong is an answer too: nothing is raised for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
from contextlib import suppress
from typing import Final

from edgewright.api.device import MAX_TYPE
from edgewright.api.endpoint import Endpoint, endpoint_problem, parse_endpoint, problem_with
from edgewright.api.probe import Answer, Silent, Told, Unaskable
from edgewright.devices.drivers.catalogue import driver_for
from edgewright.devices.drivers.driver import Ended, Identity
from edgewright.runtime.clock import Clock, SystemClock

SECONDS: Final = 20.0
"""How long one device is given: it may take 15 s over its certificate, and some for a lost packet before that."""
MAX_AT_ONCE: Final = 16
"""How many devices are asked at once: those that are silent take up a place for all of SECONDS."""
MAX_PER_SECOND: Final = 50.0
"""How many are begun with in a second: a thousand Devices do not become a thousand connections."""
_MAX_TEXT: Final = 256
"""As much as the Device's schema takes: a device's chatter must not keep its Device from being written."""


class Prober:
    """Asks devices; all who ask through one prober share its places and its pace."""

    def __init__(
        self,
        *,
        local: bool = False,
        seconds: float = SECONDS,
        at_once: int = MAX_AT_ONCE,
        a_second: float = MAX_PER_SECOND,
        clock: Clock | None = None,
    ) -> None:
        """`local`: devices may be on this machine; else nothing at a loopback or link-local address is asked."""
        self._local = local
        self._seconds = seconds
        self._places = asyncio.Semaphore(at_once)
        self._apart = 1.0 / a_second
        self._clock = clock or SystemClock()
        self._next = self._clock.elapsed()

    async def ask(self, protocol: str, endpoint: str) -> Answer:
        """What comes of asking the device there, once it is its turn."""
        async with self._places:
            now = self._clock.elapsed()
            mine = max(self._next, now)
            self._next = mine + self._apart
            if mine > now:
                await self._clock.sleep(mine - now)
            return await probe(protocol, endpoint, seconds=self._seconds, local=self._local)


async def probe(protocol: str, endpoint: str, *, seconds: float = SECONDS, local: bool = False) -> Answer:
    """Asks one device at once, and waits so many seconds for its answer at the most."""
    problem = endpoint_problem(endpoint, local=local)
    if problem is not None:
        return Unaskable(problem)
    place = parse_endpoint(endpoint)
    try:
        driver = driver_for(protocol)
    except Exception as error:  # there is none, or it is somebody else's and cannot be made
        return Unaskable(str(error) or type(error).__name__)
    try:
        async with asyncio.timeout(seconds):
            return _told(await driver.inspect(str(await _found(place, local=local))))
    except TimeoutError:
        return Silent(f"the device at {place} gave no answer within {seconds:g} s")
    except Ended as error:
        return Silent(error.message)
    except Exception as error:  # a driver of others may raise anything
        return Silent(f"the device at {place} could not be asked: {str(error) or type(error).__name__}")


def _told(said: Identity) -> Told:
    """What the device says of itself, as far as a Device can take it."""
    return Told(
        type=_clean(said.device, MAX_TYPE),
        application=_clean(said.application),
        version=_clean(said.version),
        certificate=hashlib.sha256(said.certificate).hexdigest() if said.certificate else "",
        build=_clean(said.build),
        boots=_clean(said.boots),
    )


def _clean(text: str, longest: int = _MAX_TEXT) -> str:
    return "".join(letter for letter in text if letter.isprintable()).strip()[:longest]


async def _found(place: Endpoint, *, local: bool) -> Endpoint:
    """The place with an address for its name: what may be behind a name is known only then. OSError where nothing is.

    The driver gets the address, so that it cannot be another one by the time that it asks.
    """
    if place.address is not None:
        return place
    problem = ""
    for host in await _addresses(place.host):
        there = Endpoint(host, place.port)
        problem = problem_with(there, local=local) or ""
        if not problem:
            return there
    raise OSError(f"{place.host} leads nowhere: {problem or 'it has no address'}")


async def _addresses(name: str) -> list[str]:
    """The addresses of a host name, the best first.

    The loop's own way would use a thread that the end of the process waits for, which a resolver that gives no answer
    holds up for long.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def tell(found: list[str] | OSError) -> None:
        if answer.done():  # nobody waits any more
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def look() -> None:
        found: list[str] | OSError
        try:
            found = [str(each[4][0]) for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
        except OSError as error:
            found = error
        except UnicodeError as error:  # a label that is too long for the resolver's encoding
            found = OSError(str(error))
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, found)

    threading.Thread(target=look, name=f"address of {name}", daemon=True).start()
    return await answer
