"""The web page as the console serves it: files of a folder and nothing else, whatever path is asked for."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.unit.console.consoles import consoles


def built(folder: Path) -> Path:
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<p>the page</p>")
    (folder / "assets" / "app-1a2b.js").write_text("page()")
    (folder / "assets" / "app-1a2b.js.gz").write_bytes(gzip.compress(b"page()"))
    return folder


async def test_every_path_but_those_of_the_api_leads_to_the_page(tmp_path: Path) -> None:
    async with consoles(tmp_path, page=built(tmp_path / "page")) as portal:
        for path in ("/", "/fleet", "/devices/lamp"):
            answer = await portal("GET", path, token="")
            assert (answer.status, answer.body) == (200, "<p>the page</p>"), path
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
