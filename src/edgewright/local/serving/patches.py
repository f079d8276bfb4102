"""Which kind of patch a request sends, and the object that it makes of another.

`server` calls `understand` for PATCH and hands the result to `writes`. The patches themselves are in `patch` and
`apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from edgewright.local.apply import strategic
from edgewright.local.apply.gotext import printed
from edgewright.local.errors import Refusal, bad_request, unsupported_media_type
from edgewright.local.kinds import Kinds
from edgewright.local.patch import go_name, json_patch, merge_patch
from edgewright.local.served import Served
from edgewright.local.serving import bodies
from edgewright.runtime.objects import RawObject

JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"


def media_type(header: str, served: Served) -> str:
    """The kind of patch that a request says it sends; one that the kind does not take is refused."""
    media = header.split(";", 1)[0].strip().lower()
    offered = (JSON_PATCH, MERGE, APPLY) if served.custom else (JSON_PATCH, MERGE, STRATEGIC, APPLY)
    if media not in offered and not served.custom:
        raise Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if media not in offered:
        raise unsupported_media_type(offered)
    return media


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A patch, decoded."""

    make: Callable[[RawObject], RawObject]
    """What it does to an object."""
    duplicates: Sequence[str] = ()
    """A sentence a field that it names twice."""
    shown: str | None = None
    """What stands for its result in a refusal; nothing for the result itself."""


def parse(media: str, body: bytes, served: Served, kinds: Kinds) -> Patch:
    """A patch of one of the three kinds."""
    prefix = "" if media == STRATEGIC else "error decoding patch: "
    try:
        patch, duplicates = bodies.decode_json(body)
    except bodies.Unreadable as error:
        raise bad_request(f"{prefix}{error.words}") from None
    if media == JSON_PATCH:
        return Patch(make=lambda live: json_patch(live, patch))
    if media == MERGE:
        return Patch(make=lambda live: merge_patch(live, patch), duplicates=duplicates)
    if not isinstance(patch, dict):
        raise bad_request(f"json: cannot unmarshal {go_name(patch)} into Go value of type map[string]interface {{}}")
    fields = kinds.fields(served)
    return Patch(make=lambda live: strategic.merge(live, patch, fields), duplicates=duplicates, shown=printed(patch))


def wanted(body: bytes) -> tuple[RawObject, list[str]]:
    """What a server-side apply wants, which may be YAML."""
    try:
        obj, duplicates = bodies.decode(body, bodies.YAML)
    except bodies.Unreadable as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error.words}") from None
    if not isinstance(obj, dict):
        why = f"json: cannot unmarshal {go_name(obj)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    return obj, duplicates
