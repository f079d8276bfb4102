"""Exchanges about deletions: preconditions, grace, propagation, finalizers, collections, namespaces."""

from __future__ import annotations

from typing import Any, Final

from tests.cluster.differential.bodies import (
    MAPS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    named,
    pod,
    secret,
    secrets,
    service,
)
from tests.cluster.differential.exchange import Answer, Exchange, Step, delete, exchange, get, made, patch, post

_HELD = {"finalizers": ["example.com/hold"]}
_KEEP = {"uid": "metadata.uid", "rv": "metadata.resourceVersion"}
_SECRET = made(SECRETS, secret("a"), keep=_KEEP)
_HOLD = made(SECRETS, secret("a", metadata=_HELD), keep=_KEEP)
_AT = f"{SECRETS}/a"


def _options(**options: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "DeleteOptions", **options}


def gone(answer: Answer) -> bool:
    """The object is no longer there."""
    return answer.code == 404


DELETES: dict[str, Exchange] = {
    "an object": exchange(_SECRET, delete(_AT)),
    "what is not there": exchange(delete(_AT)),
    "twice": exchange(_SECRET, delete(_AT), delete(_AT)),
    "with its uid": exchange(_SECRET, delete(_AT, _options(preconditions={"uid": "{uid}"}))),
    "with another uid": exchange(_SECRET, delete(_AT, _options(preconditions={"uid": "other"}))),
    "with its version": exchange(_SECRET, delete(_AT, _options(preconditions={"resourceVersion": "{rv}"}))),
    "with another version": exchange(_SECRET, delete(_AT, _options(preconditions={"resourceVersion": "1"}))),
    "with a finalizer": exchange(_HOLD, delete(_AT)),
    "with a finalizer, twice": exchange(_HOLD, delete(_AT), delete(_AT)),
    "with a finalizer that goes": exchange(_HOLD, delete(_AT), patch(_AT, {"metadata": {"finalizers": None}})),
    "a finalizer added to a deleted one": exchange(
        _HOLD, delete(_AT), patch(_AT, {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    ),
    "a change of a deleted one": exchange(_HOLD, delete(_AT), patch(_AT, {"metadata": {"labels": {"a": "b"}}})),
    "a deletion taken back": exchange(_HOLD, delete(_AT), patch(_AT, {"metadata": {"deletionTimestamp": None}})),
    "a creation under the name of a deleted one": exchange(_HOLD, delete(_AT), post(SECRETS, secret("a"))),
    "a dry run": exchange(_SECRET, delete(f"{_AT}?dryRun=All")),
    "a dry run in the body": exchange(_SECRET, delete(_AT, _options(dryRun=["All"]))),
    "a dry run with a finalizer": exchange(_HOLD, delete(f"{_AT}?dryRun=All")),
    "an unknown dry run": exchange(_SECRET, delete(f"{_AT}?dryRun=Some")),
    "an unknown policy": exchange(_SECRET, delete(f"{_AT}?propagationPolicy=Odd")),
    "a policy and the old way": exchange(
        _SECRET, delete(_AT, _options(propagationPolicy="Orphan", orphanDependents=True))
    ),
    "a body of another kind": exchange(_SECRET, delete(_AT, {"apiVersion": "v1", "kind": "Secret", "metadata": {}})),
    "a body without a kind": exchange(_SECRET, delete(_AT, {"gracePeriodSeconds": 0})),
    "a body that is no JSON": exchange(_SECRET, delete(_AT, "{")),
    "a body that is a list": exchange(_SECRET, delete(_AT, [1])),
    "a body of another version": exchange(
        _SECRET, delete(_AT, {"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"})
    ),
    "a body of a wrong type": exchange(_SECRET, delete(_AT, _options(gracePeriodSeconds="soon"))),
    "an unknown option": exchange(_SECRET, delete(_AT, _options(colour="red"))),
    "a grace for what has none": exchange(_SECRET, delete(f"{_AT}?gracePeriodSeconds=5")),
    "a negative grace": exchange(
        made(PODS, pod("a", nodeName="n")), delete(f"{PODS}/a?gracePeriodSeconds=-5"), stored=False
    ),
    "a grace that is no number": exchange(_SECRET, delete(f"{_AT}?gracePeriodSeconds=x")),
    "in the background": exchange(_SECRET, delete(f"{_AT}?propagationPolicy=Background")),
    "in the foreground": exchange(
        _SECRET, delete(f"{_AT}?propagationPolicy=Foreground"), get(_AT, until=gone), stored=False
    ),
    "with orphans": exchange(_SECRET, delete(f"{_AT}?propagationPolicy=Orphan"), get(_AT, until=gone), stored=False),
    "a Pod without a node": exchange(made(PODS, pod("a")), delete(f"{PODS}/a")),
    "a Pod on a node": exchange(made(PODS, pod("a", nodeName="n")), delete(f"{PODS}/a")),
    "a Pod on a node, with a grace": exchange(
        made(PODS, pod("a", nodeName="n")),
        delete(f"{PODS}/a?gracePeriodSeconds=50"),
        delete(f"{PODS}/a?gracePeriodSeconds=10"),
        delete(f"{PODS}/a?gracePeriodSeconds=20"),
    ),
    "a Pod at once": exchange(made(PODS, pod("a", nodeName="n")), delete(f"{PODS}/a?gracePeriodSeconds=0")),
    "a Pod with a grace of its own": exchange(
        made(PODS, pod("a", nodeName="n", terminationGracePeriodSeconds=7)), delete(f"{PODS}/a")
    ),
    "a Pod that is over": exchange(
        made(PODS, pod("a", nodeName="n")),
        patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}, compared=False),
        delete(f"{PODS}/a"),
    ),
    "a Pod that has a finalizer": exchange(
        made(PODS, pod("a", metadata=_HELD, nodeName="n")), delete(f"{PODS}/a?gracePeriodSeconds=0")
    ),
    "a Service": exchange(made(SERVICES, service("a")), delete(f"{SERVICES}/a")),
    "a Node": exchange(made(NODES, named("{ns}", spec={"unschedulable": True})), delete(f"{NODES}/{{ns}}")),
    "answered as YAML": exchange(_SECRET, Step(method="DELETE", path=_AT, headers={"Accept": "application/yaml"})),
}


def _dependent(block: bool | None = None) -> Step:
    owner: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "name": "a", "uid": "{uid}"}
    if block is not None:
        owner["blockOwnerDeletion"] = block
    return made(MAPS, named("child", metadata={"ownerReferences": [owner]}))


def _forlorn(name: str) -> Step:
    owner = {"apiVersion": "v1", "kind": "Secret", "name": "none", "uid": "11111111-2222-3333-4444-555555555555"}
    return made(MAPS, named(name, metadata={"ownerReferences": [owner]}))


# The collector sees ConfigMaps in the order in which they were made: once this one is gone, it knows the dependent too.
# Of an owner that goes before that it would make no orphans, and delete what it sees later as a dependent of nobody.
_COLLECTOR_HAS_SEEN_ALL: Final = (_forlorn("marker"), get(f"{MAPS}/marker", until=gone))


def _unowned(answer: Answer) -> bool:
    return answer.code == 200 and "ownerReferences" not in answer.body["metadata"]


OWNERS: dict[str, Exchange] = {
    "dependents in the background": exchange(
        _SECRET, _dependent(), delete(_AT), get(f"{MAPS}/child", until=gone), stored=False
    ),
    "dependents in the foreground": exchange(
        _SECRET,
        _dependent(block=True),
        delete(f"{_AT}?propagationPolicy=Foreground"),
        get(f"{MAPS}/child", until=gone),
        get(_AT, until=gone),
        stored=False,
    ),
    "dependents as orphans": exchange(
        _SECRET,
        _dependent(),
        *_COLLECTOR_HAS_SEEN_ALL,
        delete(f"{_AT}?propagationPolicy=Orphan"),
        get(_AT, until=gone),
        get(f"{MAPS}/child", until=_unowned, compared=False),
        patch(f"{MAPS}/child", {"metadata": {"managedFields": [{}]}}),
        stored=False,
    ),
    "dependents as orphans, the old way": exchange(
        _SECRET,
        _dependent(),
        *_COLLECTOR_HAS_SEEN_ALL,
        delete(_AT, _options(orphanDependents=True)),
        get(_AT, until=gone),
        get(f"{MAPS}/child", until=_unowned, compared=False),
        stored=False,
    ),
    "a dependent of an owner that is not there": exchange(
        _forlorn("child"), get(f"{MAPS}/child", until=gone), stored=False
    ),
}

COLLECTIONS: dict[str, Exchange] = {
    "all": exchange(*secrets("a", "b"), delete(SECRETS), get(SECRETS)),
    "none": exchange(delete(SECRETS)),
    "a selection": exchange(
        *secrets("a", "b", x="y"), *secrets("c"), delete(f"{SECRETS}?labelSelector=x%3Dy"), get(SECRETS)
    ),
    "by a field": exchange(*secrets("a", "b"), delete(f"{SECRETS}?fieldSelector=metadata.name%3Da"), get(SECRETS)),
    "with finalizers": exchange(_HOLD, *secrets("b"), delete(SECRETS), get(SECRETS)),
    "a dry run": exchange(*secrets("a"), delete(f"{SECRETS}?dryRun=All"), get(SECRETS)),
    "a limit": exchange(*secrets("a", "b", "c"), delete(f"{SECRETS}?limit=2"), get(SECRETS)),
    "with options": exchange(*secrets("a"), delete(SECRETS, _options(gracePeriodSeconds=0)), get(SECRETS)),
    "with a uid": exchange(*secrets("a"), delete(SECRETS, _options(preconditions={"uid": "other"})), get(SECRETS)),
    "a bad selector": exchange(delete(f"{SECRETS}?labelSelector=a%20b")),
    "Pods": exchange(made(PODS, pod("a")), made(PODS, pod("b", nodeName="n")), delete(PODS), get(PODS)),
    "Services": exchange(made(SERVICES, service("a")), delete(SERVICES), get(SERVICES)),
    "Namespaces": exchange(delete(NAMESPACES)),
    "of all namespaces": exchange(delete("/api/v1/secrets?labelSelector=none-has-this")),
}

NAMESPACE_DELETES: dict[str, Exchange] = {
    "an empty one": exchange(
        made(NAMESPACES, named("{ns}-d")),
        delete(f"{NAMESPACES}/{{ns}}-d"),
        get(f"{NAMESPACES}/{{ns}}-d", until=gone),
        stored=False,
        early=True,
    ),
    "with objects": exchange(
        made(NAMESPACES, named("{ns}-d")),
        made("/api/v1/namespaces/{ns}-d/secrets", secret("a")),
        delete(f"{NAMESPACES}/{{ns}}-d"),
        get("/api/v1/namespaces/{ns}-d/secrets/a", until=gone),
        get(f"{NAMESPACES}/{{ns}}-d", until=gone),
        stored=False,
        early=True,
    ),
    "with a finalizer": exchange(
        made(NAMESPACES, named("{ns}-d")),
        made("/api/v1/namespaces/{ns}-d/secrets", secret("a", metadata=_HELD)),
        delete(f"{NAMESPACES}/{{ns}}-d"),
        post("/api/v1/namespaces/{ns}-d/secrets", secret("b")),
        get(
            "/api/v1/namespaces/{ns}-d/secrets/a",
            until=lambda answer: "deletionTimestamp" in answer.body.get("metadata", {}),
        ),
        get(
            f"{NAMESPACES}/{{ns}}-d",
            until=lambda answer: len(answer.body["status"].get("conditions", [])) == 5,
            compared=False,
        ),
        delete(f"{NAMESPACES}/{{ns}}-d"),
        patch("/api/v1/namespaces/{ns}-d/secrets/a", {"metadata": {"finalizers": None}}),
        get(f"{NAMESPACES}/{{ns}}-d", until=gone),
        stored=False,
        early=True,
    ),
    "with a finalizer of its own": exchange(
        made(NAMESPACES, named("{ns}-d", spec={"finalizers": ["example.com/hold"]})),
        delete(f"{NAMESPACES}/{{ns}}-d"),
        stored=False,
    ),
    "that may not go": exchange(delete(f"{NAMESPACES}/default"), delete(f"{NAMESPACES}/kube-system"), stored=False),
    "that is not there": exchange(delete(f"{NAMESPACES}/{{ns}}-none")),
    "with another uid": exchange(
        made(NAMESPACES, named("{ns}-d")), delete(f"{NAMESPACES}/{{ns}}-d", _options(preconditions={"uid": "other"}))
    ),
    "a dry run": exchange(
        made(NAMESPACES, named("{ns}-d")), delete(f"{NAMESPACES}/{{ns}}-d?dryRun=All"), get(f"{NAMESPACES}/{{ns}}-d")
    ),
}
