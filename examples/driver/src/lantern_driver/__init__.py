"""Flashes lanterns: a made-up device that answers questions in lines of JSON, and dials in over TLS for its firmware.

Edgewright finds it by its entry point. It shows all that a driver needs, and nothing of it is specific to lanterns but
the four lines that they understand.
"""

from __future__ import annotations

import asyncio
import json
from typing import ClassVar

from edgewright.api.flash_pod import OTA_PORT, Outcome
from edgewright.api.protocols import Traits
from edgewright.devices.drivers.driver import NOTHING, Ended, Facts, Handover, Identity, Image, Surroundings

MAGIC = b"LANTERN "
_SECONDS = 5.0
_PART = 16 << 10


class Lantern:
    """The driver; one is made for each run of the flasher."""

    protocol: ClassVar[str] = "lantern"
    traits: ClassVar[Traits] = Traits(dials_back=True, protected=True, safe_to_interrupt=True, reports_type=True)

    async def inspect(self, endpoint: str) -> Identity:
        """Asks the lantern what it is and runs."""
        try:
            said = await _ask(endpoint, "info")
        except (OSError, ValueError) as error:
            raise Ended(Outcome.UNREACHABLE, f"the lantern at {endpoint} does not answer: {error}") from error
        return Identity(
            device=str(said.get("type", "")), version=str(said.get("version", "")), boots=str(said.get("boots", ""))
        )

    def check(self, image: Image, device: Identity) -> Facts:  # noqa: ARG002 - one firmware fits all lanterns
        """Reads the version in the image's first line."""
        first, newline, _ = image.content.partition(b"\n")
        if not newline or not first.startswith(MAGIC):
            raise Ended(Outcome.CORRUPT, "the firmware is not for lanterns: it does not begin as theirs does")
        return Facts(version=first.removeprefix(MAGIC).decode("ascii", "replace"))

    async def flash(self, image: Image, endpoint: str, device: Identity, around: Surroundings) -> Handover:  # noqa: ARG002
        """Tells the lantern to come, and gives it the image."""
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                around.written()
                for start in range(0, len(image.content), _PART):
                    writer.write(image.content[start : start + _PART])
                    await writer.drain()
                    around.progress(min(start + _PART, len(image.content)), len(image.content))
                writer.close()
                await writer.wait_closed()
            except (OSError, Ended) as error:
                if not taken.done():
                    taken.set_exception(error)
            else:
                if not taken.done():
                    taken.set_result(None)

        server = await asyncio.start_server(serve, around.listen, OTA_PORT, ssl=around.tls)
        async with server:
            try:
                await _ask(endpoint, f"fetch {around.external_address} {OTA_PORT}")
                async with asyncio.timeout(_SECONDS):
                    await taken
            except (OSError, ValueError) as error:
                raise Ended(Outcome.FAILED, f"the lantern did not take the firmware: {error}") from error
        return Handover()

    async def verify(
        self,
        endpoint: str,
        before: Identity,
        wanted: str,
        facts: Facts,  # noqa: ARG002 - a lantern tells no build
        around: Surroundings,
        *,
        handover: Handover = NOTHING,  # noqa: ARG002 - it counts its starts itself
    ) -> Identity:
        """Asks until the lantern has restarted and says the same twice; the flasher's time limit ends it."""
        latest: Identity | None = None
        while True:
            try:
                said = await self.inspect(endpoint)
            except Ended:
                said = None
            if said is not None and said.boots != before.boots and said == latest:
                around.log(f"the lantern has restarted, and reports {said.version} (wanted: {wanted})")
                return said
            latest = said
            await asyncio.sleep(0.1)


async def _ask(endpoint: str, line: str) -> dict[str, object]:
    host, _, port = endpoint.rpartition(":")
    async with asyncio.timeout(_SECONDS):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(f"{line}\n".encode())
            answer = json.loads(await reader.readline())
        finally:
            writer.close()
            await writer.wait_closed()
    if not isinstance(answer, dict):
        raise ValueError("it answers oddly")  # noqa: TRY004 - what it says is wrong, not what we did
    return answer
