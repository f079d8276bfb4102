"""Random operations on objects, as steps that can be sent to any API server.

`test_local_random` draws sequences of them with Hypothesis. What a step sends depends only on what was drawn and on
what the same server answered before, so both servers are asked the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

from hypothesis import strategies as st

from tests.cluster.differential.exchange import APPLY, JSON_PATCH, MERGE, Answer, Step, filled, get, post, put
from tests.cluster.differential.exchange import delete as deleted
from tests.cluster.differential.exchange import patch as patched
from tests.cluster.random_kinds import SORTS, Object, Sort, one, some

_FINALIZERS: tuple[list[str], ...] = (["example.com/hold"], ["example.com/hold", "example.com/other"], [])
_seldom = st.sampled_from([False] * 15 + [True])
_sometimes = st.sampled_from([False] * 3 + [True])

_metadata = some(
    labels=one({"l": "1"}, {"l": "2", "m": "3"}, {"l": None}, bad=({"bad key": "x"},)),
    annotations=one({"a": "1"}, {"b": "2"}, {}),
    finalizers=one(*_FINALIZERS, bad=(["bad"],)),
)
_plain_query = some(fieldManager=one("one", "two"))
_query = st.one_of(
    _plain_query,
    _plain_query,
    some(
        dryRun=one("All", bad=("x",)),
        fieldValidation=one("Strict", "Warn", "Ignore"),
        fieldManager=one("one", "two"),
    ),
)


def names(place: str) -> tuple[str, str]:
    """The two objects of a kind that a sequence is about."""
    return f"{place}-a", f"{place}-b"


def sequences(place: str) -> st.SearchStrategy[list[list[Step]]]:
    """Things to do one after the other, most of them with the same object; each takes a step or two.

    `place` makes names that no other sequence has.
    """
    kinds = st.lists(st.sampled_from(sorted(SORTS)), min_size=1, max_size=2, unique=True)
    return kinds.flatmap(lambda chosen: _sequence(place, [SORTS[name] for name in chosen]))


def _sequence(place: str, sorts: list[Sort]) -> st.SearchStrategy[list[list[Step]]]:
    kinds = [_created, _updated, _updated, _patched, _patched, _applied, _applied, _deleted, _cleared]
    ways = [way(place, sort) for sort in sorts for way in kinds]
    ways += [_scaled(place, sort) for sort in sorts if sort.scaled]
    begin = st.one_of([way(place, sorts[0]) for way in (_created, _applied)])
    return st.tuples(begin, st.lists(st.one_of(ways), min_size=4, max_size=14)).map(lambda both: [both[0], *both[1]])


def _names(place: str) -> st.SearchStrategy[str]:
    one, other = names(place)
    return st.sampled_from([one, one, one, other])


def _with_query(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query, safe='{}')}" if query else path


@st.composite
def _objects(draw: st.DrawFn, sort: Sort, name: str) -> Object:
    obj: Object = {"metadata": {**draw(_metadata), "name": name}, **draw(sort.fields)}
    if sort.status is not None and draw(_sometimes):
        obj["status"] = draw(sort.status)
    return {"apiVersion": sort.api_version, "kind": sort.kind, **obj}


@st.composite
def _created(draw: st.DrawFn, place: str, sort: Sort) -> list[Step]:
    name = draw(_names(place))
    obj = draw(_objects(sort, name))
    if draw(_seldom):
        obj["metadata"]["resourceVersion"] = "1"
    return [post(_with_query(sort.path, draw(_query)), obj)]


@st.composite
def _updated(draw: st.DrawFn, place: str, sort: Sort) -> list[Step]:
    """Reads an object and writes it back, changed, at its version, another one or none."""
    path = f"{sort.path}/{draw(_names(place))}"
    wanted = draw(_objects(sort, path.rpartition("/")[2]))
    status = False
    if sort.status is not None and not sort.upsert and draw(st.booleans()):
        status, wanted["status"] = True, draw(sort.status)
    version = draw(one("right", "none", bad=("old", "junk")))
    whole = draw(st.booleans())

    def body(seen: list[Answer]) -> Object:
        there = seen[-1].body if seen[-1].code == 200 else {"metadata": {}}
        about = {**there["metadata"], **wanted["metadata"]} if whole else dict(wanted["metadata"])
        about |= {"resourceVersion": _version(version, there)}
        if version == "none":
            del about["resourceVersion"]
        return {**(there if whole else {}), **wanted, "metadata": about}

    suffix = "/status" if status else ""
    return [get(path, compared=False), put(_with_query(path + suffix, draw(_query)), body)]


def _version(which: str, there: Object) -> str:
    current = str(there["metadata"].get("resourceVersion", "7"))
    return {"right": current, "none": "", "old": "1", "junk": "abc"}[which]


@st.composite
def _patched(draw: st.DrawFn, place: str, sort: Sort) -> list[Step]:
    path = f"{sort.path}/{draw(_names(place))}"
    media = draw(st.sampled_from([each for each in sort.patches if each != APPLY]))
    suffix = "/status" if sort.status is not None and draw(_sometimes) else ""
    query = draw(_query)
    if media == JSON_PATCH:
        places = (
            *sort.pointers,
            ("/metadata/labels", {"p": "q"}),
            ("/metadata/labels/l", "5"),
            ("/metadata/finalizers", []),
        )
        steps = []
        for _ in range(draw(st.integers(1, 3))):
            pointer, value = draw(st.sampled_from(places))
            steps.append({"op": draw(one("add", "replace", "remove", "test")), "path": pointer, "value": value})
        return [patched(_with_query(path + suffix, query), steps, JSON_PATCH)]
    obj = draw(_objects(sort, path.rpartition("/")[2]))
    for name in ("apiVersion", "kind"):
        if draw(st.booleans()):
            del obj[name]
    for name in [name for name in obj if name not in ("apiVersion", "kind", "metadata")]:
        if draw(_sometimes):
            obj[name] = None
    return [patched(_with_query(path + suffix, query), obj, media)]


@st.composite
def _applied(draw: st.DrawFn, place: str, sort: Sort) -> list[Step]:
    """Server-side apply by one of several managers."""
    name = draw(_names(place))
    obj = sort.applied(draw(_objects(sort, name)))
    suffix = ""
    if sort.status is not None and not sort.upsert and draw(_sometimes):
        suffix = "/status"
        obj = {each: obj[each] for each in ("apiVersion", "kind")} | {
            "metadata": {"name": name},
            "status": draw(sort.status),
        }
    query = {"fieldManager": draw(one("one", "two", "kubectl"))} | draw(
        some(force=one("true", "false"), dryRun=one("All"))
    )
    return [patched(_with_query(f"{sort.path}/{name}{suffix}", query), obj, APPLY)]


@st.composite
def _deleted(draw: st.DrawFn, place: str, sort: Sort) -> list[Step]:
    """A deletion, at its version, of its uid, or not."""
    path = f"{sort.path}/{draw(_names(place))}"
    options = draw(some(gracePeriodSeconds=one(0, 5), propagationPolicy=one("Background", bad=("x",))))
    dry = draw(_sometimes)
    if dry:
        options |= {"dryRun": ["All"]} | draw(some(propagationPolicy=one("Foreground", "Orphan")))
    uid, version = draw(one(None, "right", bad=("wrong",))), draw(one(None, "right", bad=("old",)))

    def body(seen: list[Answer]) -> Object:
        there = seen[-1].body if seen[-1].code == 200 else {"metadata": {}}
        conditions = {}
        if uid:
            conditions["uid"] = (
                there["metadata"].get("uid", "x") if uid == "right" else "11111111-2222-3333-4444-555555555555"
            )
        if version:
            conditions["resourceVersion"] = _version(version, there)
        return {"kind": "DeleteOptions", "apiVersion": "v1", **options} | (
            {"preconditions": conditions} if conditions else {}
        )

    return [get(path, compared=False), deleted(path, body)]


@st.composite
def _cleared(draw: st.DrawFn, place: str, sort: Sort) -> list[Step]:
    """A deletion of all objects with a label; those of other sequences are spared by another."""
    query = {"labelSelector": draw(one("l=1", "l", "l in (1,2)"))} | draw(some(dryRun=one("All")))
    if sort.kind == "Gadget":
        query["fieldSelector"] = f"metadata.name={names(place)[0]}"
    return [deleted(_with_query(sort.path, query))]


@st.composite
def _scaled(draw: st.DrawFn, place: str, sort: Sort) -> list[Step]:
    path = f"{sort.path}/{draw(_names(place))}/scale"
    replicas = draw(one(0, 2, 5, bad=(-1,)))
    if draw(st.booleans()):
        return [get(path), patched(_with_query(path, draw(_query)), {"spec": {"replicas": replicas}}, MERGE)]
    version = draw(one("right", "none", bad=("old",)))

    def body(seen: list[Answer]) -> Object:
        there = seen[-1].body if seen[-1].code == 200 else {"metadata": {"name": path.split("/")[-2]}}
        about = {**there["metadata"], "resourceVersion": _version(version, there)}
        return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": about, "spec": {"replicas": replicas}}

    return [get(path), put(path, body)]


def looked_at(steps: list[Step], place: str) -> list[Step]:
    """Reads every object that the steps may have made."""
    used = [sort for sort in SORTS.values() if any(step.path.startswith(sort.path) for step in steps)]
    return [get(f"{sort.path}/{name}") for sort in used for name in names(place)]


def cleaned_up(steps: list[Step], place: str) -> list[Step]:
    """Removes every object that the steps may have made, whatever holds it."""
    removed = []
    for step in looked_at(steps, place):
        removed += [
            patched(step.path, {"metadata": {"finalizers": None}}, compared=False),
            deleted(f"{step.path}?gracePeriodSeconds=0", compared=False),
        ]
    return removed


def placed(step: Step, place: str) -> Step:
    """The step with the names of one sequence."""
    names_of = {"place": place}
    body = step.body
    if callable(body):
        made = body
        return replace(step, path=filled(step.path, names_of), body=lambda seen: filled(made(seen), names_of))
    return replace(step, path=filled(step.path, names_of), body=filled(body, names_of))
