"""What the query of a request asks for, read into structs; a value that cannot be is refused here and nowhere else.

Called by the steps that need them. Only reads texts; knows nothing of kinds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multidict import MultiMapping

from edgewright.local import field_errors
from edgewright.local.errors import Cause, Refusal, bad_request, invalid
from edgewright.local.go_format import quote
from edgewright.local.serving import decode_errors
from edgewright.local.structs.go_structs import WrongType, form
from edgewright.runtime.objects import Kind, RawObject

Query = Mapping[str, str]

_META = "meta.k8s.io"
_LIST_OPTIONS = Kind(group=_META, version="v1", kind="ListOptions", plural="listoptions")
_DELETE_OPTIONS = Kind(group=_META, version="v1", kind="DeleteOptions", plural="deleteoptions")
_DELETE_DEFINITION = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_MATCHES = ("Exact", "NotOlderThan")
_VALIDATIONS = ("Ignore", "Strict", "Warn")
_POLICIES = ("Foreground", "Background", "Orphan")
_MANAGER_LENGTH = 128
_INTEGER = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """Which objects, from which version, how many."""

    labels: str = ""
    fields: str = ""
    watch: bool = False
    limit: int = 0
    token: str = ""
    resource_version: str = ""
    match: str = ""
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: int = 0


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How a create, update or patch is to be done."""

    dry_run: bool = False
    validation: str = "Warn"
    manager: str = ""
    force: bool | None = None


@dataclass(frozen=True, kw_only=True)
class DeleteOptions:
    """How a deletion is to be done."""

    dry_run: bool = False
    grace_seconds: int | None = None
    policy: str | None = None
    uid: str | None = None
    resource_version: str | None = None


def list_options(query: Query) -> ListOptions:
    """The options of a list or watch."""
    options = ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        watch=flag(query, "watch") or False,
        limit=max(0, integer(query, "limit") or 0),
        token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        bookmarks=flag(query, "allowWatchBookmarks") or False,
        initial_events=flag(query, "sendInitialEvents"),
        timeout=integer(query, "timeoutSeconds") or 0,
    )
    if found := _watch_faults(options) if options.watch else _list_faults(options):
        raise invalid(_LIST_OPTIONS, "", found)
    return options


def _list_faults(options: ListOptions) -> list[Cause]:
    found = []
    field = "resourceVersionMatch"
    if options.match:
        if not options.resource_version:
            found.append(
                field_errors.forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if options.token:
            found.append(field_errors.forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
        if options.match not in _MATCHES:
            found.append(field_errors.unsupported(field, options.match, (*_MATCHES, "")))
        if options.match == "Exact" and options.resource_version == "0":
            found.append(
                field_errors.forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
            )
    if options.initial_events is not None:
        found.append(field_errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return found


def _watch_faults(options: ListOptions) -> list[Cause]:
    found = []
    field = "resourceVersionMatch"
    if options.initial_events is not None and options.match != "NotOlderThan":
        found.append(
            field_errors.forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        )
    if options.match:
        if options.initial_events is None:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            found.append(field_errors.forbidden(field, why))
        if options.match != "NotOlderThan":
            found.append(field_errors.unsupported(field, options.match, ("NotOlderThan",)))
        if options.token:
            found.append(field_errors.forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
    return found


def write_options(query: Query, *, kind: str, apply: bool = False, patch: bool = False) -> WriteOptions:
    """The options of a create, update or patch; `kind` is what the real server calls them."""
    manager = query.get("fieldManager", "")
    force = flag(query, "force")
    found = []
    if apply and not manager:
        found.append(field_errors.required("fieldManager", "is required for apply patch"))
    if patch and not apply and force is not None:
        found.append(field_errors.forbidden("force", "may not be specified for non-apply patch"))
    found += _manager_faults(manager)
    found += _dry_run_faults(several(query, "dryRun"))
    validation = query.get("fieldValidation", "")
    if validation and validation not in _VALIDATIONS:
        found.append(field_errors.unsupported("fieldValidation", validation, sorted(("", *_VALIDATIONS))))
    if found:
        raise invalid(Kind(group=_META, version="v1", kind=kind, plural=""), "", found)
    return WriteOptions(dry_run="dryRun" in query, validation=validation or "Warn", manager=manager, force=force)


def delete_options(query: Query, body: Any) -> DeleteOptions:
    """The options of a deletion, from its body where it has one, else from the query."""
    given: RawObject = body if body is not None else _from_query(query)
    given = _decoded(given)
    preconditions = given.get("preconditions") or {}
    policy = given.get("propagationPolicy")
    orphan = given.get("orphanDependents")
    found = []
    if policy is not None and orphan is not None:
        found.append(
            field_errors.invalid(
                "propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"
            )
        )
    if policy is not None and policy not in _POLICIES:
        found.append(field_errors.unsupported("propagationPolicy", policy, (*_POLICIES, "nil")))
    dry_run = [str(each) for each in given.get("dryRun") or several(query, "dryRun")]
    found += _dry_run_faults(dry_run)
    if found:
        raise invalid(_DELETE_OPTIONS, "", found)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    return DeleteOptions(
        dry_run=bool(dry_run),
        grace_seconds=given.get("gracePeriodSeconds"),
        policy=policy,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
    )


def _from_query(query: Query) -> RawObject:
    given: RawObject = {}
    if (grace := integer(query, "gracePeriodSeconds")) is not None:
        given["gracePeriodSeconds"] = grace
    if query.get("propagationPolicy"):
        given["propagationPolicy"] = query["propagationPolicy"]
    if (orphan := flag(query, "orphanDependents")) is not None:
        given["orphanDependents"] = orphan
    return given


def _decoded(given: Any) -> RawObject:
    """The body of a deletion, whose kind and fields must be known."""
    if given is None:
        return {}
    decode_errors.check_header(given)
    api_version, kind = given.get("apiVersion") or "v1", given.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        raise bad_request(decode_errors.unregistered(api_version, kind))
    read: RawObject = {}
    try:
        read = form(_DELETE_DEFINITION).read(given, None, [])
    except WrongType as wrong:
        raise bad_request(str(wrong)) from None
    return read


def flag(query: Query, name: str) -> bool | None:
    """A yes or no; whatever is neither `false` nor `0` is a yes, as in the real server."""
    value = query.get(name)
    return None if value is None else value.lower() not in {"false", "0"}


def integer(query: Query, name: str) -> int | None:
    """A whole number; nothing where it is not given."""
    text = query.get(name)
    if text is None:
        return None
    if not _INTEGER.fullmatch(text):
        raise bad_request(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("+-").lstrip("0")
    value = int(text) if len(digits) < 20 else 2**64
    if not -(2**63) <= value < 2**63:
        raise bad_request(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return value


def several(query: Query, name: str) -> list[str]:
    """All values of an option that may be given more than once."""
    if isinstance(query, MultiMapping):
        return list(query.getall(name, []))
    return [query[name]] if name in query else []


def _dry_run_faults(asked: list[str]) -> list[Cause]:
    return [] if set(asked) <= {"All"} else [field_errors.unsupported("dryRun", asked, ("All",))]


def _manager_faults(manager: str) -> list[Cause]:
    found = []
    if len(manager.encode()) > _MANAGER_LENGTH:
        found.append(field_errors.too_long("fieldManager", _MANAGER_LENGTH))
    for index, char in enumerate(manager):
        if not char.isprintable():
            why = f"invalid character U+{ord(char):04X} (at position {len(manager[:index].encode())})"
            found.append(field_errors.invalid("fieldManager", manager, why))
    return found


def refused_version(text: str, *, listed: bool = False) -> Refusal:
    """A resourceVersion that is no number, or one beyond 64 bits."""
    wrong = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    cause = field_errors.invalid("resourceVersion", text, f"strconv.ParseUint: parsing {quote(text)}: {wrong}")
    why = f"{cause.field}: {cause.message}"
    return bad_request(f"invalid resource version: {why}") if listed else Refusal(500, "", why)
