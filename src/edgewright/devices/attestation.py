"""Asking the attestation service whether it knows a device's certificate.

The flasher hands `AttestationClient.attest` to the drivers that see a certificate. The published service takes one
request at a time and 2.5 s for each, so it is asked with patience, and again only where it gave no verdict. What it
recognises is a certificate that anybody may have read from the device: it is no proof that the caller owns the key.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.http import Answer, Session

PORT: Final = 8000
"""Where the published service listens."""
_RECOGNISED: Final = "Certificate OK"
_MAX_ANSWER: Final = 16 << 10


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long and how often the service is asked."""

    answer: float = 120.0
    """Seconds for one answer: others may be before us, at 2.5 s each."""
    tries: int = 3
    pause: float = 2.0
    """Seconds before the second try, and so many more before each further one."""


class _Verdict(msgspec.Struct):
    status: str = ""


def service_url(host: str) -> str:
    """The published service's URL on that host."""
    return f"http://[{host}]:{PORT}" if ":" in host else f"http://{host}:{PORT}"


class AttestationClient:
    """Asks one service, at one URL."""

    def __init__(
        self, url: str, *, patience: Patience | None = None, log: Callable[[str], None] = lambda _line: None
    ) -> None:
        """`log` hears of every try."""
        self._url = url
        self._patience = patience or Patience()
        self._log = log

    async def attest(self, certificate: bytes) -> None:
        """Returns where the service recognises the DER certificate.

        Ended(REFUSED) where it does not know it; Ended(FAILED) where it gave no answer that counts.
        """
        problem = "it was not asked"
        for number in range(self._patience.tries):
            await asyncio.sleep(self._patience.pause * number)
            try:
                answer = await self._ask(certificate)
            except OSError as error:
                problem = str(error) or type(error).__name__
            else:
                if answer.status == 401:
                    raise Ended(Outcome.REFUSED, "the attestation service does not recognise the device's certificate")
                if recognised(answer):
                    return
                problem = f"it answers with HTTP {answer.status} and neither yes nor no"
            self._log(f"the attestation service at {self._url} gave no verdict: {problem}")
        raise Ended(Outcome.FAILED, f"the attestation service at {self._url} gave no verdict: {problem}")

    async def _ask(self, certificate: bytes) -> Answer:
        body = ssl.DER_cert_to_PEM_cert(certificate).encode("ascii")
        headers = {"Content-Type": "text/plain", "Connection": "close"}
        seconds = self._patience.answer
        try:
            async with asyncio.timeout(seconds), Session(idle=seconds) as session:
                return await session.request("POST", self._url, headers=headers, body=body, limit=_MAX_ANSWER)
        except TimeoutError:
            raise TimeoutError(f"no answer within {seconds:g} s") from None


def recognised(answer: Answer) -> bool:
    """Whether the answer is the service's yes, and not some other server's 200. Pure."""
    if answer.status != 200:
        return False
    try:
        return msgspec.json.decode(answer.body, type=_Verdict).status == _RECOGNISED
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
