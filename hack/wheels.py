"""Fetches the wheels that a locked requirements file names, without pip reading the lists of all releases.

`install` calls it. Of each list only the files whose hashes are locked are looked at; the one that fits this Python
best is taken, and its bytes are compared with its hash. What cannot be had so (an index with a password, a source
archive, no network) is left to pip, which knows all the ways; nothing is installed here.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import re
import ssl
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urljoin
from urllib.request import Request, urlopen

from pip._internal.configuration import Configuration
from pip._internal.exceptions import ConfigurationError
from pip._internal.models.index import PyPI
from pip._vendor.packaging.markers import Marker
from pip._vendor.packaging.tags import sys_tags

_AT_ONCE = 8
_SECONDS = 30.0
_PAGE = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_LINK = re.compile(r'href="([^"#]+)#sha256=([0-9a-f]{64})"')
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_MARKER = re.compile(r";\s*(.*?)\s*\\?$")


def locked_hashes(lines: str) -> frozenset[str]:
    """The hashes of the files that an entry of a locked file allows."""
    return frozenset(_HASH.findall(lines))


def marker_of(lines: str) -> str:
    """On which machines an entry is meant, as its first line says it; empty: on all."""
    found = _MARKER.search(lines.partition("\n")[0])
    return found[1] if found else ""


class File(NamedTuple):
    """A file of a release: where it is, and its hash."""

    url: str
    sha256: str

    @property
    def name(self) -> str:
        """Its own name, without folders."""
        return unquote(self.url).rpartition("/")[2]


def files_on(page: bytes, *, url: str) -> list[File]:
    """The files that a package's page of an index lists, which is JSON or HTML."""
    text = page.decode()
    if not text.lstrip().startswith("{"):
        return [File(urljoin(url, html.unescape(link)), digest) for link, digest in _LINK.findall(text)]
    listed = [(each["url"], each["hashes"].get("sha256", "")) for each in json.loads(text)["files"]]
    return [File(urljoin(url, link), digest) for link, digest in listed]


def choose(files: Iterable[File], hashes: Collection[str], tags: Sequence[str]) -> File | None:
    """The locked wheel that fits best; `tags` are those of this Python, best first."""
    best: tuple[int, File] | None = None
    for file in files:
        name = file.name
        if file.sha256 not in hashes or not name.endswith(".whl"):
            continue
        pythons, abis, platforms = name.removesuffix(".whl").rsplit("-", 3)[1:]
        its = {f"{p}-{a}-{m}" for p in pythons.split(".") for a in abis.split(".") for m in platforms.split(".")}
        rank = next((number for number, tag in enumerate(tags) if tag in its), None)
        if rank is not None and (best is None or rank < best[0]):
            best = rank, file
    return best and best[1]


class Index:
    """One package index, as pip is told of it."""

    def __init__(self, url: str, *, certificates: str | None = None) -> None:
        self._url = url.rstrip("/") + "/"
        self._tls = ssl.create_default_context(cafile=certificates) if url.startswith("https:") else None

    def files(self, package: str) -> list[File]:
        """All files of all releases of a package."""
        page = urljoin(self._url, f"{package}/")
        return files_on(self._get(page, Accept=_PAGE), url=page)

    def fetch(self, file: File, folder: Path) -> Path:
        """Writes a file into a folder; ValueError where it is not the one that its hash says."""
        content = self._get(file.url)
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise ValueError(f"{file.url} is not the file that is locked")
        place = folder / file.name
        place.write_bytes(content)
        return place

    def _get(self, url: str, **headers: str) -> bytes:
        asked = Request(url, headers={"Accept-Encoding": "gzip" if headers else "identity", **headers})
        with urlopen(asked, timeout=_SECONDS, context=self._tls) as answer:
            body: bytes = answer.read()
            return gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body


def configured() -> Index:
    """The index that pip would ask."""
    configuration = Configuration(isolated=False)
    configuration.load()

    def setting(name: str, default: str | None) -> str | None:
        for key in (f":env:.{name}", f"install.{name}", f"global.{name}"):
            try:
                return str(configuration.get_value(key))
            except ConfigurationError:
                continue
        return default

    return Index(setting("index-url", None) or PyPI.simple_url, certificates=setting("cert", None))


def own_tags() -> list[str]:
    """What wheels this Python can use, best first."""
    return [str(tag) for tag in sys_tags()]


def is_meant(lines: str) -> bool:
    """Whether an entry is for this machine."""
    marker = marker_of(lines)
    return not marker or Marker(marker).evaluate()


def fetch(wanted: Mapping[str, str], folder: Path, *, index: Index, tags: Sequence[str]) -> dict[str, Path]:
    """The wheels that could be had, by package; after the first that could not, no further one is asked for."""
    failed = threading.Event()

    def one(package: str) -> Path | None:
        if failed.is_set():
            return None
        try:
            file = choose(index.files(package), locked_hashes(wanted[package]), tags)
            return None if file is None else index.fetch(file, folder)
        except (OSError, ValueError, LookupError, TypeError):
            failed.set()
            return None

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        places = pool.map(one, wanted)
        return {package: place for package, place in zip(wanted, places, strict=True) if place is not None}
