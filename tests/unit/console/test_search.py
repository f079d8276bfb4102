"""Search and order in lists: which words are found where, pages that miss nothing; the same with and without cache."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.console import lists, search
from edgewright.console.kind_cache import Shown, shown
from edgewright.console.problems import Refusal
from tests.harness import wait_until_async
from tests.unit.console.consoles import IN_DEFAULT, WIDGETS, Answer, Portal, consoles, device, widget
from tests.unit.console.requests_seen import requests_seen


def found(name: str, *, namespace: str = "", created: str = "2026-01-01T00:00:00Z", **rest: Any) -> Shown:
    """An object as it is kept."""
    labels = rest.pop("labels", {})
    about = {"name": name, "namespace": namespace, "labels": labels, "resourceVersion": "1"}
    body = {"metadata": {**about, "creationTimestamp": created}, **rest}
    return shown(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ("", True),
        ("thermo", True),
        ("THERMO", True),
        ("north", True),
        ("site=north", True),
        ("thermo north 1.2", True),
        ("esp32", True),
        ("1.2.0", True),
        ("berlin", True),  # the namespace
        ("thermo south", False),
        ("hidden", False),  # it stands deeper
        ("7", False),  # it is a number
    ],
)
def test_every_word_is_found_in_the_name_the_labels_or_a_text_of_spec_and_status(query: str, fits: bool) -> None:
    spec = {"type": "esp32", "deep": {"text": "hidden"}, "list": ["hidden"], "count": 7}
    one = found("thermo", namespace="berlin", labels={"site": "north"}, spec=spec, status={"version": "1.2.0"})
    assert search.has(one, search.words_of(query)) is fits


@pytest.mark.parametrize("odd", [{"spec": "a text"}, {"spec": [1]}, {"status": 3}, {}])
def test_an_object_of_any_shape_can_be_searched(odd: dict[str, Any]) -> None:
    one = found("thermo", **odd)
    assert search.has(one, ["thermo"])
    assert not search.has(one, ["text"])


OBJECTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.text("xyz-", min_size=1, max_size=3), st.integers(0, 3)),
    unique_by=lambda each: each[:2],
    max_size=12,
)


@given(OBJECTS, st.sampled_from(["", *search.SORTS]), st.integers(1, 5), st.sampled_from(["", "x", "y"]))
def test_pages_hold_every_object_once_and_in_order(
    given: list[tuple[str, str, int]], sort: str, limit: int, query: str
) -> None:
    objects = [found(name, namespace=of, created=f"2026-01-0{day + 1}T00:00:00Z") for of, name, day in given]
    objects.sort(key=lambda each: search.rank(each, ""))
    seen: list[Shown] = []
    after: search.Rank = ()
    while True:
        page = asyncio.run(search.page_of(objects, query=query, sort=sort, after=after, limit=limit))
        seen += page.items
        if not page.following:
            break
        assert (len(page.items), page.remaining > 0) == (limit, True)
        after = search.place_of(page.following, sort)
    wanted = [each for each in objects if query in each.metadata.name]
    ranked = sorted(wanted, key=lambda each: search.rank(each, sort), reverse=sort.startswith("-"))
    assert seen == ranked


@pytest.mark.parametrize(
    ("token", "sort"),
    [
        ("console.", ""),
        ("console.!!!", ""),
        ("console.e30", ""),
        ("console.ü", ""),
        (search.token("", ()), ""),
        (search.token("name", ("a", "b")), "-name"),
        ("eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "name"),
    ],
)
def test_a_place_that_is_none_or_another_lists_is_refused(token: str, sort: str) -> None:
    with pytest.raises(Refusal, match="the parameter continue"):
        search.place_of(token, sort)


# --- over HTTP ------------------------------------------------------------------------------------------------------


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [each["metadata"]["name"] for each in answer.body["items"]]


async def until_known(portal: Portal, version: str) -> None:
    """Waits until the cache has heard of the version that was written past the console last."""

    async def known() -> bool:
        return any(
            each.get("status", {}).get("version") == version
            for each in (await portal("GET", "/api/v1/devices")).body["items"]
        )

    await wait_until_async(known, what=f"version {version} is known")


@pytest.mark.parametrize("cached", [False, True])
async def test_a_list_is_searched_and_ordered(tmp_path: Path, cached: bool) -> None:
    async with consoles(tmp_path, shared_cache=cached) as portal:
        for number, name in enumerate(("b", "a", "c")):
            await device(portal, name, version=f"1.{number}", labels={"site": "north" if name != "a" else "south"})
        await until_known(portal, "1.2")
        with requests_seen() as seen:
            for query, wanted in (
                ("q=north", ["b", "c"]),
                ("q=north%201.2", ["c"]),
                ("q=ESP32S3&sort=-name", ["c", "b", "a"]),
                ("sort=name", ["a", "b", "c"]),
                ("q=nowhere", []),
                ("q=%20", ["a", "b", "c"]),
                ("q=north&labelSelector=site%3Dsouth", []),
            ):
                assert names(await portal("GET", f"/api/v1/devices?{query}")) == wanted, query
        assert any(method == "GET" for method, _ in seen) is not cached
        first = await portal("GET", "/api/v1/devices?q=north&sort=-name&limit=1")
        assert (names(first), first.body["metadata"]["remainingItemCount"]) == (["c"], 1)
        place = quote(first.body["metadata"]["continue"])
        assert names(await portal("GET", f"/api/v1/devices?q=north&sort=-name&limit=1&continue={place}")) == ["b"]


async def test_a_foreign_kind_is_searched_as_the_caller(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        for name in ("one", "two"):
            assert (await portal("PUT", f"{IN_DEFAULT}/{name}", widget(name))).status == 201
        assert names(await portal("GET", f"/api/v1/{WIDGETS}?q=tw")) == ["two"]
        assert names(await portal("GET", f"{IN_DEFAULT}?sort=-name")) == ["two", "one"]
        assert names(await portal("GET", f"{IN_DEFAULT}?sort=-name&fieldSelector=metadata.name%3Done")) == ["one"]
        assert (await portal("GET", f"{IN_DEFAULT}?q=tw", token="wrong")).status == 401


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("sort=size", "the parameter sort must be one of name, -name, created, -created"),
        (f"q={'x' * 257}", "the parameter q is too long"),
        ("continue=console.x", "the parameter continue is no place in a list"),
        ("q=a&continue=abc", "the parameter continue is a place in another list"),
    ],
)
async def test_a_search_that_makes_no_sense_is_refused(tmp_path: Path, query: str, told: str) -> None:
    async with consoles(tmp_path) as portal:
        answer = await portal("GET", f"/api/v1/devices?{query}")
        assert (answer.status, told in answer.body["detail"]) == (400, True), answer.body


async def test_only_so_much_is_read_to_search_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "MAX_READ", 1)
    async with consoles(tmp_path) as portal:
        for name in ("one", "two"):
            await portal("PUT", f"{IN_DEFAULT}/{name}", widget(name))
        answer = await portal("GET", f"/api/v1/{WIDGETS}?q=one")
        assert (answer.status, "name a namespace or labels" in answer.body["detail"]) == (400, True), answer.body
