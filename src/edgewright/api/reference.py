"""Reads the reference of a firmware image: registry host, repository, tag and digest.

The FlashJob controller refuses a spec with it before anything is touched; the flasher pulls by it. Pure: it never asks
a registry, and it never guesses a host that was not written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

EXAMPLE: Final = "registry.example/team/firmware:1.2.0"
"""What the messages show as a right one."""
DEFAULT_TAG: Final = "latest"

_MAX_LENGTH: Final = 1024
_MAX_NAME: Final = 255
_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:.]+\])(?::(?P<port>[0-9]{{1,5}}))?")
_PART: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


class BadReference(ValueError):
    """The text names no image; the message says what is wrong and what a right one looks like."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """An image in a registry; its text is what was parsed."""

    host: str
    """Of the registry, with the port where one was written."""
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def target(self) -> str:
        """What to ask the registry for: the digest where there is one, else the tag, else `latest`."""
        return self.digest or self.tag or DEFAULT_TAG

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.host}/{self.repository}{tag}{digest}"


def parse_reference(text: str) -> Reference:
    """The reference in a text such as `registry.example/team/firmware:1.2.0`; BadReference where it is none."""
    if not text:
        raise BadReference(f"it is empty: name an image, for example {EXAMPLE}")
    if len(text) > _MAX_LENGTH:
        raise BadReference(f"it is longer than {_MAX_LENGTH} characters: name an image, for example {EXAMPLE}")
    if scheme := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        raise _bad(text, f"it begins with {scheme[0]}: leave that out")
    if not text.isascii() or any(letter.isspace() or not letter.isprintable() for letter in text):
        raise _bad(text, "it has a space or another character that no reference may have")
    name, at, digest = text.partition("@")
    if at and not is_digest(digest):
        raise _bad(text, "what follows @ must be sha256: and 64 hexadecimal digits in lower case")
    host, slash, path = name.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        raise _bad(text, "it names no registry host: the part before the first / must have a dot or a port")
    _check_host(text, host)
    repository, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _bad(text, "its tag may have letters, digits, dots, dashes and underscores only, 128 at most")
    _check_repository(text, repository)
    return Reference(host=host, repository=repository, tag=tag, digest=digest)


def is_digest(text: str) -> bool:
    """Whether this is a digest that we can check: sha256 or sha512 in lower case."""
    return _DIGEST.fullmatch(text) is not None


def _check_host(text: str, host: str) -> None:
    found = _HOST.fullmatch(host)
    if found is None:
        raise _bad(text, f"{_quoted(host)} is no host name")
    port = found["port"]
    if port is not None and not 0 < int(port) < 65536:
        raise _bad(text, f"{port} is no port: it must be between 1 and 65535")


def _check_repository(text: str, repository: str) -> None:
    if not repository:
        raise _bad(text, "it names no repository after the host")
    if len(repository) > _MAX_NAME:
        raise _bad(text, f"the name of its repository is longer than {_MAX_NAME} characters")
    if repository != repository.lower():
        raise _bad(text, "the name of a repository must be in lower case")
    for part in repository.split("/"):
        if not _PART.fullmatch(part):
            raise _bad(text, f"{_quoted(part)} cannot be a part of a repository's name")


def _bad(text: str, problem: str) -> BadReference:
    return BadReference(f"{_quoted(text)} names no image: {problem}; right is, for example, {EXAMPLE}")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}…")
