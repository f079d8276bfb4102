"""What a release consists of, from its manifest's text."""

from __future__ import annotations

import yaml

from edgewright.controllers.chart.manifests import MAX_SHOWN, TypeName, as_applied, parts, shown

MANIFEST = """
---
# Source: a
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: other, labels: {a: b}}
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: two, annotations: {helm.sh/resource-policy: Keep}}}
---
- a list
---
kind: Nameless
metadata: {}
---
"""
SECRET = """apiVersion: v1
kind: Secret
metadata: {name: key}
data: {password: aGVsbG8=}
stringData: {token: hidden-text}
"""


def test_lists_are_taken_apart_and_what_is_no_object_is_left_out() -> None:
    found = parts(MANIFEST)
    assert [(str(each), each.namespace, each.kept) for each in found] == [
        ("Deployment web", "other", False),
        ("ConfigMap one", "", False),
        ("ConfigMap two", "", True),
    ]
    assert found[0].type == TypeName("apps/v1", "Deployment")


def test_an_object_is_marked_as_helm_marks_it() -> None:
    body = as_applied(parts(MANIFEST)[0], release="shop", namespace="default", target="other")
    assert body["metadata"] == {
        "name": "web",
        "namespace": "other",
        "labels": {"a": "b", "app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "default"},
    }
    assert "namespace" not in as_applied(parts(MANIFEST)[1], release="s", namespace="d", target="")["metadata"]


def test_no_secret_is_shown() -> None:
    text = shown(f"---\n{MANIFEST}\n---\n{SECRET}\n---\nkind: ConfigMap\nmetadata: {{name: Secret}}\n")
    assert "aGVsbG8" not in text
    assert "hidden-text" not in text
    documents = [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]
    secret = next(each for each in documents if each.get("kind") == "Secret")
    assert secret["data"] == {"password": "(hidden)"}
    assert "# Source: a" in text, "what holds no Secret is shown as it is"


def test_no_secret_in_a_list_is_shown() -> None:
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(SECRET), "odd"]})
    assert "aGVsbG8" not in shown(listed)


def test_an_endless_manifest_is_cut() -> None:
    text = shown("a: b\n" * MAX_SHOWN)
    assert len(text) < MAX_SHOWN + 100
    assert text.endswith("shows all of it\n")
