"""Tables are compared with the real API server's: the same objects at the same moment, the same cells.

Every table is asked for with its objects, which then go through our functions; only descriptions may differ. Ages are
compared at each second between the question and the answer.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edgewright.local import tables
from edgewright.local.served import Served
from edgewright.runtime.objects import Kind
from tests.cluster.table_columns import (
    BAD_PATHS,
    BROKEN,
    GROUP,
    PATH_COLUMNS,
    PATHED,
    PATHS,
    PLAIN_KIND,
    SUBJECTS,
    TYPED,
    VALUES,
    kind_of,
)
from tests.cluster.table_shapes import (
    CONFIG_MAP,
    DEFINITION,
    DELETED_PODS,
    EVENT,
    EVENTS,
    KINDS,
    NAMESPACE,
    NEW_EVENT,
    NEW_EVENTS,
    NODE,
    NODES,
    PLAIN,
    POD,
    PODS,
    SERVICE,
    SERVICES,
    SLICE,
    SLICES,
    Body,
)
from tests.harness import ControlPlane, wait_until


class World:
    """The real API server with every object of this file in it."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster = cluster
        self.namespace = cluster.create_namespace("tables")
        self.dying = cluster.create_namespace("tables-dying")

    def create(self, kind: Kind, name: str, body: Body, status: Body | None = None, **metadata: Any) -> None:
        body = {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **metadata}}
        self.cluster.request("POST", kind.path(self.namespace), body)
        if status:
            path = kind.path(self.namespace, name, "status")
            self.cluster.request("PATCH", path, {"status": status}, content_type="application/merge-patch+json")

    def table(self, path: str, **settings: str) -> tuple[Body, list[datetime]]:
        """The answer, and each moment at which it may have been given."""
        lines, moments = self._ask(path, **settings)
        return lines[0], moments

    def watch(self, path: str, **settings: str) -> tuple[list[Body], list[datetime]]:
        """The events of a watch until it ends by itself, and each moment at which they may have been made."""
        return self._ask(path, watch="true", **settings)

    def _ask(
        self, path: str, *, kind: str = "Table", version: str = "v1", **query: str
    ) -> tuple[list[Body], list[datetime]]:
        target = path + "?" + "&".join(f"{name}={value}" for name, value in query.items())
        accept = f"application/json;as={kind};v={version};g=meta.k8s.io"
        connection = http.client.HTTPSConnection("127.0.0.1", self.cluster.port, context=self.cluster.admin_tls)
        before = datetime.now(UTC)
        try:
            connection.request("GET", target, headers={"Accept": accept})
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
        finally:
            connection.close()
        after = datetime.now(UTC)
        seconds = int((after - before).total_seconds()) + 1
        moments = [before + timedelta(seconds=each) for each in range(seconds)]
        return [json.loads(line) for line in body.splitlines()], [*moments, after]


@pytest.fixture(scope="module")
def world(cluster: ControlPlane) -> Iterator[World]:
    """Everything that the tests look at, created once."""
    world = World(cluster)
    for kind_and_name, body in PLAIN.items():
        world.create(*kind_and_name, body)
    for name, (spec, status) in PODS.items():
        world.create(POD, name, {"spec": spec}, status)
    for name, (spec, status) in DELETED_PODS.items():
        world.create(POD, name, {"spec": spec}, status, finalizers=["e.x/hold"])
        cluster.request("DELETE", POD.path(world.namespace, name))
    for name, (spec, ingress) in SERVICES.items():
        world.create(SERVICE, name, {"spec": spec}, {"loadBalancer": {"ingress": ingress}} if ingress else None)
    for name, body in SLICES.items():
        world.create(SLICE, name, body)
    for name, (labels, spec, status) in NODES.items():
        world.create(NODE, f"tables-{name}", {"spec": spec}, status, labels=labels)
    for name, body in EVENTS.items():
        subject = {**body["involvedObject"], "namespace": world.namespace}
        world.create(EVENT, name, {**body, "involvedObject": subject})
    for name, body in NEW_EVENTS.items():
        world.create(NEW_EVENT, name, {**body, "regarding": {**body["regarding"], "namespace": world.namespace}})
    held = {"metadata": {"name": "held", "finalizers": ["e.x/hold"]}}
    cluster.request("POST", CONFIG_MAP.path(world.dying), held)
    cluster.request("DELETE", f"/api/v1/namespaces/{world.dying}")
    kinds = [PATHED, TYPED, PLAIN_KIND, *BROKEN.values()]
    _install(world, kinds)
    yield world
    _remove(world, kinds)


def _install(world: World, kinds: list[Body]) -> None:
    for body in kinds:
        world.cluster.request("POST", DEFINITION.path(), body)
    for body in kinds:
        _wait_served(world, kind_of(body).path(world.namespace))
    for body in (PATHED, *BROKEN.values()):
        for name, content in SUBJECTS.items():
            world.create(kind_of(body), name, content)
    for at, value in enumerate(VALUES.values()):
        world.create(kind_of(TYPED), f"value-{at}", {"spec": {"value": value}})
    world.create(kind_of(PLAIN_KIND), "one", {"spec": {"replicas": 3}, "status": {"replicas": 2}})


def _wait_served(world: World, path: str) -> None:
    wait_until(lambda: world.cluster.exists(path), what=f"{path} is served")


def _remove(world: World, kinds: list[Body]) -> None:
    free = {"metadata": {"finalizers": None}}
    for name in DELETED_PODS:
        world.cluster.request(
            "PATCH", POD.path(world.namespace, name), free, content_type="application/merge-patch+json"
        )
    world.cluster.request(
        "PATCH", CONFIG_MAP.path(world.dying, "held"), free, content_type="application/merge-patch+json"
    )
    for body in kinds:
        world.cluster.request("DELETE", DEFINITION.path(name=body["metadata"]["name"]))
    for name in NODES:
        world.cluster.request("DELETE", NODE.path(name=f"tables-{name}"))
    world.cluster.request("DELETE", f"/api/v1/namespaces/{world.namespace}")


def served(kind: Kind, columns: Any = None) -> Served:
    """As much of a served kind as a table needs."""
    found, row = columns or tables.builtin_columns(kind)
    return Served(
        kind=kind,
        singular=kind.kind.lower(),
        list_kind=f"{kind.kind}List",
        storage=kind.resource,
        storage_api_version=kind.api_version,
        columns=found,
        row=row,
    )


def check(theirs: Body, moments: list[datetime], kind: Served, **settings: Any) -> None:
    """That our table of the objects in theirs is theirs, at one of these moments a cell, descriptions apart."""
    items = [row["object"] for row in theirs["rows"] or ()]
    settings = {"include": "Object", "list_metadata": theirs["metadata"], **settings}
    ours = [tables.table(kind, items, now=now, **settings) for now in moments]
    for each in (theirs, *ours):
        for column in each["columnDefinitions"] or ():
            assert column.pop("description")
    rows = [each.pop("rows") for each in ours]
    wanted = theirs.pop("rows")
    assert ours[0] == theirs
    if wanted is None:
        assert rows[0] is None
        return
    for at, row in enumerate(wanted):
        cells = row.pop("cells")
        for column, cell in enumerate(cells):
            possible = [each[at]["cells"][column] for each in rows]
            header = theirs["columnDefinitions"][column]["name"] if theirs["columnDefinitions"] else column
            assert (type(cell), cell) in [(type(each), each) for each in possible], f"{header} in row {at}: {possible}"
        assert len(rows[0][at].pop("cells")) == len(cells)
        assert rows[0][at] == row


SHAPES = [
    *PLAIN,
    *((POD, name) for name in (*PODS, *DELETED_PODS)),
    *((SERVICE, name) for name in SERVICES),
    *((SLICE, name) for name in SLICES),
    *((NODE, f"tables-{name}") for name in NODES),
    *((EVENT, name) for name in (*EVENTS, *NEW_EVENTS)),
    *((NEW_EVENT, name) for name in (*EVENTS, *NEW_EVENTS)),
]


@pytest.mark.parametrize(("kind", "name"), SHAPES, ids=[f"{kind.resource} {name}" for kind, name in SHAPES])
def test_an_object_is_shown_as_the_real_server_shows_it(world: World, kind: Kind, name: str) -> None:
    theirs, moments = world.table(kind.path(world.namespace, name), includeObject="Object")
    assert len(theirs["rows"]) == 1
    check(theirs, moments, served(kind))


def test_a_namespace_is_shown_while_it_goes_away(world: World) -> None:
    theirs, moments = world.table(NAMESPACE.path(name=world.dying), includeObject="Object")
    assert theirs["rows"][0]["cells"][1] == "Terminating"
    check(theirs, moments, served(NAMESPACE))


@pytest.mark.parametrize("kind", [*KINDS, DEFINITION], ids=str)
def test_a_list_is_shown_as_the_real_server_shows_it(world: World, kind: Kind) -> None:
    theirs, moments = world.table(kind.path(world.namespace), includeObject="Object")
    assert theirs["rows"]
    check(theirs, moments, served(kind))


@pytest.mark.parametrize("kind", [*KINDS, DEFINITION], ids=str)
def test_a_list_of_nothing_is_shown_as_the_real_server_shows_it(world: World, kind: Kind) -> None:
    theirs, moments = world.table(kind.path(world.namespace), labelSelector="nobody%3Dhas-it")
    assert not theirs["rows"]
    check(theirs, moments, served(kind))


def test_a_part_of_a_list_says_how_to_get_the_next(world: World) -> None:
    theirs, moments = world.table(POD.path(world.namespace), includeObject="Object", limit="2")
    assert theirs["metadata"]["continue"]
    assert theirs["metadata"]["remainingItemCount"]
    check(theirs, moments, served(POD))


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("include", ["Metadata", "None", "Object", ""])
def test_a_row_carries_what_was_asked_for_of_its_object(world: World, include: Any, version: str) -> None:
    path = POD.path(world.namespace, "completed")
    pod = world.cluster.request("GET", path)
    theirs, moments = world.table(path, version=version, includeObject=include)
    ours = tables.table(
        served(POD),
        [pod],
        now=moments[0],
        include=include or "Metadata",
        list_metadata=theirs["metadata"],
        api_version=f"meta.k8s.io/{version}",
    )
    assert ours["rows"][0]["object"] == theirs["rows"][0]["object"]
    assert ours["rows"][0]["conditions"] == theirs["rows"][0]["conditions"]
    assert ours["apiVersion"] == theirs["apiVersion"]
    assert ours["rows"][0].keys() == theirs["rows"][0].keys()


@pytest.mark.parametrize("kind", [POD, DEFINITION, kind_of(TYPED)], ids=str)
def test_headers_come_with_the_first_event_of_a_watch_alone(world: World, kind: Kind) -> None:
    events, moments = world.watch(kind.path(world.namespace), includeObject="Object", timeoutSeconds="1")
    columns = tables.custom_columns(TYPED["spec"]["versions"][0]["additionalPrinterColumns"])
    assert len(events) > 2
    for at, event in enumerate(events):
        assert event["type"] == "ADDED"
        check(event["object"], moments, served(kind, columns if kind.group == GROUP else None), no_headers=at > 0)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_metadata_alone_is_the_real_servers(world: World, version: str) -> None:
    path = CONFIG_MAP.path(world.namespace)
    whole = world.cluster.request("GET", f"{path}?limit=1")
    api_version = f"meta.k8s.io/{version}"
    theirs, _ = world.table(f"{path}/both", kind="PartialObjectMetadata", version=version)
    assert tables.partial(world.cluster.request("GET", f"{path}/both"), api_version=api_version) == theirs
    theirs, _ = world.table(path, kind="PartialObjectMetadataList", version=version, limit="1")
    ours = tables.partial_list(whole["items"], list_metadata=whole["metadata"], api_version=api_version)
    ours["metadata"]["resourceVersion"] = theirs["metadata"]["resourceVersion"]
    ours["metadata"]["continue"] = theirs["metadata"]["continue"]
    assert ours == theirs


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize("column", PATHS)
def test_a_path_finds_what_the_real_server_finds(pathed: dict[str, Body], name: str, column: str) -> None:
    at = 1 + list(PATHS).index(column)
    cells, obj = pathed[name]["cells"], pathed[name]["object"]
    _, row = tables.custom_columns(PATH_COLUMNS)
    assert row(obj, datetime.now(UTC))[at] == cells[at]


@pytest.fixture(scope="module")
def pathed(world: World) -> dict[str, Body]:
    """The rows of the objects on which paths are tried."""
    theirs, _ = world.table(kind_of(PATHED).path(world.namespace), includeObject="Object")
    assert len(theirs["columnDefinitions"]) == 1 + len(PATHS), "the real server refuses a path"
    return {row["cells"][0]: row for row in theirs["rows"]}


@pytest.mark.parametrize("value", VALUES)
def test_a_value_becomes_the_cell_that_the_real_server_makes_of_it(world: World, value: str) -> None:
    name = f"value-{list(VALUES).index(value)}"
    theirs, moments = world.table(kind_of(TYPED).path(world.namespace, name), includeObject="Object")
    check(
        theirs,
        moments,
        served(kind_of(TYPED), tables.custom_columns(TYPED["spec"]["versions"][0]["additionalPrinterColumns"])),
    )


@pytest.mark.parametrize("name", BAD_PATHS)
def test_a_path_that_the_real_server_refuses_ends_the_columns(world: World, name: str) -> None:
    body = BROKEN[name]
    theirs, moments = world.table(kind_of(body).path(world.namespace), includeObject="Object")
    assert [column["name"] for column in theirs["columnDefinitions"]] == ["Name", "before"]
    columns = tables.custom_columns(body["spec"]["versions"][0]["additionalPrinterColumns"])
    check(theirs, moments, served(kind_of(body), columns))


def test_a_kind_without_columns_shows_its_age(world: World) -> None:
    theirs, moments = world.table(kind_of(PLAIN_KIND).path(world.namespace), includeObject="Object")
    check(theirs, moments, served(kind_of(PLAIN_KIND), tables.custom_columns(None)))


def test_a_scale_is_shown_as_the_real_server_shows_it(world: World) -> None:
    theirs, moments = world.table(kind_of(PLAIN_KIND).path(world.namespace, "one", "scale"), includeObject="Object")
    check(theirs, moments, served(kind_of(PLAIN_KIND), tables.scale_columns()))
