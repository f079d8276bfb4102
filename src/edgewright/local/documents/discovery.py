"""The documents from which a client learns what is served: groups, versions and resources, old form and aggregated.

The request path asks for these when the kinds have changed and keeps the answers until they change again. They are
plain functions of the served kinds: same kinds, same documents.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Sequence

import msgspec

from edgewright.local.custom.kinds import CustomRules
from edgewright.local.custom.versions import preference
from edgewright.local.served import Served, Subresource
from edgewright.runtime.objects import RawObject

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The media type of the aggregated documents."""

# The real server gives each of its own groups a priority; custom groups come after them by name.
_GROUP_ORDER = (
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)

# Where the real server keeps objects in another form than we do, its hash is told all the same.
_STORED_ELSEWHERE = {"customresourcedefinitions.apiextensions.k8s.io": "apiextensions.k8s.io/v1beta1"}


def core_versions(address: str) -> RawObject:
    """`/api`: the versions of the group without a name; `address` is where the server listens, host and port."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(kinds: Sequence[Served]) -> RawObject:
    """`/apis`: all named groups."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(kinds, name) for name in groups(kinds)]}


def group(kinds: Sequence[Served], name: str) -> RawObject | None:
    """`/apis/GROUP`; None where nothing of the group is served."""
    if not name or not versions(kinds, name):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(kinds, name)}


def resource_list(kinds: Sequence[Served], group: str, version: str) -> RawObject | None:
    """`/api/v1` and `/apis/GROUP/VERSION`; None where nothing of it is served."""
    here = _resources(kinds, group, version)
    if not here:
        return None
    resources: list[RawObject] = []
    for served in here:
        resources.append(_resource(served))
        resources += [_subresource(served, each) for each in served.subresources]
    return {
        "kind": "APIResourceList",
        # The real server leaves it out for the oldest group, and clients may compare.
        **({"apiVersion": "v1"} if group else {}),
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def aggregated(kinds: Sequence[Served], *, core: bool) -> RawObject:
    """Everything in one document: of the group without a name (`/api`) or of all others (`/apis`)."""
    names = [""] if core else groups(kinds)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [_discovered(served) for served in _resources(kinds, name, version)],
                        "freshness": "Current",
                    }
                    for version in versions(kinds, name)
                ],
            }
            for name in names
        ],
    }


def etag(document: RawObject) -> str:
    """What an aggregated document is known by, in the quotes of the header."""
    return f'"{hashlib.sha512(msgspec.json.encode(document)).hexdigest().upper()}"'


def groups(kinds: Iterable[Served]) -> list[str]:
    """The named groups in the order in which clients look for a resource by its short name."""
    ranks = {name: rank for rank, name in enumerate(_GROUP_ORDER)}
    names = {served.kind.group for served in kinds if served.kind.group}
    return sorted(names, key=lambda name: (ranks.get(name, len(ranks)), name))


def versions(kinds: Iterable[Served], group: str) -> list[str]:
    """The versions of a group, the preferred one first."""
    return sorted({served.kind.version for served in kinds if served.kind.group == group}, key=preference)


def storage_version_hash(served: Served) -> str:
    """Tells a client that the stored form has changed, without saying what it is; empty where nothing is stored."""
    if "get" not in served.verbs:
        return ""
    group, _, version = _STORED_ELSEWHERE.get(served.storage, served.storage_api_version).rpartition("/")
    digest = hashlib.sha256(f"{group}/{version}/{served.kind.kind}".encode()).digest()
    return b64encode(digest[:8]).decode()


def _resources(kinds: Iterable[Served], group: str, version: str) -> list[Served]:
    here = [served for served in kinds if (served.kind.group, served.kind.version) == (group, version)]
    return sorted(here, key=lambda served: served.kind.plural)


def _group(kinds: Sequence[Served], name: str) -> RawObject:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions(kinds, name)]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource(served: Served) -> RawObject:
    stored = storage_version_hash(served)
    return {
        "name": served.kind.plural,
        "singularName": served.singular,
        "namespaced": served.kind.namespaced,
        "kind": served.kind.kind,
        "verbs": _verbs(served),
        **_names(served),
        **({"storageVersionHash": stored} if stored else {}),
    }


def _subresource(served: Served, sub: Subresource) -> RawObject:
    kind = sub.kind or served.kind
    elsewhere = kind.api_version != served.kind.api_version
    return {
        "name": f"{served.kind.plural}/{sub.name}",
        "singularName": "",
        "namespaced": served.kind.namespaced,
        **({"group": kind.group, "version": kind.version} if elsewhere else {}),
        "kind": kind.kind,
        "verbs": list(sub.verbs),
    }


def _discovered(served: Served) -> RawObject:
    subresources = [
        {"subresource": each.name, "responseKind": _response_kind(served, each), "verbs": list(each.verbs)}
        for each in served.subresources
    ]
    return {
        "resource": served.kind.plural,
        "responseKind": _response_kind(served),
        "scope": "Namespaced" if served.kind.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": _verbs(served),
        **_names(served),
        **({"subresources": subresources} if subresources else {}),
    }


def _response_kind(served: Served, sub: Subresource | None = None) -> RawObject:
    kind = (sub.kind if sub else None) or served.kind
    # Built-in kinds leave group and version to be read from where the resource stands.
    own = not served.custom and kind.api_version == served.kind.api_version
    return {"group": "" if own else kind.group, "version": "" if own else kind.version, "kind": kind.kind}


def _verbs(served: Served) -> list[str]:
    """What can be done with a kind; of one that is on the way out no writes are told, though some are still taken."""
    going = isinstance(served.rules, CustomRules) and served.rules.terminating
    return [verb for verb in served.verbs if not going or verb not in ("create", "patch", "update")]


def _names(served: Served) -> RawObject:
    names: RawObject = {}
    if served.short_names:
        names["shortNames"] = list(served.short_names)
    if served.categories:
        names["categories"] = list(served.categories)
    return names
