"""The web page: files that `make web` built into the package, served with no other host.

Names of files carry a hash of their content and may be kept for ever, but for index.html, which is asked for each time
and told under which path a proxy serves it. Every path that is not the API's leads to index.html: which page is shown
is decided in the browser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aiohttp import web

from edgewright.console.problems import Refusal

STATIC: Final = Path(__file__).parent / "static"
PREFIX: Final = "X-Forwarded-Prefix"
"""The header in which a proxy says what it has cut from the beginning of the path."""
PLACE: Final = web.RequestKey("place", str)
"""Of a request: below which path its browser finds the console; `server` notes it before anything else."""
_FOREVER: Final = "public, max-age=31536000, immutable"
_PATH: Final = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9._~-]+){1,10}")
_LONGEST: Final = 200
_ASSETS: Final = '"./assets/'
_PLACE: Final = '<meta name="prefix" content=""'


def is_built(folder: Path) -> bool:
    """Whether there is a page to serve."""
    return (folder / "index.html").is_file()


def prefix_of(headers: Mapping[str, str]) -> str:
    """Under which path a proxy serves the console, such as /edgewright; empty: at the root."""
    given = headers.get(PREFIX, "").rstrip("/")
    if not is_prefix(given):
        raise Refusal("bad-request", f"the header {PREFIX} must be a path, such as /edgewright")
    return given


def is_prefix(path: str) -> bool:
    """Whether the console can be served below this path; the empty one is the root."""
    return not path or (len(path) <= _LONGEST and _PATH.fullmatch(path) is not None)


def place_of(request: web.Request) -> str:
    """Below which path the browser finds the console, which everything that it is sent to begins with."""
    place: str = request.get(PLACE, "")
    return place


def placed(page: str, prefix: str) -> str:
    """The page for browsers that find it under a path: where its files are, and where the API is."""
    return page.replace(_ASSETS, f'"{prefix}/assets/').replace(_PLACE, f'{_PLACE[:-1]}{prefix}"')


def add_routes(app: web.Application, folder: Path) -> None:
    """Serves the page; after all other routes, which win."""
    assets = {each.name: each for each in (folder / "assets").iterdir() if each.suffix != ".gz"}
    index = (folder / "index.html").read_text(encoding="utf-8")

    async def asset(request: web.Request) -> web.StreamResponse:
        """One built file, found by its name in the list of those that there are: no path is put together."""
        file = assets.get(request.match_info["name"])
        if file is None:
            raise web.HTTPNotFound
        return web.FileResponse(file, headers={"Cache-Control": _FOREVER})

    async def page(request: web.Request) -> web.StreamResponse:
        # What signs in is no page of the browser's own choice: without --as-me there is none.
        if request.path.startswith(("/api/", "/sign-in")):
            raise web.HTTPNotFound
        text = placed(index, place_of(request))
        return web.Response(text=text, content_type="text/html", headers={"Cache-Control": "no-cache", "Vary": PREFIX})

    app.router.add_get("/assets/{name}", asset)
    app.router.add_get("/{path:.*}", page)
