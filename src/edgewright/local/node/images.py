"""Which program an image name stands for: there are no image files here, only names that the node knows.

A name in the table matches with and without registry, tag and digest, so that a manifest written for a cluster runs
unchanged. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

_About = TypeVar("_About")


def program_for(image: str, images: Mapping[str, _About]) -> _About | None:
    """What a table has about an image, as its command, or None where it has nothing; the most exact name counts."""
    for name in _names(image):
        if name in images:
            return images[name]
    return None


def _names(image: str) -> Iterator[str]:
    """The names by which an image may be listed, the most exact first."""
    without_digest = image.partition("@")[0]
    folder, slash, last = without_digest.rpartition("/")
    without_tag = f"{folder}{slash}{last.partition(':')[0]}"
    for name in (image, without_digest, without_tag):
        yield name
    for name in (without_digest, without_tag):
        host, slash, path = name.partition("/")
        if slash and ("." in host or ":" in host or host == "localhost"):
            yield path
            yield path.removeprefix("library/")


def not_here(image: str, images: Mapping[str, Sequence[str]]) -> str:
    """What to tell somebody whose image this node does not have."""
    known = ", ".join(sorted(images)) or "no image at all"
    return f'image "{image}" is not known to this node, which pulls none: it can run {known}'
