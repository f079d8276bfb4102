"""Reads what a registry wants to see before it answers: the WWW-Authenticate header, and the token that it leads to.

`repository` calls it after a 401. Pure: it decides nothing about who gets credentials.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

_PARAMETER: Final = re.compile(r'\s*([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]*))\s*(?:,|$)')
_SCHEME: Final = re.compile(r"(?:^|,)\s*(bearer|basic)(?:\s+|$)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Challenge:
    """What a registry asks for: a password (basic), or a token that its realm gives out (bearer)."""

    bearer: bool
    realm: str = ""
    service: str = ""
    scope: str = ""

    def token_url(self, repository: str) -> str:
        """Where the token for pulling from a repository is had."""
        parts = urlsplit(self.realm)
        asked = {"service": self.service, "scope": self.scope or f"repository:{repository}:pull"}
        query = urlencode({name: value for name, value in asked.items() if value})
        return urlunsplit((parts.scheme, parts.netloc, parts.path, "&".join(filter(None, (parts.query, query))), ""))


def parse_challenge(header: str) -> Challenge | None:
    """The challenge in a WWW-Authenticate header, a token's before a password's; None where it has neither."""
    challenges: dict[str, Challenge] = {}
    for found in _SCHEME.finditer(header):
        scheme, values = found[1].lower(), _parameters(header[found.end() :])
        if scheme == "basic" or values.get("realm"):
            challenges[scheme] = Challenge(
                bearer=scheme == "bearer",
                realm=values.get("realm", ""),
                service=values.get("service", ""),
                scope=values.get("scope", ""),
            )
    return challenges.get("bearer") or challenges.get("basic")


def _parameters(text: str) -> dict[str, str]:
    """The name=value pairs at the beginning of a text, up to what is no such pair."""
    values: dict[str, str] = {}
    at = 0
    while found := _PARAMETER.match(text, at):
        quoted = found[2]
        values.setdefault(found[1].lower(), found[3] or "" if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = found.end()
    return values


class _Token(msgspec.Struct):
    token: str = ""
    access_token: str = ""


def read_token(body: bytes) -> str:
    """The token in the answer of a token service; empty where there is none."""
    try:
        answer = msgspec.json.decode(body, type=_Token)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return answer.token or answer.access_token
