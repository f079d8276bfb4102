"""Exchanges about server-side apply of built-in kinds: several managers, conflicts, lists with keys, taking over."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.differential.bodies import MAPS, NAMESPACES, SERVICES, TEMPLATES
from tests.cluster.differential.exchange import (
    APPLY,
    JSON_PATCH,
    STRATEGIC,
    Exchange,
    Step,
    exchange,
    get,
    patch,
    post,
)

Object = dict[str, Any]
_A = f"{MAPS}/a"
_LAST = "kubectl.kubernetes.io/last-applied-configuration"


def applied(place: str, body: Any, manager: str = "one", query: str = "", **settings: Any) -> Step:
    """A server-side apply."""
    return patch(f"{place}?fieldManager={manager}{query}", body, APPLY, **settings)


def config(metadata: Object | None = None, **data: Any) -> Object:
    """A ConfigMap as it is applied."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **(metadata or {})}, "data": data}


def there(*steps: Step) -> Exchange:
    """An exchange about a ConfigMap that `one` has applied."""
    return exchange(applied(_A, config(x="1", y="2"), compared=False), *steps)


_CLIENT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"annotations": {}, "name": "a", "namespace": "{ns}"},
    "data": {"k": "v", "l": "w"},
}
CLIENT_SIDE = {
    **_CLIENT,
    "metadata": {"name": "a", "annotations": {_LAST: json.dumps(_CLIENT, separators=(",", ":")) + "\n"}},
}

FIELDS: dict[str, Exchange] = {
    "a new object": exchange(applied(_A, config(x="1"))),
    "the same again": there(applied(_A, config(x="1", y="2"))),
    "the same by another": there(applied(_A, config(x="1"), "two")),
    "other fields by another": there(applied(_A, config(z="1"), "two")),
    "in conflict": there(applied(_A, config(x="9", y="8"), "two")),
    "in conflict over one field": there(applied(_A, config(x="9"), "two")),
    "by force": there(applied(_A, config(x="9"), "two", "&force=true")),
    "less than before": there(applied(_A, config(x="1"))),
    "less than before, which another has too": there(
        applied(_A, config(x="1"), "two", compared=False), applied(_A, config(y="2"))
    ),
    "nothing any more": there(applied(_A, {key: value for key, value in config().items() if key != "data"})),
    "over an update": there(
        patch(f"{_A}?fieldManager=updater", {"data": {"x": "9"}}, compared=False), applied(_A, config(x="1", y="2"))
    ),
    "a null": exchange(applied(_A, config(x=None, y="2"))),
    "labels, annotations and finalizers": there(
        applied(
            _A,
            config(
                {
                    "labels": {"l": "1"},
                    "annotations": {"n": "1"},
                    "finalizers": ["example.com/f"],
                }
            ),
            "two",
        ),
        applied(_A, config(), "two"),
    ),
    "in a dry run": there(applied(_A, config(z="9"), "two", "&dryRun=All"), get(_A)),
    "of a new object in a dry run": exchange(applied(_A, config(z="9"), "two", "&dryRun=All"), get(_A)),
    "in YAML": exchange(
        applied(
            _A, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {x: yes it is}\ndata:\n  k: 'true'\n"
        )
    ),
    "of a Namespace": exchange(
        applied(
            f"{NAMESPACES}/{{ns}}",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{ns}", "labels": {"x": "y"}}},
        )
    ),
}

_TWICE = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n  x: '1'\n"
REFUSED: dict[str, Exchange] = {
    "without a manager": there(applied(_A, config(x="9"), "")),
    "with a manager of a long name": there(applied(_A, config(x="9"), "x" * 129)),
    "with a manager that cannot be printed": there(applied(_A, config(x="9"), "a%07b")),
    "with managed fields": there(applied(_A, config({"managedFields": []}, x="1"))),
    "with another name": there(applied(_A, {**config(x="1"), "metadata": {"name": "b"}})),
    "without a name": there(applied(_A, {**config(x="1"), "metadata": {}})),
    "of a new object without a name": exchange(applied(_A, {**config(x="1"), "metadata": {}})),
    "without a kind": there(applied(_A, {"metadata": {"name": "a"}})),
    "of another kind": there(applied(_A, {**config(), "kind": "Secret"})),
    "of another version": there(applied(_A, {**config(), "apiVersion": "v2"})),
    "of an old version": there(applied(_A, config({"resourceVersion": "1"}, x="1"))),
    "with another uid": there(applied(_A, config({"uid": "00000000-0000-0000-0000-000000000000"}, x="1"))),
    "of a new object with a uid": exchange(applied(_A, config({"uid": "00000000-0000-0000-0000-000000000000"}, x="1"))),
    "of a new object with a version": exchange(applied(_A, config({"resourceVersion": "1"}, x="1"))),
    "with bad labels": there(applied(_A, config({"labels": {"l l": "1"}}))),
    "of a text": there(applied(_A, "just a text")),
    "of a list": there(applied(_A, "- a\n- b\n")),
    "of broken YAML": there(applied(_A, "a: [")),
    "of a field twice, strictly": there(applied(_A, _TWICE, query="&fieldValidation=Strict")),
    "of a field twice, with a warning": there(applied(_A, _TWICE, query="&fieldValidation=Warn")),
    "by force, which is no apply": there(patch(f"{_A}?force=true", {"data": {}})),
}

OWNERS: dict[str, Exchange] = {
    "reset": there(patch(_A, {"metadata": {"managedFields": [{}]}}), applied(_A, config(x="5"))),
    "cleared": there(
        patch(_A, [{"op": "replace", "path": "/metadata/managedFields", "value": []}], JSON_PATCH), get(_A)
    ),
    "removed": there(patch(_A, {"metadata": {"managedFields": None}})),
    "of an unknown operation": there(
        patch(
            _A,
            {"metadata": {"managedFields": [{"manager": "x", "operation": "Odd", "apiVersion": "v1", "fieldsV1": {}}]}},
        )
    ),
    "given to another": there(
        patch(
            _A,
            {
                "metadata": {
                    "managedFields": [
                        {
                            "manager": "x",
                            "operation": "Update",
                            "apiVersion": "v1",
                            "fieldsType": "FieldsV1",
                            "fieldsV1": {"f:data": {"f:x": {}}},
                        }
                    ]
                }
            },
        )
    ),
    "taken over from client-side apply": exchange(
        post(f"{MAPS}?fieldManager=kubectl-client-side-apply", CLIENT_SIDE),
        applied(_A, config(k="v2"), "kubectl"),
        patch(f"{_A}?fieldManager=kubectl-client-side-apply", {"data": {"k": "v3"}}, STRATEGIC),
    ),
    "of a plain object before its first apply": exchange(
        post(MAPS, config(x="1")),
        patch(_A, {"metadata": {"managedFields": [{}]}}, compared=False),
        applied(_A, config(x="2")),
        applied(_A, config(x="2"), "one", "&force=true"),
    ),
}

_S = f"{SERVICES}/s"


def _service(**spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}


def _status(address: str, **fields: Any) -> Object:
    status = {"loadBalancer": {"ingress": [{"ip": address}]}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "status": status, **fields}


def with_service(*steps: Step) -> Exchange:
    """An exchange about a Service that `one` has applied."""
    first = applied(_S, _service(selector={"a": "b"}, ports=[{"name": "x", "port": 80}]), compared=False)
    return exchange(first, *steps)


_T = f"{TEMPLATES}/t"


def _template(*containers: Object, **spec: Any) -> Object:
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": list(containers), **spec}}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": pod}


def with_template(*steps: Step) -> Exchange:
    """An exchange about a PodTemplate that `one` has applied."""
    container = {"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}], "ports": [{"containerPort": 80}]}
    return exchange(applied(_T, _template(container), compared=False), *steps)


LISTS: dict[str, Exchange] = {
    "a Service": exchange(applied(_S, _service(selector={"a": "b"}, ports=[{"name": "x", "port": 80}]))),
    "another port": with_service(
        applied(_S, _service(ports=[{"name": "y", "port": 81, "protocol": "TCP"}]), "two"),
        applied(_S, _service(selector={"a": "b"})),
    ),
    "the same port": with_service(applied(_S, _service(ports=[{"name": "z", "port": 80, "targetPort": 8}]), "two")),
    "a selector, which is one": with_service(applied(_S, _service(selector={"c": "d"}), "two")),
    "a port that cannot be": with_service(applied(_S, _service(ports=[{"port": 99999}]), "two")),
    "the status of a Service": with_service(
        applied(f"{_S}/status", _status("10.0.0.1"), "balancer"),
        applied(f"{_S}/status", _status("10.0.0.2", spec={"selector": {"x": "y"}}), "balancer", "&force=true"),
    ),
    "another container": with_template(applied(_T, _template({"name": "b", "image": "y"}), "two")),
    "the same container": with_template(
        applied(_T, _template({"name": "a", "image": "z", "env": [{"name": "E", "value": "2"}]}), "two")
    ),
    "the same container by force": with_template(
        applied(_T, _template({"name": "a", "image": "z", "env": [{"name": "F", "value": "2"}]}), "two", "&force=true"),
        applied(_T, _template({"name": "a", "image": "z"}, nodeSelector={"a": "b"})),
    ),
    "containers in another order": with_template(
        applied(_T, _template({"name": "b", "image": "y"}, {"name": "a"}), "two"),
        applied(_T, _template({"name": "c", "image": "y"}, {"name": "b"}), "three"),
    ),
}
