"""Exchanges about creating objects: names, metadata, dry runs, unknown fields, formats."""

from __future__ import annotations

from tests.cluster.differential.bodies import (
    LEASES,
    MAPS,
    NAMESPACES,
    PARTIAL,
    PODS,
    SECRETS,
    TABLE,
    named,
    pod,
    secret,
)
from tests.cluster.differential.exchange import Exchange, exchange, get, made, post

_YAML = "application/yaml"
_UID = "11111111-2222-3333-4444-555555555555"
_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": _UID}

CREATES: dict[str, Exchange] = {
    "a ConfigMap": exchange(post(MAPS, named("a", data={"k": "v"}))),
    "the same name twice": exchange(made(MAPS, named("a")), post(MAPS, named("a"))),
    "a generated name": exchange(post(MAPS, {"metadata": {"generateName": "some-"}})),
    "a generated name from a long one": exchange(post(MAPS, {"metadata": {"generateName": "x" * 70}})),
    "a generated name from a bad one": exchange(post(MAPS, {"metadata": {"generateName": "Some_"}})),
    "a name and a generated one": exchange(post(MAPS, {"metadata": {"name": "a", "generateName": "some-"}})),
    "no name at all": exchange(post(MAPS, {"metadata": {}})),
    "no metadata": exchange(post(MAPS, {"data": {"a": "b"}})),
    "a name that is none": exchange(post(MAPS, named("Not A Name"))),
    "a long name": exchange(post(MAPS, named("a" * 254))),
    "another namespace than that of the path": exchange(post(MAPS, named("a", metadata={"namespace": "other"}))),
    "a namespace in the path and in the body": exchange(post(MAPS, named("a", metadata={"namespace": "{ns}"}))),
    "a namespace that is not there": exchange(post("/api/v1/namespaces/{ns}-none/configmaps", named("a"))),
    "no namespace": exchange(post("/api/v1/configmaps", named("a"))),
    "an object without a namespace in one": exchange(
        post(NAMESPACES, named("{ns}-x", metadata={"namespace": "other"}))
    ),
    "all metadata that a client may give": exchange(
        post(
            MAPS,
            named(
                "a",
                metadata={
                    "labels": {"a": "b", "example.com/c": ""},
                    "annotations": {"d": "e\nf"},
                    "finalizers": ["example.com/hold"],
                    "ownerReferences": [_OWNER],
                },
            ),
        )
    ),
    "metadata that only the server gives": exchange(
        post(
            MAPS,
            named(
                "a",
                metadata={
                    "uid": _UID,
                    "creationTimestamp": "2020-01-01T00:00:00Z",
                    "generation": 7,
                    "selfLink": "/x",
                    "deletionTimestamp": "2020-01-01T00:00:00Z",
                    "deletionGracePeriodSeconds": 5,
                },
            ),
        )
    ),
    "managed fields of another": exchange(
        post(
            MAPS,
            named(
                "a",
                data={"k": "v"},
                metadata={
                    "managedFields": [
                        {
                            "manager": "other",
                            "operation": "Update",
                            "apiVersion": "v1",
                            "fieldsType": "FieldsV1",
                            "fieldsV1": {"f:data": {"f:k": {}}},
                        }
                    ]
                },
            ),
        )
    ),
    "a bad label": exchange(post(MAPS, named("a", metadata={"labels": {"-a": "d e"}}))),
    "a label with two prefixes": exchange(post(MAPS, named("a", metadata={"labels": {"f/g/h": ""}}))),
    "bad annotations": exchange(post(MAPS, named("a", metadata={"annotations": {"a b": "c"}}))),
    "too many annotations": exchange(post(MAPS, named("a", metadata={"annotations": {"a": "x" * 262145}}))),
    "bad finalizers": exchange(post(MAPS, named("a", metadata={"finalizers": ["x y", "orphan", "z"]}))),
    "two exclusive finalizers": exchange(
        post(MAPS, named("a", metadata={"finalizers": ["orphan", "foregroundDeletion"]}))
    ),
    "an incomplete owner": exchange(post(MAPS, named("a", metadata={"ownerReferences": [{"kind": "ConfigMap"}]}))),
    "two controllers": exchange(
        post(
            MAPS,
            named(
                "a",
                metadata={
                    "ownerReferences": [
                        {**_OWNER, "controller": True},
                        {**_OWNER, "name": "p", "uid": _UID.replace("1", "6"), "controller": True},
                    ]
                },
            ),
        )
    ),
    "an Event as owner": exchange(
        post(MAPS, named("a", metadata={"ownerReferences": [{**_OWNER, "kind": "Event", "name": "e"}]}))
    ),
    "a dry run": exchange(post(f"{MAPS}?dryRun=All", named("a")), get(f"{MAPS}/a")),
    "a dry run of a taken name": exchange(made(MAPS, named("a")), post(f"{MAPS}?dryRun=All", named("a"))),
    "a dry run with a generated name": exchange(post(f"{MAPS}?dryRun=All", {"metadata": {"generateName": "some-"}})),
    "a dry run of a bad object": exchange(post(f"{MAPS}?dryRun=All", named("a", data={"a b": "c"}))),
    "an unknown dry run": exchange(post(f"{MAPS}?dryRun=Some", named("a"))),
    "an empty dry run": exchange(post(f"{MAPS}?dryRun=", named("a")), get(f"{MAPS}/a")),
    "a manager": exchange(post(f"{MAPS}?fieldManager=me", named("a", data={"k": "v"}))),
    "a long manager": exchange(post(f"{MAPS}?fieldManager={'m' * 129}", named("a"))),
    "a manager that cannot be printed": exchange(post(f"{MAPS}?fieldManager=a%07b", named("a"))),
    "as YAML": exchange(post(MAPS, "metadata: {name: a}\ndata:\n  k: 'v'\n  t: '2020-01-01'\n", _YAML)),
    "YAML with types that do not fit": exchange(post(MAPS, "metadata: {name: a}\ndata: {k: 1, y: yes}\n", _YAML)),
    "answered as YAML": exchange(post(MAPS, named("a", data={"k": "v"}), accept=_YAML)),
    "answered as a Table": exchange(post(MAPS, named("a", data={"k": "v"}), accept=TABLE)),
    "answered as metadata": exchange(post(MAPS, named("a", data={"k": "v"}), accept=PARTIAL)),
    "empty and null fields": exchange(
        post(
            MAPS,
            named(
                "a",
                data={},
                binaryData=None,
                immutable=None,
                metadata={"labels": {}, "annotations": None, "finalizers": []},
            ),
        )
    ),
    "with its kind": exchange(post(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **named("a")})),
    "an object whose name differs in the case of fields": exchange(post(MAPS, {"Metadata": {"name": "a"}})),
}


def _validated(how: str, body: object, path: str = MAPS) -> Exchange:
    return exchange(post(f"{path}?fieldValidation={how}", body))  # type: ignore[arg-type]  # any JSON may be sent


_UNKNOWN = {**named("a"), "colour": "red", "size": {"x": 1}}
_DEEP = pod("a", containers=[{"name": "c", "image": "i", "colour": "red"}], colour=[1])
_TWICE = '{"metadata":{"name":"a","name":"a"},"data":{"k":"1","k":"2"},"data":{"k":"3"}}'
_MANY = {**named("a"), **{f"x{number:02}": 1 for number in range(30)}}

VALIDATION: dict[str, Exchange] = {
    **{f"unknown fields, {how}": _validated(how, _UNKNOWN) for how in ("Strict", "Warn", "Ignore")},
    **{f"unknown fields deep in a Pod, {how}": _validated(how, _DEEP, PODS) for how in ("Strict", "Warn", "Ignore")},
    **{f"fields twice, {how}": _validated(how, _TWICE) for how in ("Strict", "Warn", "Ignore")},
    **{f"unknown metadata, {how}": _validated(how, named("a", metadata={"x": 1})) for how in ("Strict", "Warn")},
    "many unknown fields, Strict": _validated("Strict", _MANY),
    "many unknown fields, Warn": _validated("Warn", _MANY),
    "unknown fields and a bad object, Strict": _validated("Strict", {**_UNKNOWN, "data": {"a b": "c"}}),
    "unknown fields and a bad object, Warn": _validated("Warn", {**_UNKNOWN, "data": {"a b": "c"}}),
    "unknown fields in YAML, Strict": exchange(
        post(f"{MAPS}?fieldValidation=Strict", "metadata: {name: a}\ncolour: red\n", _YAML)
    ),
    "fields twice in YAML, Strict": exchange(
        post(f"{MAPS}?fieldValidation=Strict", "metadata: {name: a}\ndata: {k: a}\ndata: {k: b}\n", _YAML)
    ),
    "fields twice in YAML, Warn": exchange(
        post(f"{MAPS}?fieldValidation=Warn", "metadata: {name: a}\ndata: {k: a}\ndata: {k: b}\n", _YAML)
    ),
    "a word that is none": _validated("Loosely", named("a")),
    "an empty word": _validated("", _UNKNOWN),
    "the case of a field, Strict": _validated("Strict", {**named("a"), "Data": {"k": "v"}}),
    "unknown fields in a Lease, Strict": _validated("Strict", named("a", spec={"holder": "me"}), LEASES),
    "a deprecated field": exchange(post(SECRETS, secret("a")), post(PODS, pod("a", serviceAccount="default"))),
}

OWN_FAULTS: dict[str, Exchange] = {
    "create with a version": exchange(post(MAPS, named("a", metadata={"resourceVersion": "5"}))),
}
