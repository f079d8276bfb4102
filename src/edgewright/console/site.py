"""The web page: files that `make web` built into the package, served as they are, with no other host.

Names of files carry a hash of their content and may be kept for ever, but for index.html, which is asked for each time.
Every path that is not the API's leads to index.html: which page is shown is decided in the browser.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aiohttp import web

STATIC: Final = Path(__file__).parent / "static"
_FOREVER: Final = "public, max-age=31536000, immutable"


def is_built(folder: Path) -> bool:
    """Whether there is a page to serve."""
    return (folder / "index.html").is_file()


def add_routes(app: web.Application, folder: Path) -> None:
    """Serves the page; after all other routes, which win."""
    assets = {each.name: each for each in (folder / "assets").iterdir() if each.suffix != ".gz"}

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
        return web.FileResponse(folder / "index.html", headers={"Cache-Control": "no-cache"})

    app.router.add_get("/assets/{name}", asset)
    app.router.add_get("/{path:.*}", page)
