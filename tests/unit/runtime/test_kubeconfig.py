"""Kubeconfig files: several are merged, and any content is a kubeconfig or is refused with the file's name."""

from __future__ import annotations

import contextlib
import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.runtime.config import ConfigError, load
from tests.unit.runtime.kubeconfigs import (
    AUTHORITY,
    CERTIFICATE_DATA,
    EXEC,
    KEY_DATA,
    Document,
    document,
    encoded,
    headers,
    read,
    refusal,
    write,
)

# --- several files


def test_the_first_file_that_has_an_entry_wins_as_a_whole(tmp_path: Path) -> None:
    first = write(tmp_path / "a" / "first", {"users": [{"name": "me", "user": {"token": "first"}}]})
    second = document(user={"token": "second", "as": "somebody"})
    second["current-context"] = "dev"
    later = write(tmp_path / "b" / "second", second)
    third = write(tmp_path / "third", {"current-context": "other"})
    environ = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "missing"), str(first), "", str(later), str(third)])}
    config = load(environ=environ)
    assert headers(config) == [("Authorization", "Bearer first")]
    assert config.source == f"context dev of {later}"


def test_relative_names_count_from_the_folder_of_their_own_file(tmp_path: Path) -> None:
    write(tmp_path / "a" / "secret", "of-a")
    first = write(tmp_path / "a" / "users", {"users": [{"name": "me", "user": {"tokenFile": "secret"}}]})
    second = write(tmp_path / "b" / "rest", document(cluster={"certificate-authority": "ca.crt"}))
    write(tmp_path / "b" / "ca.crt", AUTHORITY.certificate)
    config = load(environ={"KUBECONFIG": f"{first}{os.pathsep}{second}"})
    assert headers(config) == [("Authorization", "Bearer of-a")]


def test_files_that_are_all_missing_are_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^KUBECONFIG: none of its files exists: .*x, .*y$"):
        load(environ={"KUBECONFIG": f"{tmp_path / 'x'}{os.pathsep}{tmp_path / 'y'}"}, home=tmp_path)


def test_an_empty_kubeconfig_variable_counts_as_not_set(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", document(cluster={"server": "http://home"}))
    assert load(environ={"KUBECONFIG": os.pathsep}, home=tmp_path).server == "http://home"


def test_an_empty_file_adds_nothing(tmp_path: Path) -> None:
    empty, full = write(tmp_path / "empty", ""), write(tmp_path / "full", document())
    assert load(environ={"KUBECONFIG": f"{empty}{os.pathsep}{full}"}).source == f"context dev of {full}"
    assert refusal(empty) == f"{empty}: current-context: is not set, so that a context must be named; there are: none"


# --- files that are none


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [", "is not YAML at line 2, column 1: did not find expected node content"),
        ("a: b: c", "is not YAML at line 1, column 5: mapping values are not allowed in this context"),
        (b"\xff\xfe\xfa", "is not YAML"),
        ("[" * 100_000, "is nested more deeply than a kubeconfig can be"),
        ("- a", "is a list, must be a mapping with clusters, users and contexts"),
        ("hello", "is a string, must be a mapping with clusters, users and contexts"),
    ],
    ids=["unclosed", "bad mapping", "bytes", "too deep", "list", "string"],
)
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, content: str | bytes, said: str) -> None:
    file = write(tmp_path / "c", content)
    assert refusal(file) == f"{file}: {said}"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none") == f"{tmp_path / 'none'}: cannot be read: No such file or directory"
    assert refusal(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


def test_a_file_in_kubeconfig_that_is_there_but_cannot_be_reached_is_said(tmp_path: Path) -> None:
    blocked = write(tmp_path / "file", "") / "config"
    with pytest.raises(ConfigError, match=r"/file/config: cannot be read: Not a directory$"):
        load(environ={"KUBECONFIG": str(blocked)})


def test_a_broken_entry_that_is_not_used_does_no_harm(tmp_path: Path) -> None:
    content = document()
    content["clusters"].append({"name": "broken", "cluster": {"server": 5}})
    assert read(write(tmp_path / "c", content)).server == "https://127.0.0.1:6443"


# --- any kubeconfig gives a Config or a ConfigError


FULL = document(
    cluster={
        "certificate-authority-data": encoded(AUTHORITY.certificate),
        "tls-server-name": "api",
        "proxy-url": "http://proxy:3128",
        "insecure-skip-tls-verify": False,
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
    },
    user={
        **CERTIFICATE_DATA,
        **KEY_DATA,
        "exec": {**EXEC, "args": ["a"], "env": [{"name": "A", "value": "b"}], "provideClusterInfo": True},
        "as": "bob",
        "as-uid": "1",
        "as-groups": ["g"],
        "as-user-extra": {"k": ["v"]},
    },
    context={"namespace": "edge"},
)
FULL["users"][0]["user"] |= {"client-certificate": "crt", "client-key": "key"}


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        found += places(inner, (*path, key))
    return found


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["http://h", "\0", "x:y"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.sampled_from(["name"]), inner),
    max_leaves=5,
)
MUTATIONS = st.lists(
    st.tuples(st.sampled_from(places(FULL)), st.sampled_from(["drop", "rename", "replace"]), VALUES),
    min_size=1,
    max_size=4,
)


def mutated(mutations: list[tuple[tuple[str | int, ...], str, Any]]) -> Document:
    content: Any = copy.deepcopy(FULL)
    for path, how, value in mutations:
        place = content
        try:
            for step in path[:-1]:
                place = place[step]
            old = place.pop(path[-1])
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier mutation took it away
        if how == "replace" and isinstance(place, list):
            place.insert(int(path[-1]), value)
        elif how == "replace":
            place[path[-1]] = value
        elif how == "rename" and isinstance(place, dict):
            place[f"{path[-1]}-x"] = old
    result: Document = content
    return result


def test_the_kubeconfig_that_is_changed_below_is_good(tmp_path: Path) -> None:
    assert read(write(tmp_path / "c", FULL)).namespace == "edge"


@given(mutations=MUTATIONS)
def test_any_change_of_a_kubeconfig_gives_a_config_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, mutations: list[tuple[tuple[str | int, ...], str, Any]]
) -> None:
    file = write(tmp_path_factory.getbasetemp() / "mutated", json.dumps(mutated(mutations)))
    with contextlib.suppress(ConfigError):
        assert load(kubeconfig=file, environ={}).server.startswith("http")


@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_give_a_config_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = write(tmp_path_factory.getbasetemp() / "bytes", content)
    with pytest.raises(ConfigError):
        load(kubeconfig=file, environ={})
