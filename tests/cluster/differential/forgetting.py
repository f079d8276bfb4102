"""Exchanges about what a server has forgotten: 410 to a watch, to a list at a version and to its continuation.

They are about Secrets, of which no controller makes one.
"""

from __future__ import annotations

from .exchange import FORGET, Exchange, exchange, get, post, watch

_SECRETS = "/api/v1/namespaces/{ns}/secrets"
_MADE = [post(_SECRETS, {"metadata": {"name": name}}, compared=False) for name in ("one", "two", "three")]
_VERSION = get(_SECRETS, keep={"then": "metadata.resourceVersion"}, compared=False)
_AFTER = post(_SECRETS, {"metadata": {"name": "after"}}, compared=False)

FORGOTTEN: dict[str, Exchange] = {
    "a watch from a version that is forgotten": exchange(
        *_MADE, _VERSION, _AFTER, FORGET, watch(f"{_SECRETS}?watch=true&resourceVersion={{then}}&timeoutSeconds=5")
    ),
    "a watch with bookmarks from a version that is forgotten": exchange(
        *_MADE,
        _VERSION,
        _AFTER,
        FORGET,
        watch(f"{_SECRETS}?watch=true&resourceVersion={{then}}&allowWatchBookmarks=true&timeoutSeconds=5"),
    ),
    "a list exactly at a version that is forgotten": exchange(
        *_MADE, _VERSION, _AFTER, FORGET, get(f"{_SECRETS}?resourceVersion={{then}}&resourceVersionMatch=Exact")
    ),
    "a page exactly at a version that is forgotten": exchange(
        *_MADE, _VERSION, _AFTER, FORGET, get(f"{_SECRETS}?limit=1&resourceVersion={{then}}&resourceVersionMatch=Exact")
    ),
    "a list that goes on where it is forgotten": exchange(
        *_MADE,
        get(f"{_SECRETS}?limit=1", keep={"more": "metadata.continue"}, compared=False),
        _AFTER,
        FORGET,
        get(f"{_SECRETS}?limit=1&continue={{more}}", keep={"rest": "metadata.continue"}),
        get(f"{_SECRETS}?limit=1&continue={{rest}}"),
    ),
}
"""By title."""
