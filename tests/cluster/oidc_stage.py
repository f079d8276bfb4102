"""What the tests of sign-in by OpenID Connect stand on: a real provider as a process, and a browser that is a program.

The provider is npm's `oidc-provider`, run by the Node that builds the page too; its packages are those of the lock file
in `oidc_provider`, installed under `build/`. The browser follows redirects, fills in forms and keeps cookies, as far
as that matters here.
"""

from __future__ import annotations

import fcntl
import hashlib
import html
import json
import os
import re
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp

from edgewright.console.identity import START
from edgewright.console.oidc import CALLBACK
from hack.web import node_folder
from tests.documents import ROOT
from tests.harness.certificates import Authority
from tests.harness.prefix_proxy import PREFIX
from tests.harness.processes import PortTakenError, Process, free_port

HERE = Path(__file__).with_name("oidc_provider")
CLIENT = "console"
"""The client that the API server knows as well."""
OTHER_CLIENT = "another"
"""A client with a secret, whose tokens the API server does not take."""
SECRET = "a-secret-of-the-other-client"
SCOPE = "openid email groups offline_access"
_ATTEMPTS = 5


def installed() -> Path:
    """The folder with the provider and its packages, which is made once for each state of the lock file."""
    files = ("package.json", "package-lock.json", "provider.mjs")
    state = hashlib.sha256(b"\0".join((HERE / name).read_bytes() for name in files)).hexdigest()[:12]
    folder = ROOT / "build" / "oidc-provider" / state
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # suites run side by side
        if not (folder / "done").exists():
            for name in files:
                shutil.copy(HERE / name, folder / name)
            _npm_install(folder)
            (folder / "done").touch()
    return folder


def _npm_install(folder: Path) -> None:
    environment = {**os.environ, "PATH": f"{node_folder()}{os.pathsep}{os.environ['PATH']}", "CI": "true"}
    command = ["npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    for _ in range(3):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
    raise AssertionError(f"npm cannot install the provider:\n{done.stdout}{done.stderr}")


@dataclass(frozen=True)
class ProviderProcess:
    """A running provider."""

    issuer: str
    authority: Path
    """Who signed its certificate."""
    process: Process

    @property
    def tls(self) -> ssl.SSLContext:
        """TLS as somebody who believes that authority."""
        return ssl.create_default_context(cafile=str(self.authority))


@contextmanager
def provider(folder: Path) -> Iterator[ProviderProcess]:
    """Runs the provider until the end of the block; takes another port where somebody was faster."""
    code = installed()
    authority = Authority("the provider's authority")
    (folder / "oidc-ca.crt").write_bytes(authority.certificate)
    certificate, key = authority.server("provider", names=["localhost"], addresses=["127.0.0.1"]).write(folder, "oidc")
    for attempt in range(1, _ATTEMPTS + 1):
        running = _described(folder, code, certificate, key)
        running.process.start()
        try:
            running.process.wait_ready()
        except PortTakenError:
            if attempt == _ATTEMPTS:
                raise
            continue
        except BaseException:
            running.process.kill()
            raise
        break
    try:
        yield running
    finally:
        running.process.kill()


def api_flags(running: ProviderProcess) -> tuple[str, ...]:
    """What a kube-apiserver is told so that it knows the provider."""
    return (
        f"--oidc-issuer-url={running.issuer}",
        f"--oidc-client-id={CLIENT}",
        f"--oidc-ca-file={running.authority}",
        "--oidc-username-claim=sub",
        "--oidc-username-prefix=oidc:",
        "--oidc-groups-claim=groups",
        "--oidc-groups-prefix=oidc:",
    )


def _described(folder: Path, code: Path, certificate: Path, key: Path) -> ProviderProcess:
    port = free_port()
    issuer = f"https://127.0.0.1:{port}"
    # Of a native client's address on loopback the port does not count (RFC 8252): the console may take any.
    client = {
        "application_type": "native",
        "redirect_uris": [f"http://127.0.0.1{path}{CALLBACK}" for path in ("", PREFIX)],
        "post_logout_redirect_uris": [f"http://127.0.0.1{path}/" for path in ("", PREFIX)],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    }
    settings = {
        "issuer": issuer,
        "port": port,
        "certificate": str(certificate),
        "key": str(key),
        "keys": str(folder / "oidc-keys.json"),
        "clients": [
            {**client, "client_id": CLIENT, "token_endpoint_auth_method": "none"},
            {
                **client,
                "client_id": OTHER_CLIENT,
                "client_secret": SECRET,
                "token_endpoint_auth_method": "client_secret_basic",
            },
        ],
    }
    authority = folder / "oidc-ca.crt"
    tls = ssl.create_default_context(cafile=str(authority))

    def answers() -> bool:
        try:
            with urllib.request.urlopen(
                f"{issuer}/.well-known/openid-configuration", timeout=10, context=tls
            ) as answer:
                return bool(json.load(answer)["issuer"] == issuer)
        except OSError:
            return False

    command: list[str | Path] = [node_folder() / "node", code / "provider.mjs", json.dumps(settings)]
    process = Process("oidc-provider", command, log=folder / "oidc-provider.log", ready=answers)
    return ProviderProcess(issuer, authority, process)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    url: str
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Any:
        """The same as JSON."""
        return json.loads(self.text)

    @property
    def place(self) -> str:
        """Where it leads, empty where it is no redirect."""
        location = self.headers.get("Location", "")
        return urljoin(self.url, location) if self.status in {302, 303} and location else ""


@dataclass(frozen=True)
class Cookie:
    """A cookie that a browser keeps."""

    value: str
    path: str
    strict: bool


class Browser:
    """Somebody's browser in front of one console."""

    def __init__(self, session: aiohttp.ClientSession, tls: ssl.SSLContext, console: str) -> None:
        self._session = session
        self._tls = tls
        self.console = console
        self.cookies: dict[str, dict[tuple[str, str], Cookie]] = {}
        """By origin, and there by name and path."""

    async def ask(self, method: str, url: str, *, site: str, body: Any = None, form: Any = None) -> Answer:
        """One request, from a page of the same origin or of another one."""
        kept = self.cookies.setdefault(urlsplit(url).netloc, {})
        path = urlsplit(url).path
        sent = [
            f"{name}={cookie.value}"
            for (name, _), cookie in kept.items()
            if path.startswith(cookie.path) and (site == "same-origin" or not cookie.strict)
        ]
        headers = {"Sec-Fetch-Site": site, **({"Cookie": "; ".join(sent)} if sent else {})}
        async with self._session.request(
            method, url, json=body, data=form, headers=headers, ssl=self._tls, allow_redirects=False
        ) as answer:
            for header in answer.headers.getall("Set-Cookie", []):
                _keep(kept, header)
            return Answer(answer.status, url, answer.headers, await answer.text())

    async def __call__(self, method: str, path: str, body: Any = None) -> Answer:
        """One request of the console's own page."""
        return await self.ask(method, self.console + path, site="same-origin", body=body)

    async def to_provider(self, user: str) -> str:
        """Presses the button and signs in at the provider: the address to which that sends the browser back."""
        started = await self("GET", START)
        assert started.status == 303, started.text
        place = started.place
        for _ in range(20):
            if place.startswith(self.console):
                return place
            page = await self.ask("GET", place, site="same-origin")
            if not page.place:
                page = await self._fill_in(page, user)
            assert page.place, page.text
            place = page.place
        raise AssertionError(f"the provider leads in circles: {place}")

    async def _fill_in(self, page: Answer, user: str) -> Answer:
        action = re.search(r'<form[^>]* action="([^"]+)"', page.text)
        prompt = re.search(r'name="prompt" value="(\w+)"', page.text)
        assert action, page.text
        assert prompt, page.text
        form = {"prompt": prompt[1]}
        if prompt[1] == "login":
            form |= {"login": user, "password": "any"}
        return await self.ask("POST", urljoin(page.url, html.unescape(action[1])), site="same-origin", form=form)

    async def come_back(self, address: str) -> Answer:
        """What the provider's redirect makes of it: a navigation from another site."""
        return await self.ask("GET", address, site="cross-site")

    async def sign_in(self, user: str) -> None:
        """The whole way."""
        answer = await self.come_back(await self.to_provider(user))
        assert (answer.status, answer.place) == (303, f"{self.console}/"), answer.text

    async def sign_out_there(self, address: str) -> str:
        """Confirms at the provider that its session ends: where that sends the browser back to."""
        asked = await self.ask("GET", address, site="cross-site")
        action = re.search(r'<form[^>]* action="([^"]+)"', asked.text)
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', asked.text))
        assert action, asked.text
        form = {**fields, "logout": "yes"}
        done = await self.ask("POST", urljoin(asked.url, html.unescape(action[1])), site="same-origin", form=form)
        return done.place

    @property
    def session(self) -> dict[str, str]:
        """The cookies of the console."""
        return {name: each.value for (name, _), each in self.cookies.get(urlsplit(self.console).netloc, {}).items()}

    def restore(self, session: Mapping[str, str]) -> None:
        """Has these cookies of the console and no others, as who copied them would."""
        self.cookies[urlsplit(self.console).netloc] = {
            (name, "/"): Cookie(value, "/", strict=True) for name, value in session.items()
        }


def _keep(kept: dict[tuple[str, str], Cookie], header: str) -> None:
    for name, morsel in SimpleCookie(header).items():
        path = morsel["path"] or "/"
        if morsel.value and morsel["max-age"] != "0":
            kept[name, path] = Cookie(morsel.value, path, strict=morsel["samesite"].lower() == "strict")
        else:
            kept.pop((name, path), None)
