"""The query of a request, read as Go reads it: what is broken in it is left out and the rest counts.

`server` calls it once a request. It knows nothing of what the options mean, but for the time that a request may take,
which every request can name and which is only checked here.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from multidict import MultiDict

from edgewright.local.errors import bad_request
from edgewright.local.go_format import quote

_BROKEN: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DURATION: Final = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|[+-]?0")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")


def parse(raw: str) -> MultiDict[str]:
    """The options of a raw query; one with a semicolon or a broken escape in it is none."""
    found: MultiDict[str] = MultiDict()
    for part in raw.split("&"):
        if part and ";" not in part and not _BROKEN.search(part):
            name, _, value = part.partition("=")
            found.add(_text(name), _text(value))
    return found


def _text(escaped: str) -> str:
    return unquote_to_bytes(escaped.replace("+", " ")).decode(errors="replace")


def check_timeout(options: MultiDict[str]) -> None:
    """Refuses a request that says in no known way how long it may take."""
    said = options.get("timeout")
    if not said or _DURATION.fullmatch(said):
        return
    why = "missing unit in" if _NUMBER.fullmatch(said) else "invalid"
    raise bad_request(f"invalid timeout specified in the request URL - time: {why} duration {quote(said)}")
