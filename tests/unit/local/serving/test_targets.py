"""What the path of a request names."""

from __future__ import annotations

from functools import partial

import pytest

from edgewright.local.serving import target
from edgewright.local.serving.target import Target

CORE, APPS = partial(Target, group="", version="v1"), partial(Target, group="apps", version="v1")


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/api/v1/pods", CORE(plural="pods")),
        ("/api/v1/nodes/n", CORE(plural="nodes", name="n")),
        ("/api/v1/nodes/n/status", CORE(plural="nodes", name="n", subresource="status")),
        ("/api/v1/namespaces", CORE(plural="namespaces")),
        ("/api/v1/namespaces/n", CORE(plural="namespaces", name="n")),
        ("/api/v1/namespaces/n/status", CORE(plural="namespaces", name="n", subresource="status")),
        ("/api/v1/namespaces/n/finalize", CORE(plural="namespaces", name="n", subresource="finalize")),
        ("/api/v1/namespaces/n/pods", CORE(plural="pods", namespace="n")),
        ("/api/v1/namespaces/n/pods/p", CORE(plural="pods", namespace="n", name="p")),
        ("/api/v1/namespaces/n/pods/p/log", CORE(plural="pods", namespace="n", name="p", subresource="log")),
        (
            "/api/v1/namespaces/n/pods/p/proxy/a/b",
            CORE(plural="pods", namespace="n", name="p", subresource="proxy", trailing="a/b"),
        ),
        ("/apis/apps/v1/deployments", APPS(plural="deployments")),
        ("/apis/apps/v1/namespaces/n/deployments/d", APPS(plural="deployments", namespace="n", name="d")),
        ("/apis/apps/v1/namespaces/n/status", APPS(plural="status", namespace="n")),
        ("/api/v1/watch/pods", CORE(plural="pods", watch=True)),
        ("/api/v1/watch/namespaces/n/pods/p", CORE(plural="pods", namespace="n", name="p", watch=True)),
        ("/api/v1/watch", CORE(plural="watch")),
        ("/api/v1/pods/", CORE(plural="pods")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_path_names_a_collection_an_object_or_a_part_of_one(path: str, named: Target) -> None:
    assert target.parse(path) == named


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/apps/v1", "/version", "/api/v1//pods", "/other/v1/pods"]
)
def test_other_paths_name_no_kind(path: str) -> None:
    assert target.parse(path) is None
