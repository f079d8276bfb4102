"""Objects and lists as the client asked to see them: whole, as a Table, or their metadata alone.

The last step of a request before bytes go out. What a client may ask for is offered to `bodies.negotiate`; here it is
carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from edgewright.local import tables
from edgewright.local.errors import Refusal, bad_request
from edgewright.local.go_format import quote
from edgewright.local.served import Served
from edgewright.local.serving import bodies, reads
from edgewright.local.serving.bodies import Answer
from edgewright.local.serving.decode_errors import internal_type
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.watches import Show, ShowBookmark
from edgewright.runtime.objects import RawObject

_META: Final = "meta.k8s.io"
OF_AN_OBJECT: Final = tuple((kind, _META, v) for v in ("v1", "v1beta1") for kind in ("Table", "PartialObjectMetadata"))
"""What one object can be shown as: kind, group, version."""
OF_A_LIST: Final = tuple((kind, _META, v) for v in ("v1", "v1beta1") for kind in ("Table", "PartialObjectMetadataList"))
"""What a list can be shown as."""
_PARTIAL: Final = "PartialObjectMetadata"
OFFERED: Final = (*OF_AN_OBJECT, *((f"{_PARTIAL}List", _META, v) for v in ("v1", "v1beta1")))
"""What an answer can be asked for as, whether it fits or not."""
_INCLUDES = ("Metadata", "None", "Object")


def include(query: Mapping[str, str]) -> tables.Include:
    """How much of its object a row of a table carries."""
    asked = query.get("includeObject", "") or "Metadata"
    if asked not in _INCLUDES:
        why = f"Invalid value: {quote(asked)}: must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: includeObject: {why}")
    return cast(tables.Include, asked)


def one(objects: Objects, served: Served, obj: RawObject, answer: Answer, query: Mapping[str, str]) -> bytes:
    """An object."""
    return bodies.encode(_shaped(objects, served, obj, answer, query), answer)


def _shaped(objects: Objects, served: Served, obj: RawObject, answer: Answer, query: Mapping[str, str]) -> RawObject:
    version = f"{_META}/{answer.shape_version}"
    if answer.shape == "Table":
        about = obj.get("metadata") or {}
        return tables.table(
            served, [obj], now=objects.now, include=include(query), list_metadata=about, api_version=version
        )
    if answer.shape == _PARTIAL:
        return tables.partial(obj, api_version=version)
    if answer.shape:
        raise _unfit(answer.shape, f"is not a list ({_go_type(served)})")
    return obj


def many(objects: Objects, served: Served, found: reads.Page, answer: Answer, query: Mapping[str, str]) -> bytes:
    """A list."""
    if not answer.shape:
        return bodies.reencode(reads.list_body(objects, served, found), answer)
    about: dict[str, Any] = {"resourceVersion": str(found.revision)}
    if found.token:
        about |= {"continue": found.token, "remainingItemCount": found.remaining}
    items: Sequence[RawObject] = [objects.read(served, each) for each in found.items]
    version = f"{_META}/{answer.shape_version}"
    if answer.shape == "Table":
        shaped = tables.table(
            served, items, now=objects.now, include=include(query), list_metadata=about, api_version=version
        )
    elif answer.shape == _PARTIAL:
        raise _unfit(answer.shape, f"is a list ({_go_type(served)}List)")
    else:
        shaped = tables.partial_list(items, list_metadata=about, api_version=version)
    return bodies.encode(shaped, answer)


def _unfit(shape: str, why: str) -> Refusal:
    return Refusal(406, "NotAcceptable", f"you requested {shape}, but the requested object {why}")


def _go_type(served: Served) -> str:
    """What the real server calls the type of an object, which it shows to people."""
    if served.custom:
        return "*unstructured.Unstructured"
    return f"*{internal_type(served.kind)}"


def of_watch(objects: Objects, served: Served, answer: Answer, query: Mapping[str, str]) -> tuple[Show, ShowBookmark]:
    """How a watch shows an object, and how a bookmark."""
    own = {"kind": served.kind.kind, "apiVersion": served.kind.api_version}
    if not served.custom:
        own, _ = served.rules.decode(own)  # with the fields that even an empty object of the kind has
    if not answer.shape:
        return (
            lambda stored: objects.shown(served, stored),
            lambda metadata: bodies.encode({**own, "metadata": metadata}),
        )
    version = f"{_META}/{answer.shape_version}"
    if answer.shape == "Table":
        row = _rows(objects, served, version, include(query))
        return (
            lambda stored: row(objects.read(served, stored)),
            lambda metadata: row({**own, "metadata": metadata}),
        )
    kind = {"kind": "PartialObjectMetadata", "apiVersion": version}
    return (
        lambda stored: bodies.encode(tables.partial(objects.read(served, stored), api_version=version)),
        lambda metadata: bodies.encode({**kind, "metadata": metadata}),
    )


def _rows(objects: Objects, served: Served, version: str, included: tables.Include) -> Callable[[RawObject], bytes]:
    """Objects of a watch as tables of one row, of which only the first says what its columns are."""
    first = True

    def row(obj: RawObject) -> bytes:
        nonlocal first
        shaped = tables.table(
            served,
            [obj],
            now=objects.now,
            include=included,
            no_headers=not first,
            list_metadata=obj["metadata"],
            api_version=version,
        )
        first = False
        return bodies.encode(shaped)

    return row
