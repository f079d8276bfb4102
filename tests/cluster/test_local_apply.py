"""Server-side apply and the record of who owns what end as on the real server: both see the same writes, and agree.

Each write is made on the real server, and worked out by ours on the object that the real server had before it. Before
each write all entries are made old, so that it shows which of them got a new time.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from edgewright.local import builtin, custom
from edgewright.local.apply import apply, scale
from edgewright.local.apply import compile as compiled
from edgewright.local.apply.fieldtypes import FieldType
from edgewright.local.errors import Refusal
from edgewright.local.patch import merge_patch
from edgewright.runtime.objects import Kind
from tests.cluster.apply_sequences import SEQUENCES
from tests.cluster.apply_steps import (
    APPLY,
    CRD,
    GROUP,
    MERGE,
    NOW,
    OLD,
    Raw,
    Step,
    Subject,
)
from tests.harness import ControlPlane, RequestError, wait_until


@dataclass(frozen=True)
class World:
    """The real server and where objects are made."""

    cluster: ControlPlane
    namespace: str

    def collection(self, kind: Kind) -> str:
        return kind.path(self.namespace)


@functools.cache
def fields_of(kind: Kind) -> FieldType:
    """The fields of a kind as ours serves it."""
    served = [*builtin.served(), *custom.served(CRD)]
    (schema,) = (each.schema for each in served if each.kind == kind)
    return compiled(schema, builtin.definitions())


@pytest.fixture(scope="module")
def world(cluster: ControlPlane) -> Iterator[World]:
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    cluster.request("POST", crd, CRD)
    for each in ("v1", "v2"):
        path = f"/apis/{GROUP}/{each}/widgets"
        wait_until(functools.partial(cluster.exists, path), what=f"the real server serves {path}")
    namespace = cluster.create_namespace("apply")
    yield World(cluster, namespace)
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}")
    cluster.request("DELETE", f"{crd}/widgets.{GROUP}")


def sent(world: World, method: str, path: str, body: Any, **settings: Any) -> Raw:
    """The answer of the real server: an object, or the Status of a refusal."""
    try:
        answer: Raw = world.cluster.request(method, path, body, **settings)
    except RequestError as error:
        answer = json.loads(error.answer)
    return answer


def aged(world: World, path: str, live: Raw) -> Raw:
    """The object with old times. The real server ignores a change of times only, so entries go first and come back."""
    entries = live["metadata"].get("managedFields")
    if not entries:
        return live
    old = [{**entry, "time": OLD} if "time" in entry else entry for entry in entries]
    bare = {**live, "metadata": {**live["metadata"], "managedFields": [{}]}}
    answer: Raw = world.cluster.request("PUT", path, bare)
    answer["metadata"]["managedFields"] = old
    stored: Raw = world.cluster.request("PUT", path, answer)
    return stored


def essence(obj: Raw) -> Raw:
    """An object without what differs from write to write, and with times as old or new."""
    ignored = ("resourceVersion", "generation", "uid", "creationTimestamp", "managedFields")
    if obj["kind"] == "Service":
        # Each dry run is given another address.
        spec = {name: value for name, value in obj["spec"].items() if name not in ("clusterIP", "clusterIPs")}
        obj = {**obj, "spec": spec}
    metadata = {name: value for name, value in obj["metadata"].items() if name not in ignored}
    entries = [dict(entry) for entry in obj["metadata"].get("managedFields", [])]
    for entry in entries:
        if "time" in entry:
            entry["time"] = "old" if entry["time"] == OLD else "new"
    return {**obj, "metadata": {**metadata, "managedFields": entries}}


def refusal_essence(status: Raw) -> Raw:
    """A refusal without the order of its causes, which the real server draws by lot."""
    causes = sorted((c["field"], c["message"], c["reason"]) for c in (status.get("details") or {}).get("causes", ()))
    return {"code": status["code"], "reason": status.get("reason", ""), "message": status["message"], "causes": causes}


def nulls(value: Any, path: str = "") -> Iterator[str]:
    """Where there is a null in the fields of an object."""
    if value is None:
        yield path
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from nulls(inner, f"{path}.{name}" if path else name)


def body_of(step: Step, kind: Kind, live: Raw | None, namespace: str) -> Raw:
    """What a step sends."""
    if step.verb == "update":
        assert live is not None
        body = merge_patch(live, step.body)
        body["apiVersion"] = kind.api_version
        entries = live["metadata"].get("managedFields", [])
        if step.entries is not None:
            body["metadata"]["managedFields"] = step.entries(entries)
        return body
    if step.verb == "patch":
        return step.body
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **step.body}
    body["metadata"] = {"name": "one", **step.body.get("metadata", {})}
    if kind.kind == "Event":
        body["involvedObject"] = {"namespace": namespace}
    return body


@pytest.mark.repeated
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_of_writes_leaves_the_same_owners_as_on_the_real_server(world: World, name: str) -> None:
    subject, steps = SEQUENCES[name]
    path = f"{world.collection(subject.kind)}/one"
    live: Raw | None = None
    try:
        for step in steps:
            live = _step(world, subject, step, live)
    finally:
        unheld = {"metadata": {"finalizers": None}}
        sent(world, "PATCH", path, unheld, content_type=MERGE)
        sent(world, "DELETE", f"{path}?gracePeriodSeconds=0", {"propagationPolicy": "Background"})


def _step(world: World, subject: Subject, step: Step, live: Raw | None) -> Raw | None:
    kind = subject.kind
    if step.version:
        kind = Kind(group=kind.group, version=step.version, kind=kind.kind, plural=kind.plural)
    collection = world.collection(kind)
    whole = f"{collection}/one"
    if live is not None:
        live = aged(world, whole, world.cluster.request("GET", whole))
    path = f"{whole}/{step.subresource}" if step.subresource else whole
    body = body_of(step, kind, live, world.namespace)
    query = f"?fieldManager={step.manager}&fieldValidation=Ignore" + ("&force=true" if step.force else "")
    mine = _applied(world, subject, kind, step, live, body, path) if step.verb == "apply" else None
    match step.verb:
        case "create":
            real = sent(world, "POST", collection + query, body)
        case "update":
            real = sent(world, "PUT", path + query, body)
        case "patch":
            real = sent(world, "PATCH", path + query, body, content_type=MERGE)
        case _:
            real = sent(world, "PATCH", path + query, body, content_type=APPLY)
    if isinstance(mine, Refusal):
        assert refusal_essence(mine.status()) == refusal_essence(real)
        return live
    if real["kind"] == "Status":
        # What we merged is refused as the real server refuses what it merged itself.
        assert mine is not None, real
        if mine["kind"] == "Nulls":
            assert mine["paths"] == sorted(re.findall(r'([\w.]+): Invalid value: "null"', real["message"])), real
            return live
        assert (mine["kind"], mine.get("reason"), mine.get("message")) == ("Status", real["reason"], real["message"])
        return live
    if step.subresource == "scale":
        real = world.cluster.request("GET", whole)
    if mine is None:
        mine = _recorded(world, subject, kind, step, live, body, real)
    assert essence(mine) == essence(real)
    return real


def _reset(subject: Subject, step: Step) -> list[tuple[str, ...]]:
    if step.subresource:
        return [("metadata",), ("spec",)] if subject.kind.group == GROUP else [("spec",)]
    return [("status",)] if subject.status else []


def _recorded(world: World, subject: Subject, kind: Kind, step: Step, live: Raw | None, body: Raw, real: Raw) -> Raw:
    """The real result with the entries that we give it."""
    new = json.loads(json.dumps(real))
    new["metadata"].pop("managedFields", None)
    if step.verb != "patch" and "managedFields" in body["metadata"]:
        new["metadata"]["managedFields"] = body["metadata"]["managedFields"]
    if live is None:
        for name in subject.unowned:
            new["spec"].pop(name, None)
    if step.subresource == "scale":
        assert live is not None
        entries = scale.record_scale(
            live["metadata"].get("managedFields", []),
            before=live["spec"]["size"],
            after=real["spec"]["size"],
            path=("spec", "size"),
            manager=step.manager,
            api_version=kind.api_version,
            now=NOW,
        )
        return {**real, "metadata": {**real["metadata"], "managedFields": entries}}
    entries = apply.record(
        live,
        new,
        fields_of(kind),
        manager=step.manager,
        api_version=kind.api_version,
        subresource=step.subresource,
        now=NOW,
        reset=_reset(subject, step),
    )
    return {**real, "metadata": {**real["metadata"], "managedFields": entries}}


def _applied(
    world: World, subject: Subject, kind: Kind, step: Step, live: Raw | None, body: Raw, path: str
) -> Raw | Refusal:
    """What we make of an apply, as the real server would store it."""
    try:
        merged = apply.merge(
            live,
            body,
            fields_of(kind),
            kind=kind,
            name="one",
            manager=step.manager,
            force=step.force,
            subresource=step.subresource,
            now=NOW,
            reset=_reset(subject, step),
        )
    except Refusal as refusal:
        return refusal
    found = [path for path in sorted(nulls(merged.get("spec", {}), "spec")) if not path.startswith("spec.free.")]
    if kind.group and found:
        # The real server leaves a null where a custom object's map or list has lost all that was applied, and then
        # refuses its own result. An update with the same null would lose it and pass, so it tells nothing here.
        return {"kind": "Nulls", "paths": found}
    entries = merged["metadata"].pop("managedFields", [])
    if live is None:
        stored = sent(world, "POST", world.collection(kind) + "?dryRun=All&fieldValidation=Ignore", merged)
    else:
        stored = sent(world, "PUT", f"{path}?dryRun=All&fieldValidation=Ignore", merged)
    if stored["kind"] == "Status":
        return stored
    stored["metadata"]["managedFields"] = entries
    if live is not None:
        apply.keep_times(live, stored)
    return stored
