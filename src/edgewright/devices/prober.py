"""Asks devices what they run, with the first verb of their drivers: many at once, at a bounded pace.

The operator asks through it, where it is enabled, Devices that no discovery tells of; whoever watches devices after a
flash may do the same. It sends what `inspect` of a driver sends and nothing else, so that it changes no device, and
whatever goes wrong is an answer too: nothing is raised for it.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from edgewright.api.device import MAX_TYPE
from edgewright.api.endpoint import endpoint_problem, parse_endpoint
from edgewright.api.probe import Answer, Silent, Told, Unaskable
from edgewright.devices.drivers.catalogue import driver_for
from edgewright.devices.drivers.driver import Ended, Identity
from edgewright.devices.resolver import resolve
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
            return _told(await driver.inspect(str(await resolve(place, local=local))))
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
