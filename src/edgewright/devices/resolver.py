"""From the name of a device to the one address that is dialled: resolved, checked, and from then on pinned.

The prober and the flasher dial nothing by name but through it, because what is behind a name is known only once it is
resolved, and may be another address the next time. It opens no connection.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Final, cast

from edgewright.api.endpoint import BadEndpoint, Endpoint, parse_endpoint, problem_with
from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import (
    NOTHING,
    Driver,
    Ended,
    Facts,
    Handover,
    Identity,
    Image,
    Surroundings,
    WatchingDriver,
)

LOOKUP_SECONDS: Final = 10.0
"""How long a resolver may take where nobody else minds the time."""


async def resolve(place: Endpoint, *, local: bool, like: str = "") -> Endpoint:
    """The place with an address in the place of its name; OSError where there is none at which a device may be.

    `local`: devices may be on this machine. Of several addresses the first of the family of `like` counts, where that
    is an address and there is one, else the first. What is an address already is given back as it is.
    """
    if place.address is not None:
        return place
    found = [Endpoint(host, place.port) for host in await _addresses(place.host)]
    problems = [problem_with(there, local=local) for there in found]
    fit = [there for there, problem in zip(found, problems, strict=True) if not problem]
    if not fit:
        raise OSError(f"{place.host} leads nowhere: {problems[-1] if problems else 'it has no address'}")
    wanted = Endpoint(like).address
    same = (there for there in fit if wanted is not None and there.address and there.address.version == wanted.version)
    return next(same, fit[0])


def pinned(driver: Driver, *, local: bool, like: str = "") -> Driver:
    """The driver, which from now on is told addresses only; `local` and `like` as for `resolve`."""
    return cast(Driver, _Pinned(driver, local=local, like=like))


class _Pinned:
    """A driver whose every verb resolves the name of its device first, and dials what was checked."""

    def __init__(self, driver: Driver, *, local: bool, like: str = "") -> None:
        self._driver = driver
        self._local = local
        self._like = like
        self.protocol = driver.protocol
        self.traits = driver.traits

    async def inspect(self, endpoint: str) -> Identity:
        return await self._driver.inspect(await self._address(endpoint))

    def check(self, image: Image, device: Identity) -> Facts:
        return self._driver.check(image, device)

    async def flash(self, image: Image, endpoint: str, device: Identity, around: Surroundings) -> Handover:
        return await self._driver.flash(image, await self._address(endpoint), device, around)

    async def verify(
        self,
        endpoint: str,
        before: Identity,
        wanted: str,
        facts: Facts,
        around: Surroundings,
        *,
        handover: Handover = NOTHING,
    ) -> Identity:
        there = await self._address(endpoint)
        return await self._driver.verify(there, before, wanted, facts, around, handover=handover)

    async def until_it_leaves(self, endpoint: str, device: Identity) -> None:
        await cast(WatchingDriver, self._driver).until_it_leaves(await self._address(endpoint), device)

    async def _address(self, endpoint: str) -> str:
        try:
            place = parse_endpoint(endpoint)
        except BadEndpoint as error:  # what we cannot read, the system's resolver may read as some address
            raise Ended(Outcome.FAILED, f"the device cannot be dialled: {error}") from None
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return str(await resolve(place, local=self._local, like=self._like))
        except OSError as error:  # TimeoutError is one
            why = str(error) or f"its name was not resolved within {LOOKUP_SECONDS:g} s"
            raise Ended(Outcome.UNREACHABLE, f"the device at {place} cannot be dialled: {why}") from None


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
