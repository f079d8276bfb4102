"""Exchanges about watches: from where they begin, what they show, and how they end."""

from __future__ import annotations

from tests.cluster.differential.bodies import (
    MAPS,
    PARTIAL,
    PODS,
    SECRETS,
    TABLE,
    labelled,
    pod,
    secret,
    secrets,
)
from tests.cluster.differential.exchange import Exchange, Step, cached, delete, exchange, get, made, patch, watch

_KEEP = {"rv": "metadata.resourceVersion"}
_W = f"{SECRETS}?watch=true"
_INITIAL = f"{_W}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


def _relabel(**labels: str | None) -> Step:
    return patch(f"{SECRETS}/a", {"metadata": {"labels": labels}}, compared=False)


WATCHES: dict[str, Exchange] = {
    "all from the beginning": exchange(*secrets("a", "b"), watch(_W, 2)),
    "at version 0": exchange(*secrets("a", "b"), cached(SECRETS, 2), watch(f"{_W}&resourceVersion=0", 2)),
    "what comes": exchange(
        watch(_W, 3), made(SECRETS, secret("a")), _relabel(x="y"), delete(f"{SECRETS}/a", compared=False)
    ),
    "after a version": exchange(
        made(SECRETS, secret("a"), keep=_KEEP),
        made(SECRETS, secret("b")),
        _relabel(x="y"),
        delete(f"{SECRETS}/b", compared=False),
        watch(f"{_W}&resourceVersion={{rv}}", 3),
    ),
    "only one object": exchange(
        made(SECRETS, secret("a"), keep=_KEEP),
        made(SECRETS, secret("b")),
        _relabel(x="y"),
        watch(f"{_W}&resourceVersion={{rv}}&fieldSelector=metadata.name%3Da", 1),
    ),
    "until the time is over": exchange(*secrets("a"), watch(f"{_W}&timeoutSeconds=1")),
    "by the old path": exchange(*secrets("a"), watch("/api/v1/watch/namespaces/{ns}/secrets", 1)),
    "one object by the old path": exchange(*secrets("a", "b"), watch("/api/v1/watch/namespaces/{ns}/secrets/a", 1)),
    "a word for yes": exchange(*secrets("a"), watch(f"{SECRETS}?watch=1", 1)),
    "no watch": exchange(*secrets("a"), get(f"{SECRETS}?watch=false")),
    "an object that comes into a selection": exchange(
        made(SECRETS, secret("a"), keep=_KEEP),
        _relabel(x="y"),
        _relabel(x="y", z="1"),
        _relabel(x="other"),
        _relabel(x="y"),
        delete(f"{SECRETS}/a", compared=False),
        watch(f"{_W}&resourceVersion={{rv}}&labelSelector=x%3Dy", 5),
    ),
    "an object that comes into a selection, live": exchange(
        made(SECRETS, secret("a")),
        watch(f"{_W}&labelSelector=x%3Dy", 3),
        _relabel(x="y"),
        _relabel(x="y", z="1"),
        _relabel(x=None),
    ),
    "a phase that is left": exchange(
        made(PODS, pod("a"), keep=_KEEP),
        patch(f"{PODS}/a/status", {"status": {"phase": "Running"}}, compared=False),
        patch(f"{PODS}/a/status", {"status": {"phase": "Failed"}}, compared=False),
        watch(f"{PODS}?watch=true&resourceVersion={{rv}}&fieldSelector=status.phase%3DRunning", 2),
    ),
    "initial events": exchange(*secrets("a", "b"), watch(_INITIAL, 3)),
    "initial events at version 0": exchange(
        *secrets("a"), cached(SECRETS, 1), watch(f"{_INITIAL}&resourceVersion=0", 2)
    ),
    "initial events at a version": exchange(
        made(SECRETS, secret("a"), keep=_KEEP),
        made(SECRETS, secret("b")),
        cached(SECRETS, 2),
        watch(f"{_INITIAL}&resourceVersion={{rv}}", 3),
    ),
    "initial events of a selection": exchange(
        made(SECRETS, labelled("a", x="y")), made(SECRETS, secret("b")), watch(f"{_INITIAL}&labelSelector=x%3Dy", 2)
    ),
    "initial events of Pods": exchange(made(PODS, pod("a")), watch(_INITIAL.replace("/secrets", "/pods"), 2)),
    "initial events of nothing": exchange(watch(_INITIAL, 1)),
    "initial events and then changes": exchange(
        *secrets("a"), watch(_INITIAL, 4), _relabel(x="y"), delete(f"{SECRETS}/a", compared=False)
    ),
    "initial events without bookmarks": exchange(
        *secrets("a"),
        watch(f"{_W}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"),
    ),
    "no initial events": exchange(
        *secrets("a"),
        watch(f"{_W}&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", 1),
        made(SECRETS, secret("b")),
    ),
    "initial events without a match": exchange(watch(f"{_W}&sendInitialEvents=true")),
    "initial events with a wrong match": exchange(
        watch(f"{_W}&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1")
    ),
    "a match without initial events": exchange(watch(f"{_W}&resourceVersionMatch=NotOlderThan")),
    "an unknown match": exchange(watch(f"{_W}&sendInitialEvents=true&resourceVersionMatch=Roughly")),
    "a bad label selector": exchange(watch(f"{_W}&labelSelector=a%20b")),
    "a bad field selector": exchange(watch(f"{_W}&fieldSelector=a")),
    "an unknown field": exchange(watch(f"{_W}&fieldSelector=spec.x%3Dy")),
    "a time that is no number": exchange(watch(f"{_W}&timeoutSeconds=x")),
    "as Tables": exchange(*secrets("a", "b"), watch(_W, 2, TABLE)),
    "as Tables with whole objects": exchange(*secrets("a"), watch(f"{_W}&includeObject=Object", 1, TABLE)),
    "as metadata": exchange(*secrets("a"), watch(_W, 1, PARTIAL)),
    "initial events as Tables": exchange(*secrets("a"), watch(_INITIAL, 2, TABLE)),
    "initial events as metadata": exchange(*secrets("a"), watch(_INITIAL, 2, PARTIAL)),
    "as YAML": exchange(*secrets("a"), watch(_W, 1, "application/yaml")),
    "a deletion with a finalizer": exchange(
        made(SECRETS, secret("a", metadata={"finalizers": ["example.com/hold"]}), keep=_KEEP),
        delete(f"{SECRETS}/a", compared=False),
        patch(f"{SECRETS}/a", {"metadata": {"finalizers": None}}, compared=False),
        watch(f"{_W}&resourceVersion={{rv}}", 2),
    ),
    "a kind that does not exist": exchange(watch("/api/v1/namespaces/{ns}/things?watch=true")),
    "a kind that cannot be watched": exchange(
        watch("/apis/authentication.k8s.io/v1/selfsubjectreviews?watch=true&timeoutSeconds=1")
    ),
    "a list with a watch's options": exchange(get(f"{MAPS}?allowWatchBookmarks=true&labelSelector=none")),
}

OWN_FAULTS: dict[str, Exchange] = {
    "watch from a version that is no number": exchange(watch(f"{_W}&resourceVersion=x")),
}
