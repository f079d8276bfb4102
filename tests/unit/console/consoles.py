"""A console in the test's own process, in front of an API server of ours that serves FlashJobs and a foreign kind.

Tests of the request path use `consoles`: requests go over HTTP as any application's, with the administrator's token
unless told otherwise.
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from edgewright.console import Console, Gate, Limits, Settings, listen
from edgewright.console.oidc import OidcSettings
from edgewright.local import custom
from edgewright.local.access import Authority
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.tls import ClientTls, Pem, PemFile
from tests.unit.controllers.flashjob.harness import our_kinds
from tests.unit.local.custom.samples import GROUP, widgets
from tests.unit.local.serving.inprocess import Api, serving

WIDGETS = f"widgets.{GROUP}"
"""The foreign kind, as it is named in paths."""
IN_DEFAULT = f"/api/v1/namespaces/default/{WIDGETS}"
JOBS = "/api/v1/namespaces/default/flashjobs"
ROLLOUTS = "/api/v1/namespaces/default/rollouts"
PLENTY = Limits(reads_per_second=10_000, writes_per_second=10_000, cache_seconds=50)
HERE = Gate(loopback=True)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def pointers(self) -> list[str]:
        """The fields that a problem names."""
        return [each["pointer"] for each in self.body.get("errors", ())]


class Application:
    """An application that calls a console, with a token."""

    def __init__(self, url: str, session: aiohttp.ClientSession, token: str = "") -> None:
        self.url = url
        self.session = session
        self.token = token

    async def __call__(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str
    ) -> Answer:
        """One request; a body that is not bytes is sent as JSON. An empty token: without one."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        bearer = self.token if token is None else token
        if bearer:
            given.setdefault("Authorization", f"Bearer {bearer}")
        data: Any = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        data = io.BytesIO(data) if data is not None and len(data) > 1_000_000 else data
        if data is not None:
            given.setdefault("Content-Type", "application/json")
        async with self.session.request(method, self.url + path, data=data, headers=given) as response:
            text = await response.read()
            shown = json.loads(text) if "json" in response.headers.get("Content-Type", "") and text else text.decode()
            return Answer(response.status, response.headers, shown)

    def stream(self, query: str, **headers: str) -> Any:
        """An open stream, for `async with`."""
        given = {"Authorization": f"Bearer {self.token}"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.session.get(f"{self.url}/api/v1/stream?{query}", headers=given)


class Portal(Application):
    """A console of the test's own, the API server behind it, and an application that calls it."""

    def __init__(
        self, console: Console, api: Api, url: str, session: aiohttp.ClientSession, token: str, config: Config
    ) -> None:
        super().__init__(url, session, token)
        self.console = console
        self.api = api
        self.config = config
        """How the console reaches the API server."""


@asynccontextmanager
async def in_front_of(
    config: Config, settings: Settings, *, clock: Clock | None = None
) -> AsyncIterator[tuple[Console, str]]:
    """A console in this process, in front of any API server, and where it serves."""
    console = Console(config, settings, clock=clock)
    listener = await listen(
        console.application(),
        host="127.0.0.1",
        port=0,
        tls=None,
        limits=settings.limits,
        end_streams=console.stop_streams,
    )
    try:
        yield console, f"http://127.0.0.1:{listener.port}"
    finally:
        await listener.close()
        await console.close()


def calling() -> aiohttp.ClientSession:
    """The connections of an application, which keeps no cookies; for `async with`."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())


@asynccontextmanager
async def consoles(
    directory: Path,
    *,
    gate: Gate = HERE,
    limits: Limits = PLENTY,
    as_me: bool = False,
    oidc: OidcSettings | None = None,
    shared_cache: bool = False,
    cache_granted: bool = False,
    clock: Clock | None = None,
    behind_proxy: bool = False,
    page: Path | None = None,
) -> AsyncIterator[Portal]:
    """A console, an API server behind it, and an application; without a page, whatever `make web` has built here."""
    async with serving(directory) as api:
        api.kinds.set_custom([*our_kinds(), *custom.served(widgets())])
        authority = PemFile(origin="test", path=directory / "data" / "pki" / "ca.crt").read()
        token = (directory / "data" / "pki" / "token").read_text().strip()
        tls = ClientTls(authorities=authority)
        # The kubeconfig's user is an administrator by certificate, who must lend nobody anything.
        own = Authority(directory / "data" / "pki", clock=SystemClock()).client(
            "own", user="me", groups=["system:masters"]
        )
        tls.present(*(Pem(origin="test", data=each.encode()) for each in (own.certificate, own.key)))
        config = Config(server=api.url, tls=tls, source="test")
        settings = Settings(
            gate=gate,
            limits=limits,
            as_me=as_me,
            oidc=oidc,
            shared_cache=shared_cache,
            cache_granted=cache_granted,
            behind_proxy=behind_proxy,
            page=page or directory / "not built",
        )
        async with in_front_of(config, settings, clock=clock) as (console, url), calling() as session:
            yield Portal(console, api, url, session, token, config)


def widget(name: str = "w", /, **spec: Any) -> dict[str, Any]:
    """An object of the foreign kind."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 3, **spec}}


def job(name: str = "job", /, **spec: Any) -> dict[str, Any]:
    """A FlashJob."""
    given = {"firmware": "registry.example/firmware:1.1.0", "version": "1.1.0", "uuid": ["a"], **spec}
    return {"metadata": {"name": name}, "spec": given}


def rollout(name: str = "thermo", /, **spec: Any) -> dict[str, Any]:
    """A FirmwareRollout."""
    given = {"firmware": "registry.example/thermo:2", "version": "2", "batches": [{"name": "canary", "size": 1}]}
    return {"metadata": {"name": name}, "spec": {**given, **spec}}


async def device(portal: Portal, name: str, *, version: str = "1", labels: dict[str, str] | None = None) -> None:
    """Makes a Device, and writes past the console what it runs."""
    body = {"metadata": {"name": name, "labels": labels or {}}, "spec": {"type": "esp32s3", "endpoint": name}}
    made = await portal("PUT", f"/api/v1/devices/{name}", body)
    assert made.status == 201, made.body
    path = f"/apis/edgewright.dev/v1alpha1/devices/{name}/status"
    seen = {"status": {"version": version}}
    told = await portal.api("PATCH", path, seen, media="application/merge-patch+json")
    assert told.code == 200, told.body
