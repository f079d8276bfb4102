"""Which names objects may have: the four rules that Kubernetes has for them, with the sentences it refuses by.

Metadata and the kinds' own validation ask; a rule gives the faults of a name, none when it is good.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Final

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_PATTERN, _SUBDOMAIN_PATTERN = re.compile(_LABEL), re.compile(_SUBDOMAIN)
_LABEL1035_PATTERN = re.compile(_LABEL1035)
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_RANDOM_LENGTH = 5
_MAX_STEM = 58
_ALPHANUMERIC = "lower case alphanumeric characters"
MAX_LABEL: Final = 63
MAX_SUBDOMAIN: Final = 253


def subdomain(name: str) -> list[str]:
    """What is wrong with a name that must be a DNS subdomain, the rule of most kinds."""
    found = _too_long(name, MAX_SUBDOMAIN)
    if not _SUBDOMAIN_PATTERN.fullmatch(name):
        found.append(
            f"a lowercase RFC 1123 subdomain must consist of {_ALPHANUMERIC}, '-' or '.', and must start and end with "
            f"an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
        )
    return found


def label(name: str) -> list[str]:
    """What is wrong with a name that must be a DNS label, as a namespace's."""
    found = _too_long(name, MAX_LABEL)
    if "." in name and not subdomain(name):
        found.append("must not contain dots")
    elif not _LABEL_PATTERN.fullmatch(name):
        found.append(
            f"a lowercase RFC 1123 label must consist of {_ALPHANUMERIC} or '-', and must start and end with an "
            f"alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
        )
    return found


def label1035(name: str) -> list[str]:
    """What is wrong with a name that must be a DNS label that begins with a letter."""
    found = _too_long(name, MAX_LABEL)
    if not _LABEL1035_PATTERN.fullmatch(name):
        found.append(
            f"a DNS-1035 label must consist of {_ALPHANUMERIC} or '-', start with an alphabetic character, and end "
            f"with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
            f"'{_LABEL1035}')"
        )
    return found


def path_segment(name: str) -> list[str]:
    """What is wrong with a name that must only fit into a path."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{each}'" for each in ("/", "%") if each in name]


RULES: Final[dict[str, Callable[[str], list[str]]]] = {
    "subdomain": subdomain,
    "label": label,
    "label1035": label1035,
    "path": path_segment,
}
"""The rules by the names that `Rules.name_rule` has for them."""


def prefix(rule: str, name: str) -> list[str]:
    """What is wrong with a generateName: it may end in what only the middle of a name may have."""
    masked = f"{name[:-1]}a" if len(name) > 1 and name.endswith("-") else name
    return RULES[rule](masked)


def generated(stem: str) -> str:
    """A name that begins so and ends in five random characters."""
    return stem[:_MAX_STEM] + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))


def _too_long(name: str, most: int) -> list[str]:
    return [f"must be no more than {most} characters"] if len(name.encode("utf-8", "surrogatepass")) > most else []
