"""JSONPath as people use it with kubectl: each expression and what it gives."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.cli.jsonpath import OutOfBounds, Template, find

POD: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x", "site": "north"}},
    "spec": {"ports": [80, 443, 8080], "on": True, "none": None},
    "items": [
        {"name": "one", "count": 1, "tags": ["p"]},
        {"name": "two", "count": 2, "broken": True},
        {"name": "three", "count": 3},
    ],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.metadata.name}", "a"),
        (".metadata.name", "a"),
        ("metadata.name", "a"),
        ("{$.metadata.name}", "a"),
        ("{.metadata.labels.app\\.kubernetes\\.io/name}", "x"),
        ("{.metadata.labels['app.kubernetes.io/name']}", "x"),
        ('{.metadata.labels["site"]}', "north"),
        ("{.spec.ports[0]}", "80"),
        ("{.spec.ports[-1]}", "8080"),
        ("{.spec.ports[0,2]}", "80 8080"),
        ("{.spec.ports[0:2]}", "80 443"),
        ("{.spec.ports[1:]}", "443 8080"),
        ("{.spec.ports}", "[80,443,8080]"),
        ("{.spec.on}", "true"),
        ("{.spec.none}", "null"),
        ("{.spec.nothing.at.all}", ""),
        ("{.items[*].name}", "one two three"),
        ("{.items[?(@.count>1)].name}", "two three"),
        ("{.items[?(@.count>=3)].name}", "three"),
        ("{.items[?(@.count<2)].name}", "one"),
        ("{.items[?(@.count<=2)].name}", "one two"),
        ("{.items[?(@.name=='two')].count}", "2"),
        ('{.items[?(@.name!="two")].count}', "1 3"),
        ("{.items[?(@.broken)].name}", "two"),
        ("{.items[?(@.name<1)].name}", ""),
        ("{range .items[*]}{.name}={.count}{'\\n'}{end}", "one=1\ntwo=2\nthree=3\n"),
        ('{range .items[*]}{.name}{"\\t"}{end}done', "one\ttwo\tthree\tdone"),
        ("{..name}", "a one two three"),
        ("{.metadata.*}", 'a {"app.kubernetes.io/name":"x","site":"north"}'),
        ("{.items[0].tags[*]}", "p"),
        ("name: {.metadata.name}!", "name: a!"),
        ("{.items[0]['name']}", "one"),
        ("{range .items[0].tags[*]}{@}{end}", "p"),
        ("{range .items[0].tags[*]}{.}{end}", "p"),
    ],
)
def test_a_template_gives_what_kubectl_gives(template: str, text: str) -> None:
    assert Template(template).render(POD) == text


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{.a", "is not closed"),
        ("{.a[}", "cannot be read from"),
        ("{.a[?(b==1)]}", "the filter"),
        ("{.a[?(@.b==c)]}", "neither a text in quotes"),
        ("{end}", "without a"),
    ],
)
def test_a_template_that_cannot_be_read_is_refused(template: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Template(template)


def test_a_path_alone_gives_everything_at_it() -> None:
    assert find(".items[*].count", POD) == [1, 2, 3]


@pytest.mark.parametrize(
    ("template", "index"),
    [("{.spec.ports[9]}", 9), ("{.spec.ports[-4]}", -4), ("{range .items[0].tags[0,1]}{.}{end}", 1)],
)
def test_a_place_that_a_list_does_not_have_is_an_error_as_it_is_for_kubectl(template: str, index: int) -> None:
    with pytest.raises(OutOfBounds, match=f"array index out of bounds: index {index}, length "):
        Template(template).render(POD)


def test_a_column_of_a_table_is_empty_where_a_list_is_too_short() -> None:
    assert find(".spec.ports[9]", POD) == []
