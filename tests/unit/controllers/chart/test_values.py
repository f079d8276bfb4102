"""The values of a release: the object's own, over those of ConfigMaps and Secrets, with overrides on top."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from edgewright.controllers.chart.policy import Source
from edgewright.controllers.chart.values import SourceError, merged, steps, values_in, with_overrides

CONFIG = Source(kind="ConfigMap", name="site")
SECRET = Source(kind="Secret", name="key", key="token", path="auth.token")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_object_goes_over_its_sources_and_overrides_over_all() -> None:
    found = merged(
        {"image": {"tag": "2"}, "list": [1]},
        [{"image": {"tag": "1", "name": "shop"}, "list": [1, 2]}, {"more": True}],
        {"image.name": "other"},
    )
    assert found == {"image": {"tag": "2", "name": "other"}, "list": [1], "more": True}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        (r"a\.b.c", ("a.b", "c")),
        ("hosts[1].name", ("hosts", 1, "name")),
        ("a[0][2]", ("a", 0, 2)),
    ],
)
def test_a_path_is_read_as_helm_reads_it(path: str, found: tuple[str | int, ...]) -> None:
    assert steps(path) == found


@pytest.mark.parametrize("path", ["", ".a", "a..b", "a.", "a[x]", "[0]", "a[5000]"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"path|index"):
        steps(path)


def test_an_override_may_reach_into_a_list() -> None:
    given = {"hosts": [{"name": "a"}]}
    assert with_overrides(given, {"hosts[0].name": "b", "hosts[2]": "c"}) == {"hosts": [{"name": "b"}, None, "c"]}
    assert given == {"hosts": [{"name": "a"}]}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ""),
        ("true", "true"),
        (r"a\,b", "a,b"),
        (r"C:\\dir", r"C:\dir"),
        ("{a,b}", ["a", "b"]),
        (r"{a\,b,c\}}", ["a,b", "c}"]),
        ("{}", []),
        ("a{b}", "a{b}"),
        ("a=b", "a=b"),
    ],
)
def test_a_text_is_read_as_helm_reads_it_after_set_string(text: str, found: object) -> None:
    assert with_overrides({}, {"key": text}) == {"key": found}


def test_after_a_comma_another_path_is_set() -> None:
    assert with_overrides({}, {"a": "1,b.c=2", "d": "{x},e=3"}) == {"a": "1", "b": {"c": "2"}, "d": ["x"], "e": "3"}


@pytest.mark.parametrize("text", ["a,b", "{a", "{a}b", "a,b..c=1"])
def test_a_text_that_helm_would_refuse_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"PATH=TEXT|end with|path"):
        with_overrides({}, {"key": text})


def test_overrides_are_texts_and_what_comes_from_a_source_keeps_its_type() -> None:
    typed = values_in(CONFIG, {"data": {"values.yaml": "replicas: 3\nenabled: true\n"}})
    assert typed is not None
    assert merged({}, [typed], {"port": "80"}) == {"replicas": 3, "enabled": True, "port": "80"}


def test_a_config_map_holds_yaml_and_a_secret_one_text_for_a_path() -> None:
    assert values_in(CONFIG, {"data": {"values.yaml": "a: {b: 1}\n"}}) == {"a": {"b": 1}}
    assert values_in(CONFIG, {"data": {"values.yaml": ""}}) == {}
    assert values_in(SECRET, {"data": {"token": encoded("s3cret")}}) == {"auth": {"token": "s3cret"}}


@pytest.mark.parametrize(
    ("source", "obj", "sentence"),
    [
        (CONFIG, None, "ConfigMap site is not there"),
        (CONFIG, {"data": None}, "ConfigMap site has no key values.yaml"),
        (CONFIG, {"data": {"values.yaml": "- a"}}, "holds no mapping of values"),
        (CONFIG, {"data": {"values.yaml": "pass: [word"}}, "ConfigMap site: values.yaml is not YAML"),
        (SECRET, {"data": {"token": "/w=="}}, "Secret key: token is not a text"),
        (Source(kind="ConfigMap", name="site", path="a..b"), {"data": {"values.yaml": "x"}}, "targetPath"),
    ],
)
def test_what_is_not_there_is_named_and_nothing_of_it_is_told(source: Source, obj: Any, sentence: str) -> None:
    with pytest.raises(SourceError) as refused:
        values_in(source, obj)
    assert sentence in str(refused.value)
    assert "word" not in str(refused.value)


def test_what_is_optional_may_be_missing() -> None:
    assert values_in(Source(kind="Secret", name="a", optional=True), None) is None
    assert values_in(Source(kind="Secret", name="a", optional=True), {"data": {}}) is None
