"""The web page as the console serves it: files of a folder and nothing else, whatever path is asked for."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from edgewright.console import site
from edgewright.console.problems import Refusal
from tests.unit.console.consoles import JOBS, consoles, job

PAGE = '<meta name="prefix" content="" /><script src="./assets/app-1a2b.js"></script>'


def built(folder: Path) -> Path:
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "assets" / "app-1a2b.js").write_text("page()")
    (folder / "assets" / "app-1a2b.js.gz").write_bytes(gzip.compress(b"page()"))
    return folder


async def test_every_path_but_those_of_the_api_leads_to_the_page(tmp_path: Path) -> None:
    async with consoles(tmp_path, page=built(tmp_path / "page")) as portal:
        for path in ("/", "/fleet", "/devices/lamp"):
            answer = await portal("GET", path, token="")
            assert (answer.status, answer.body) == (200, PAGE.replace("./assets", "/assets")), path
            assert answer.headers["Cache-Control"] == "no-cache"
            assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert (await portal("GET", "/sign-in", token="")).status == 404, "nobody signs in by a link without --as-me"
        assert (await portal("GET", "/api/v2", token="")).status == 404
        assert (await portal("GET", "/api/v1/me", token="")).status == 401


async def test_a_built_file_may_be_kept_for_ever_and_no_other_is_served(tmp_path: Path) -> None:
    async with consoles(tmp_path, page=built(tmp_path / "page")) as portal:
        answer = await portal("GET", "/assets/app-1a2b.js", token="")
        assert answer.status == 200
        assert "immutable" in answer.headers["Cache-Control"]
        for name in ("app-1a2b.js.gz", "..%2Findex.html", "other.js"):
            assert (await portal("GET", f"/assets/{name}", token="")).status == 404, name


@pytest.mark.parametrize(
    ("given", "prefix"),
    [("", ""), ("/", ""), ("/edge", "/edge"), ("/edge/", "/edge"), ("/a/b-1.x_y~", "/a/b-1.x_y~"), ("/...", "/...")],
)
def test_a_proxy_says_under_which_path_it_serves(given: str, prefix: str) -> None:
    assert site.prefix_of({site.PREFIX: given}) == prefix


@pytest.mark.parametrize(
    "given",
    ["edge", "//evil.example", "/a//b", "/..", "/a/../b", "/.", '/"><script>', "/a b", "/" + 200 * "x", 11 * "/a"],
)
def test_what_is_no_path_is_refused(given: str) -> None:
    with pytest.raises(Refusal, match="must be a path"):
        site.prefix_of({site.PREFIX: given})


async def test_the_page_is_told_where_a_proxy_serves_it_and_nobody_else_can(tmp_path: Path) -> None:
    page = built(tmp_path / "page")
    async with consoles(tmp_path / "a", page=page, behind_proxy=True) as portal:
        answer = await portal("GET", "/devices", token="", X_Forwarded_Prefix="/edge")
        assert answer.body == '<meta name="prefix" content="/edge" /><script src="/edge/assets/app-1a2b.js"></script>'
        assert answer.headers["Vary"] == site.PREFIX
        made = await portal("POST", JOBS, job("one"), X_Forwarded_Prefix="/edge")
        assert (made.status, made.headers["Location"]) == (201, f"/edge{JOBS}/one")
        for method, path, body in (("GET", "/", None), ("POST", JOBS, job("two"))):
            assert (await portal(method, path, body, X_Forwarded_Prefix="//evil.example")).status == 400
        assert (await portal("GET", f"{JOBS}/two")).status == 404
    async with consoles(tmp_path / "b", page=page) as portal:
        answer = await portal("GET", "/devices", token="", X_Forwarded_Prefix="/edge")
        assert answer.body == PAGE.replace("./assets", "/assets")
