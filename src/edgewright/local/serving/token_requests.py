"""Tokens of ServiceAccounts on request: POST to the `token` of one.

`server` calls it. What is asked for is checked as the real server checks it; the token itself is made by `access`, and
nothing is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from edgewright.local.access.accounts import ISSUER, Accounts
from edgewright.local.apply import apply
from edgewright.local.builtin.access_kinds import TOKEN_REQUEST
from edgewright.local.builtin.reviews import AUTHENTICATION
from edgewright.local.errors import bad_request, conflict, invalid, not_found
from edgewright.local.field_errors import invalid as invalid_field
from edgewright.local.served import Served
from edgewright.local.serving import metadata
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.write_request import WriteRequest, of_kind, strictly
from edgewright.local.structs.fields import definitions
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import Kind, RawObject

_MIN_SECONDS: Final = 600
_MAX_SECONDS: Final = 2**32
_DEFAULT_SECONDS: Final = 3600
_PODS: Final = Kind(group="", version="v1", kind="Pod", plural="pods")
_BINDABLE: Final = {
    "Pod": _PODS,
    "Secret": Kind(group="", version="v1", kind="Secret", plural="secrets"),
    "Node": Kind(group="", version="v1", kind="Node", plural="nodes", namespaced=False),
}


class _TokenRequestRules(BuiltinRules):
    definition = f"{AUTHENTICATION}.TokenRequest"

    def default(self, obj: RawObject) -> None:
        if obj["spec"].get("expirationSeconds") is None:
            obj["spec"]["expirationSeconds"] = _DEFAULT_SECONDS


class TokenRequests:
    """Answers TokenRequests."""

    def __init__(self, objects: Objects, accounts: Accounts) -> None:
        self._objects = objects
        self._accounts = accounts
        self._rules = _TokenRequestRules()
        self._served = Served(
            kind=TOKEN_REQUEST,
            singular="",
            list_kind="",
            storage="",
            storage_api_version="",
            rules=self._rules,
            schema=definitions()[_TokenRequestRules.definition],
            definition=_TokenRequestRules.definition,
        )

    def answer(self, asking: WriteRequest, body: Any, duplicates: Sequence[str]) -> tuple[RawObject, list[str]]:
        """The request with a token in its status, and what is to be warned of."""
        namespace, name = asking.namespace, asking.name
        request = replace(asking, served=self._served)
        asked, unknown = self._rules.decode(of_kind(body, self._served))
        warnings: list[str] = []
        strictly(request, unknown, duplicates, warnings)
        self._rules.default(asked)
        metadata.give_namespace(asked, self._served, namespace)
        if owners := self._owners(request, asked):
            metadata.of(asked)["managedFields"] = owners
        found = self._found(asking.served.kind, namespace, name)
        about, spec = metadata.of(asked), asked["spec"]
        self._match(about, found, name)
        if not spec.get("audiences"):
            spec["audiences"] = [ISSUER]
        seconds = spec["expirationSeconds"]
        if causes := _duration_faults(seconds):
            raise invalid(TOKEN_REQUEST, "", causes)
        bound = self._bound(spec.get("boundObjectRef"), namespace, name)
        now = self._objects.now
        token = ""
        if not asking.options.dry_run:
            token = self._accounts.issue(found, audiences=spec["audiences"], seconds=seconds, bound=bound, now=now)
        asked["status"] = {
            "token": token,
            "expirationTimestamp": metadata.timestamp(now + timedelta(seconds=seconds)),
        }
        about["creationTimestamp"] = metadata.timestamp(now)
        return asked, warnings

    def _owners(self, request: WriteRequest, asked: RawObject) -> list[RawObject]:
        owners = apply.record(
            None,
            asked,
            self._objects.kinds.fields(self._served),
            manager=request.manager,
            api_version=TOKEN_REQUEST.api_version,
            subresource=request.subresource,
            now=self._objects.now,
        )
        for entry in owners:
            # What a token is bound to is there before anybody says it, as nothing: nobody owns that it is there.
            entry["fieldsV1"].get("f:spec", {}).get("f:boundObjectRef", {}).pop(".", None)
        return owners

    def _match(self, about: RawObject, found: RawObject, name: str) -> None:
        """A request that names an account names this one."""
        there = metadata.of(found)
        if about.get("name") and about["name"] != name:
            why = "must match the service account name if specified"
            raise invalid(TOKEN_REQUEST, name, [invalid_field("metadata.name", about["name"], why)])
        about["name"] = name
        if about.get("uid") and about["uid"] != there["uid"]:
            why = (
                f"the UID in the token request ({about['uid']}) does not match the UID of the service account "
                f"({there['uid']})"
            )
            raise conflict(_shown(TOKEN_REQUEST), name, why)
        about["uid"] = there["uid"]

    def _bound(self, ref: RawObject | None, namespace: str, account: str) -> dict[str, RawObject]:
        """The objects that a token ends with."""
        if ref is None:
            return {}
        group, _, version = ref.get("apiVersion", "").rpartition("/")
        kind = _BINDABLE.get(ref.get("kind", "")) if not group else None
        if kind is None:
            shown = f"{group}/{version}, Kind={ref.get('kind', '')}"
            raise bad_request(f"cannot bind token to object of type {shown}")
        found = self._found(kind, namespace if kind.namespaced else "", ref.get("name", ""))
        if kind is _PODS and found["spec"].get("serviceAccountName") != account:
            raise bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        if ref.get("uid") and ref["uid"] != metadata.of(found)["uid"]:
            why = (
                f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. The object "
                "might have been deleted and then recreated"
            )
            raise conflict(_shown(kind), ref["name"], why)
        bound = {kind.kind.lower(): found}
        if kind is _PODS and (node := found["spec"].get("nodeName")):
            bound["node"] = self._objects.find("nodes", "", node) or {"metadata": {"name": node}}
        return bound

    def _found(self, kind: Kind, namespace: str, name: str) -> RawObject:
        found = self._objects.find(kind.plural, namespace, name)
        if found is None:
            raise not_found(kind, name)
        return found


def _shown(kind: Kind) -> Kind:
    """The real server names the kind where others name the resource."""
    return Kind(group=kind.group, version=kind.version, kind=kind.kind, plural=kind.kind)


def _duration_faults(seconds: int) -> list[Cause]:
    path = "spec.expirationSeconds"
    if seconds < _MIN_SECONDS:
        return [invalid_field(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _MAX_SECONDS:
        return [invalid_field(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []
