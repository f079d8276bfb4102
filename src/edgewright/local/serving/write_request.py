"""A write as it was asked for, and its body as an object of its kind; what does not fit is refused here.

`server` creates an `Asked` of a request and `writes` does it. The words of each refusal are the real server's; nothing
is read from the store or written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from edgewright.local import field_errors
from edgewright.local.access.authentication import ADMINISTRATOR, User
from edgewright.local.errors import Refusal, bad_request, forbidden, invalid
from edgewright.local.go_format import quote
from edgewright.local.served import Served
from edgewright.local.serving import bodies, decode_errors
from edgewright.local.serving.options import WriteOptions
from edgewright.runtime.objects import Kind, RawObject

_MANAGER_LENGTH = 128
# Where the real server keeps kinds that it once called otherwise.
_ROOTS = {
    "services": "services/specs",
    "nodes": "minions",
    "customresourcedefinitions.apiextensions.k8s.io": "apiextensions.k8s.io/customresourcedefinitions",
}


@dataclass(frozen=True, kw_only=True)
class WriteRequest:
    """A write as it was asked for: of what, by whom, and how."""

    served: Served
    namespace: str
    name: str = ""
    subresource: str = ""
    user: User = ADMINISTRATOR
    agent: str = ""
    options: WriteOptions = field(default_factory=WriteOptions)

    @property
    def manager(self) -> str:
        """Who the changed fields belong to afterwards."""
        if self.options.manager:
            return self.options.manager
        return "".join(each for each in self.agent.split("/")[0] if each.isprintable())[:_MANAGER_LENGTH]


def strictly(asked: WriteRequest, unknown: Sequence[str], duplicates: Sequence[str], warnings: list[str]) -> None:
    """Unknown and repeated fields are refused, warned of or passed over, as the client wants."""
    found = [f"unknown field {quote(path)}" for path in unknown] + list(duplicates)
    if not found or asked.options.validation == "Ignore":
        return
    if asked.options.validation == "Warn":
        warnings += found
        return
    if in_yaml := [each for each in found if each.startswith("line ")]:
        found = [_yaml_errors(in_yaml), *(each for each in found if each not in in_yaml)]
    raise bad_request(f"{_unhandled(asked.served.kind)}: strict decoding error: {', '.join(found)}")


def applied_twice(asked: WriteRequest, duplicates: Sequence[str]) -> list[str]:
    """What is to be warned of in an applied text that names fields twice, where that is no reason to refuse it."""
    if not duplicates or asked.options.validation == "Ignore":
        return []
    if asked.options.validation == "Strict":
        raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {_yaml_errors(duplicates)}")
    return list(duplicates)


def _yaml_errors(lines: Sequence[str]) -> str:
    return "yaml: unmarshal errors:" + "".join(f"\n  {each}" for each in lines)


def precondition(asked: WriteRequest, wanted: str, there: str) -> str:
    """That an object is not the one that was meant; the real server says where it looked."""
    kind = asked.served.kind
    root = _ROOTS.get(asked.served.storage, f"{kind.group}/{kind.plural}" if asked.served.custom else kind.plural)
    where = "/".join(part for part in (root, asked.namespace if kind.namespaced else "", asked.name) if part)
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {there}"
    at = f"Key: /registry/{where}, ResourceVersion: 0"
    return f"StorageError: invalid object, Code: 4, {at}, AdditionalErrorMsg: {why}"


def unpatchable(kind: Kind, result: RawObject, shown: str | None, refusal: Refusal) -> Refusal:
    """A patch whose result is no object of the kind."""
    if refusal.code != 400:
        return refusal
    why = refusal.message.partition(f" cannot be handled as a {kind.kind}: ")[2] or refusal.message
    text = bodies.encode(result).decode() if shown is None else shown
    if shown is not None:
        why = decode_errors.unconvertible(why)
    return invalid(Kind(group="", version="", kind="", plural=""), "", [field_errors.invalid("patch", text, why)])


def _unhandled(kind: Kind, said: str = "") -> str:
    return f"{said or kind.kind} in version {quote(kind.version)} cannot be handled as a {kind.kind}"


def of_kind(body: Any, served: Served, *, patched: bool = False) -> RawObject:
    """The body as an object of this kind; what a built-in kind's body leaves out is known from the path.

    A custom object may say that it is of another kind, and a patch even of another version: its rules refuse it later.
    """
    kind = served.kind
    if not isinstance(body, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind})")
    api_version, name = body.get("apiVersion"), body.get("kind")
    for said, what in ((api_version, "apiVersion"), (name, "kind")):
        if said is not None and not isinstance(said, str):
            raise bad_request(
                f"the object provided is unrecognized (must be of type {kind.kind}): {what} must be a string"
            )
    if served.custom and not name:
        raise bad_request(f"Object 'Kind' is missing in the body of a {kind.kind}")
    if (api_version or ("" if served.custom else kind.api_version)) != kind.api_version and not (
        served.custom and patched
    ):
        why = f"the API version in the data ({api_version or ''}) does not match the expected API version"
        raise bad_request(f"{why} ({kind.api_version})")
    if (name or kind.kind) != kind.kind and not served.custom:
        raise bad_request(f"{_unhandled(kind, str(name))}: converting ({kind.api_version}.{name}) is not possible")
    if not isinstance(body.get("metadata", {}), dict | None):
        raise bad_request(f"{_unhandled(kind)}: metadata must be an object")
    return {"kind": name or kind.kind, "apiVersion": api_version or kind.api_version} | {
        name: value for name, value in body.items() if name not in ("kind", "apiVersion")
    }


def said_kind(obj: RawObject, kind: Kind) -> Kind:
    """The kind that an object says it is of, which a refusal names; Events are always those of the core group."""
    if kind.group == "events.k8s.io":
        return Kind(group="", version="v1", kind=kind.kind, plural=kind.plural)
    if (obj.get("apiVersion"), obj.get("kind")) == (kind.api_version, kind.kind):
        return kind
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return Kind(group=group, version=version, kind=str(obj.get("kind", "")), plural=kind.plural)


def namespace_is_going(kind: Kind, name: str, namespace: str) -> Refusal:
    """Nothing new may be made in a namespace that is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    refusal = forbidden(kind, name, why)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return Refusal(refusal.code, refusal.reason, refusal.message, {**(refusal.details or {}), "causes": [cause]})
