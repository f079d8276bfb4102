"""How locked wheels are found on an index and fetched, and what is left to pip."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from hack.wheels import File, Index, choose, fetch, files_on, is_meant, locked_hashes, marker_of, own_tags
from tests.harness.web_server import Quiet, web_server

TAGS = ["cp311-cp311-manylinux_2_17_x86_64", "cp311-abi3-manylinux_2_17_x86_64", "py3-none-any"]
A, B, C = "a" * 64, "b" * 64, "c" * 64
ENTRY = f"one==1.0 ; sys_platform != 'win32' \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\n"


def test_an_entry_tells_its_hashes_and_on_which_machines_it_is_meant() -> None:
    assert locked_hashes(ENTRY) == {A, B}
    assert marker_of(ENTRY) == "sys_platform != 'win32'"
    assert marker_of("one==1.0 \\\n") == ""
    assert is_meant(ENTRY)
    assert is_meant("one==1.0\n")
    assert not is_meant("one==1.0 ; sys_platform == 'win32' \\\n")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"one-1.0-py3-none-any.whl": A}, "one-1.0-py3-none-any.whl", id="the only one"),
        pytest.param(
            {
                "one-1.0-py3-none-any.whl": A,
                "one-1.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl": B,
            },
            "one-1.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            id="the best one",
        ),
        pytest.param({"one-1.0-2-py2.py3-none-any.whl": A}, "one-1.0-2-py2.py3-none-any.whl", id="with a build number"),
        pytest.param({"one-1.0-py3-none-any.whl": C}, None, id="not locked"),
        pytest.param({"one-1.0-cp311-cp311-win32.whl": A}, None, id="for another machine"),
        pytest.param({"one-1.0.tar.gz": A}, None, id="a source archive"),
    ],
)
def test_of_the_locked_wheels_the_one_that_fits_best_is_chosen(files: Mapping[str, str], expected: str | None) -> None:
    chosen = choose([File(f"x/{name}", digest) for name, digest in files.items()], {A, B}, TAGS)
    assert (chosen and chosen.name) == expected


def test_this_python_can_use_wheels_that_are_for_all() -> None:
    assert "py3-none-any" in own_tags()


def test_a_page_of_an_index_is_json_or_html() -> None:
    url = "https://index.example/simple/one/"
    spoken = {"files": [{"url": "../../f/one%2B1.whl", "hashes": {"sha256": A}}, {"url": "two.whl", "hashes": {}}]}
    written = f'<a href="../../f/one%2B1.whl#sha256={A}" data-x="1">one+1.whl</a>\n<a href="old.whl#md5=1">old.whl</a>'
    first = File("https://index.example/f/one%2B1.whl", A)
    assert first.name == "one+1.whl"
    assert files_on(json.dumps(spoken).encode(), url=url) == [first, File(f"{url}two.whl", "")]
    assert files_on(written.encode(), url=url) == [first]


@contextmanager
def serving(pages: Mapping[str, bytes]) -> Iterator[str]:
    """An index on this machine."""

    class Pages(Quiet):
        def do_GET(self) -> None:  # noqa: N802 - a name of the library
            body = pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

    with web_server(Pages) as origin:
        yield f"{origin}/simple"


def test_wheels_are_fetched_and_what_is_not_what_was_locked_is_left_to_pip(tmp_path: Path) -> None:
    good = hashlib.sha256(b"good").hexdigest()
    pages = {
        "/simple/one/": f'<a href="/one-1.0-py3-none-any.whl#sha256={good}">x</a>'.encode(),
        "/one-1.0-py3-none-any.whl": b"good",
        "/simple/two/": f'<a href="/two-1.0-py3-none-any.whl#sha256={A}">x</a>'.encode(),
        "/two-1.0-py3-none-any.whl": b"something else",
        "/simple/three/": b"<html></html>",
    }
    with serving(pages) as url:
        index = Index(url)
        wanted = {"one": f"one==1.0 --hash=sha256:{good}", "three": ENTRY}
        got = fetch(wanted, tmp_path, index=index, tags=TAGS)
        assert {name: path.read_bytes() for name, path in got.items()} == {"one": b"good"}
        assert fetch({"two": ENTRY}, tmp_path, index=index, tags=TAGS) == {}
        assert fetch({"unknown": ENTRY}, tmp_path, index=index, tags=TAGS) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["one-1.0-py3-none-any.whl"]
