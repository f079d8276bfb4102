"""Exchanges about CustomResourceDefinitions themselves: making, changing and removing them, names and versions."""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.bodies import PARTIAL, TABLE
from tests.cluster.differential.custom_kinds import (
    DEFINITIONS,
    NUMBER,
    OWN_GROUP,
    TEXT,
    Object,
    definition,
    established,
    gone,
    installed,
    refused,
    removed,
    served,
    struct,
    version,
)
from tests.cluster.differential.exchange import (
    APPLY,
    JSON_PATCH,
    STRATEGIC,
    Answer,
    Exchange,
    Step,
    delete,
    edited,
    exchange,
    get,
    made,
    patch,
    post,
    put,
)

GROUP = OWN_GROUP
SCHEMA = struct({"spec": struct({"a": TEXT})})
SMALL = definition(
    "smalls", "Small", version(schema=SCHEMA), singular="small", shortNames=["sm", "sml"], categories=["all", "some"]
)
PLACE = f"{DEFINITIONS}/smalls.{GROUP}"
THERE = [made(DEFINITIONS, SMALL), get(PLACE, until=established, compared=False)]
"""Steps after which the definition is there; the second answer is the definition."""
SMALLS = f"/apis/{GROUP}/v1/namespaces/{{ns}}/smalls"


def small(name: str = "a", *, metadata: Object | None = None, **spec: Any) -> Object:
    """An object of the kind."""
    about = {"name": name, **(metadata or {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Small", "metadata": about, "spec": spec}


def there(*steps: Step) -> Exchange:
    """An exchange about a definition that is there; it goes afterwards."""
    return exchange(*THERE, *steps, delete(PLACE, compared=False), stored=False)


def changed(**changes: Any) -> Exchange:
    """An update of a definition that is there."""
    return there(put(PLACE, edited(1, **changes)))


CREATED: dict[str, Exchange] = {
    "a dry run": exchange(post(f"{DEFINITIONS}?dryRun=All", SMALL), get(PLACE)),
    "one": exchange(post(DEFINITIONS, SMALL), get(PLACE, until=established), *removed(SMALL), stored=False),
    "twice": there(post(DEFINITIONS, SMALL)),
    "and its status": there(get(f"{PLACE}/status")),
    "as a table": there(get(PLACE, TABLE)),
    "as metadata": there(get(PLACE, PARTIAL)),
    "by label": there(
        patch(PLACE, {"metadata": {"labels": {"of": "{ns}"}}}), get(f"{DEFINITIONS}?labelSelector=of%3D{{ns}}")
    ),
    "by name": there(get(f"{DEFINITIONS}?fieldSelector=metadata.name%3Dsmalls.{GROUP}")),
    "by a field that cannot be selected": exchange(get(f"{DEFINITIONS}?fieldSelector=spec.group%3Dx")),
    "its group": there(get(f"/apis/{GROUP}", until=served)),
    "its version": there(get(f"/apis/{GROUP}/v1", until=served)),
    "a version that is not there": there(get(f"/apis/{GROUP}/v9")),
    "a kind that is not there": there(get(f"/apis/{GROUP}/v1/namespaces/{{ns}}/larges")),
    "an unknown field, strictly": exchange(post(f"{DEFINITIONS}?fieldValidation=Strict", {**SMALL, "extra": 1})),
    "an unknown field with a warning": exchange(
        post(f"{DEFINITIONS}?fieldValidation=Warn&dryRun=All", {**SMALL, "extra": 1})
    ),
    "by apply": exchange(
        patch(f"{PLACE}?fieldManager=one", SMALL, APPLY),
        get(PLACE, until=established, compared=False),
        patch(f"{PLACE}?fieldManager=two", {**SMALL, "spec": {**SMALL["spec"], "scope": "Cluster"}}, APPLY),
        patch(f"{PLACE}?fieldManager=one", definition("smalls", "Small", version(schema=SCHEMA)), APPLY),
        *removed(SMALL),
        stored=False,
    ),
}

CHANGED: dict[str, Exchange] = {
    "nothing": changed(),
    "without a version": changed(metadata__resourceVersion=None),
    "with an old version": changed(metadata__resourceVersion="1"),
    "the scope": changed(spec__scope="Cluster"),
    "the group": changed(spec__group="other.example.io"),
    "the plural": changed(spec__names__plural="larges"),
    "the kind": changed(spec__names__kind="Large"),
    "the name": changed(metadata__name="x.y.z"),
    "no version any more": changed(spec__versions=None),
    "the stored version": there(
        patch(
            PLACE,
            [
                {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
                {"op": "add", "path": "/spec/versions/-", "value": version("v2", SCHEMA, storage=True)},
            ],
            JSON_PATCH,
        ),
        patch(PLACE, [{"op": "remove", "path": "/spec/versions/0"}], JSON_PATCH),
    ),
    "the short names": there(
        put(PLACE, edited(1, spec__names__shortNames=["smx"])),
        get(PLACE, until=lambda answer: answer["status.acceptedNames"].get("shortNames") == ["smx"]),
    ),
    "a label by strategic merge": there(patch(PLACE, {"metadata": {"labels": {"x": "y"}}}, STRATEGIC)),
    "a field by a JSON patch": there(
        patch(
            PLACE,
            [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/extra", "value": NUMBER}],
            JSON_PATCH,
        )
    ),
    "the status": there(
        put(
            f"{PLACE}/status",
            edited(1, spec__scope="Cluster", metadata__labels={"a": "b"}, status__storedVersions=["v0", "v1"]),
        )
    ),
    "the status to nothing": there(patch(f"{PLACE}/status", {"status": {"storedVersions": []}})),
    "the status by apply": there(
        patch(
            f"{PLACE}/status?fieldManager=one",
            {
                **{name: SMALL[name] for name in ("apiVersion", "kind", "metadata")},
                "status": {"storedVersions": ["v1"]},
            },
            APPLY,
        )
    ),
}

_LOOSE = version()
BAD: dict[str, Exchange] = {
    title: exchange(post(f"{DEFINITIONS}?dryRun=All", body))
    for title, body in {
        "nothing but a name": {**SMALL, "spec": {}},
        "no names": {**SMALL, "spec": {"group": GROUP, "scope": "Namespaced", "versions": [_LOOSE]}},
        "no versions": {**SMALL, "spec": {**SMALL["spec"], "versions": None}},
        "a scope that is a number": {**SMALL, "spec": {**SMALL["spec"], "scope": 5}},
        "another name": {**SMALL, "metadata": {"name": f"larges.{GROUP}"}},
        "no structure": definition("smalls", "Small", version(schema=struct({"spec": {"properties": {"a": TEXT}}}))),
        "a default of another type": definition(
            "smalls", "Small", version(schema=struct({"a": {**TEXT, "default": 5}}))
        ),
        "a rule that does not compile": definition(
            "smalls",
            "Small",
            version(schema=struct({"a": TEXT}, **{"x-kubernetes-validations": [{"rule": "self.b == 1"}]})),
        ),
        "a pattern that is none": definition(
            "smalls", "Small", version(schema=struct({"a": {**TEXT, "pattern": "("}}))
        ),
        "an unknown format": definition("smalls", "Small", version(schema=struct({"a": {**TEXT, "format": "odd"}}))),
        "a protected group": definition("smalls", "Small", group="{ns}.k8s.io"),
        "unknown fields kept by the old way": {**SMALL, "spec": {**SMALL["spec"], "preserveUnknownFields": True}},
        "a schema of labels": definition(
            "smalls", "Small", version(schema=struct({"metadata": struct({"labels": {"type": "object"}})}))
        ),
        "a column of an unknown type": definition(
            "smalls",
            "Small",
            version(additionalPrinterColumns=[{"name": "X", "type": "text", "jsonPath": "spec.x"}]),
        ),
        "replicas outside the spec": definition(
            "smalls",
            "Small",
            version(subresources={"scale": {"specReplicasPath": ".metadata.x", "statusReplicasPath": "status.r"}}),
        ),
        "selectable fields that are not there": definition(
            "smalls",
            "Small",
            version(schema=SCHEMA, selectableFields=[{"jsonPath": ".spec.b"}, {"jsonPath": ".metadata.name"}]),
        ),
        "two stored versions": definition("smalls", "Small", _LOOSE, version("v2", storage=True)),
        "a version twice": definition("smalls", "Small", _LOOSE, version(storage=False)),
        "a kind that is its list": definition("smalls", "Small", listKind="Small"),
        "a short name with a dot": definition("smalls", "Small", shortNames=["a.b"]),
        "a warning of a version that is not deprecated": definition(
            "smalls", "Small", version(deprecationWarning="do not")
        ),
    }.items()
}

_FIRST = definition("firsts", "First", singular="first", shortNames=["fi"])
_SECOND = definition("seconds", "First", singular="first", shortNames=["fi", "se"], listKind="FirstList")
_THIRD = definition("thirds", "Third", shortNames=["fi", "th"])
NAMES: dict[str, Exchange] = {
    "taken by another": exchange(
        *installed(_FIRST),
        post(DEFINITIONS, _SECOND),
        get(f"{DEFINITIONS}/seconds.{GROUP}", until=refused),
        get(f"/apis/{GROUP}/v1/namespaces/{{ns}}/seconds"),
        get(f"/apis/{GROUP}/v1", until=served),
        *removed(_FIRST),
        get(f"{DEFINITIONS}/seconds.{GROUP}", until=established),
        *removed(_SECOND),
        stored=False,
    ),
    "a short name that is taken": exchange(
        *installed(_FIRST),
        post(DEFINITIONS, _THIRD),
        get(f"{DEFINITIONS}/thirds.{GROUP}", until=refused),
        *removed(_THIRD),
        *removed(_FIRST),
        stored=False,
    ),
    "of built-in kinds in another group": exchange(
        *installed(definition("pods", "Pod", singular="pod", shortNames=["po"])),
        get(f"{DEFINITIONS}/pods.{GROUP}"),
        *removed(definition("pods", "Pod")),
        stored=False,
    ),
}

_HELD = small("held", metadata={"finalizers": ["example.com/hold"]}, a="x")


def _going(reason: str) -> Any:
    def said(answer: Answer) -> bool:
        conditions = answer["status.conditions"] if answer.code == 200 else []
        return any(each["type"] == "Terminating" and each["reason"] == reason for each in conditions)

    return said


DELETED: dict[str, Exchange] = {
    "with its objects": exchange(
        *THERE,
        get(f"/apis/{GROUP}/v1/smalls", until=served, compared=False),
        made(SMALLS, small()),
        delete(PLACE),
        get(PLACE, until=gone),
        get(f"{SMALLS}/a", until=gone),
        get(f"/apis/{GROUP}", until=gone),
        stored=False,
    ),
    "with an object that is held": exchange(
        *THERE,
        get(f"/apis/{GROUP}/v1/smalls", until=served, compared=False),
        made(SMALLS, _HELD),
        delete(PLACE, compared=False),
        get(PLACE, until=_going("InstanceDeletionInProgress")),
        post(SMALLS, small("new")),
        get(f"{SMALLS}/held", until=lambda answer: "deletionTimestamp" in answer["metadata"]),
        patch(f"{SMALLS}/held", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
        patch(f"{SMALLS}/held", {"metadata": {"finalizers": None}}),
        get(PLACE, until=gone),
        stored=False,
    ),
    "with a finalizer": exchange(
        *THERE,
        patch(PLACE, {"metadata": {"finalizers": ["example.com/hold"]}}, compared=False),
        delete(PLACE, compared=False),
        get(PLACE, until=_going("InstanceDeletionCompleted")),
        delete(PLACE),
        patch(PLACE, {"metadata": {"finalizers": None}}),
        get(PLACE, until=gone),
        stored=False,
    ),
    "a dry run": there(delete(f"{PLACE}?dryRun=All"), get(PLACE)),
}

_V1 = version("v1", struct({"spec": struct({"a": TEXT, "old": TEXT, "d": {**TEXT, "default": "one"}})}))
_V2 = version("v2", struct({"spec": struct({"a": TEXT, "new": NUMBER, "e": {**TEXT, "default": "two"}})}))
_BETA = version("v1beta1", struct({"spec": struct({"a": TEXT})}), deprecated=True)
_ALPHA = version("v2alpha1", deprecated=True, deprecationWarning='use "something" else')
_MANY_GROUP = "versions.differential.example.io"
_MANY = definition("manys", "Many", _V1, _BETA, _V2, _ALPHA, group=_MANY_GROUP)
_SEVERAL = installed(_MANY)


def _many(at: str, group: str = _MANY_GROUP, **spec: Any) -> Object:
    return {"apiVersion": f"{group}/{at}", "kind": "Many", "metadata": {"name": "a"}, "spec": spec}


def _manys(at: str, name: str = "", group: str = _MANY_GROUP) -> str:
    return f"/apis/{group}/{at}/namespaces/{{ns}}/manys{'/' if name else ''}{name}"


def several(*steps: Step) -> Exchange:
    """An exchange about a kind of several versions, which the exchanges share."""
    return exchange(*_SEVERAL, *steps)


_OWN_MANY = definition("manys", "Many", _V1, _BETA, _V2, _ALPHA)
VERSIONS: dict[str, Exchange] = {
    "in discovery": several(
        get(f"{DEFINITIONS}/manys.{_MANY_GROUP}"),
        get(f"/apis/{_MANY_GROUP}", until=served),
        get(f"/apis/{_MANY_GROUP}/v2alpha1", until=served),
    ),
    "written in the stored one": several(
        post(_manys("v1"), _many("v1", a="x", old="o")),
        get(_manys("v1", "a")),
        get(_manys("v2", "a")),
        get(_manys("v1beta1", "a")),
        get(_manys("v2")),
    ),
    "written in another": several(
        post(_manys("v2"), _many("v2", a="x", new=5)), get(_manys("v2", "a")), get(_manys("v1", "a"))
    ),
    "written in a deprecated one": several(
        post(_manys("v1beta1"), _many("v1beta1", a="x")),
        get(_manys("v2alpha1", "a")),
        patch(_manys("v1beta1", "a"), {"spec": {"a": "y"}}),
        delete(_manys("v1beta1", "a")),
    ),
    "written in one and patched in another": several(
        made(_manys("v1"), _many("v1", a="x", old="o")),
        patch(f"{_manys('v2', 'a')}?fieldManager=other", {"spec": {"new": 7}}),
        patch(f"{_manys('v2', 'a')}?fieldManager=one", _many("v2", new=7), APPLY),
        get(_manys("v1", "a")),
    ),
    "written in one and labelled in another": several(
        made(_manys("v1"), _many("v1", a="x", old="o")),
        patch(f"{_manys('v1beta1', 'a')}?fieldManager=other", {"metadata": {"labels": {"a": "b"}}}),
        patch(f"{_manys('v1beta1', 'a')}?fieldManager=one", _many("v1beta1", a="z"), APPLY),
        patch(f"{_manys('v1beta1', 'a')}?fieldManager=one&force=true", _many("v1beta1", a="z"), APPLY),
        get(_manys("v1", "a")),
    ),
    "of the body and of the path": several(post(_manys("v2"), _many("v1", a="x"))),
    "of a body of another kind": several(post(_manys("v2"), {**_many("v2", a="x"), "kind": "Other"})),
    "of a body of another group": several(post(_manys("v2"), {**_many("v2", a="x"), "apiVersion": "other.io/v2"})),
    "of a body without one": several(post(_manys("v2"), {"kind": "Many", "metadata": {"name": "a"}})),
    "and another stored one": exchange(
        *installed(_OWN_MANY),
        made(_manys("v1", group=GROUP), _many("v1", GROUP, a="x", old="o")),
        patch(
            f"{DEFINITIONS}/manys.{GROUP}",
            [
                {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
                {"op": "replace", "path": "/spec/versions/2/storage", "value": True},
            ],
            JSON_PATCH,
        ),
        get(_manys("v1", "a", GROUP)),
        get(_manys("v2", "a", GROUP)),
        *removed(_OWN_MANY),
        stored=False,
    ),
    "and one that is served no more": exchange(
        *installed(_OWN_MANY),
        patch(
            f"{DEFINITIONS}/manys.{GROUP}",
            [{"op": "replace", "path": "/spec/versions/2/served", "value": False}],
            JSON_PATCH,
        ),
        get(f"/apis/{GROUP}/v2", until=gone),
        get(_manys("v2", group=GROUP), until=gone),
        get(f"/apis/{GROUP}", until=lambda answer: "/v2'" not in str(answer.body)),
        *removed(_OWN_MANY),
        stored=False,
    ),
}

_LATER = version(
    schema=struct(
        {
            "spec": struct(
                {
                    "a": {**TEXT, "maxLength": 3},
                    "c": {
                        **TEXT,
                        "maxLength": 9,
                        "x-kubernetes-validations": [{"rule": "self == 'right'", "message": "must be right"}],
                    },
                    "d": {**TEXT, "default": "later"},
                    "n": struct({"m": {**NUMBER, "default": 1}}, default={}),
                }
            )
        }
    )
)
_LOOSE_GROUP = "loose.differential.example.io"
_LOOSES = f"/apis/{_LOOSE_GROUP}/v1/looses"


def _loose(group: str = _LOOSE_GROUP, **fields: Any) -> Object:
    return {"apiVersion": f"{group}/v1", "kind": "Loose", "metadata": {"name": "{ns}"}, **fields}


_ONCE_LOOSE = definition("looses", "Loose", scope="Cluster")
_ONCE = f"/apis/{GROUP}/v1/looses/{{ns}}"
SCHEMAS: dict[str, Exchange] = {
    "that becomes tighter": exchange(
        *installed(_ONCE_LOOSE),
        made(
            f"/apis/{GROUP}/v1/looses",
            _loose(GROUP, spec={"a": "long text", "junk": 1, "c": "wrong"}, top=2, status={"any": [1]}),
        ),
        patch(
            f"{DEFINITIONS}/looses.{GROUP}",
            [{"op": "replace", "path": "/spec/versions/0", "value": _LATER}],
            JSON_PATCH,
            compared=False,
        ),
        get(_ONCE, until=lambda answer: "top" not in answer.body),
        patch(_ONCE, {"metadata": {"labels": {"a": "b"}}}),
        patch(_ONCE, {"spec": {"a": "also long"}}),
        patch(_ONCE, {"spec": {"c": "also wrong"}}),
        patch(_ONCE, {"spec": {"a": "ok", "c": "right"}}),
        *removed(_ONCE_LOOSE),
        stored=False,
    ),
}
_FREE = installed(definition("looses", "Loose", group=_LOOSE_GROUP, scope="Cluster"))
SCHEMAS |= {
    title: exchange(*_FREE, *steps)
    for title, steps in {
        "of anything": [
            post(_LOOSES, _loose(a=[1, {"b": None}], spec=5, status=["x"])),
            get(f"{_LOOSES}/{{ns}}"),
            put(f"{_LOOSES}/{{ns}}", edited(-1, spec={"a": None}, status="y")),
        ],
        "of anything, as a table": [
            made(_LOOSES, _loose()),
            get(f"{_LOOSES}?fieldSelector=metadata.name%3D{{ns}}", TABLE),
        ],
        "of an object in no namespace, in one": [
            post(f"/apis/{_LOOSE_GROUP}/v1/namespaces/{{ns}}/looses", _loose()),
            post(_LOOSES, {**_loose(), "metadata": {"name": "{ns}", "namespace": "default"}}),
        ],
        "without a status of its own": [
            made(_LOOSES, _loose()),
            get(f"{_LOOSES}/{{ns}}/status"),
            patch(f"{_LOOSES}/{{ns}}", {"status": {"a": 1}}),
        ],
    }.items()
}
