"""What is asked of the server itself and not of a kind: is it ready, which version is it, what does it serve.

`server` comes here with paths that are not about objects. Documents are made when they are first asked for after the
kinds have changed, and kept as bytes.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Final, NoReturn

from aiohttp import web

from edgewright.local.access.accounts import ISSUER
from edgewright.local.documents import discovery
from edgewright.local.errors import no_such_method, no_such_path
from edgewright.local.kinds import Kinds
from edgewright.local.serving import bodies
from edgewright.runtime.health import Health, Verdict, summary
from edgewright.runtime.objects import RawObject

VERSION: Final = "v1.36.3"
"""The Kubernetes whose API this is."""
_AGGREGATED: Final = (("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"),)
_HEADERS: Final = {"Cache-Control": "no-cache, private"}


class Pages:
    """Answers to paths that are about the server."""

    def __init__(self, kinds: Kinds, health: Health, address: str = "") -> None:
        self._kinds = kinds
        self._health = health
        self.address = address
        """Where the server listens, host and port."""
        self.keys: Callable[[], list[dict[str, str]]] = list
        """The public keys of the tokens of ServiceAccounts."""
        self._revision = -1
        self._kept: dict[str, tuple[bytes, str]] = {}

    def open(self, path: str) -> web.Response | None:
        """The pages that need no credentials: alive and ready; nothing for other paths."""
        name, _, check = path.strip("/").partition("/")
        if name not in {"healthz", "livez", "readyz"}:
            return None
        verdicts: list[Verdict] = self._health.ready() if name == "readyz" else self._health.alive()
        if check:
            verdicts = [each for each in verdicts if each.name == check]
            if not verdicts:
                return web.Response(status=404, text="404 page not found\n")
        code, text = summary(name, verdicts, verbose=False)
        return web.Response(status=code, text=text, headers=_HEADERS)

    def show(self, request: web.BaseRequest, path: str) -> web.Response:
        """A document for a caller that is known."""
        parts = path.strip("/").split("/")
        # Groups are what the real server tells of for any method.
        if request.method != "GET" and not (parts[0] == "apis" and len(parts) <= 2):
            raise no_such_method() if parts[0] in {"api", "apis", "version", "openapi"} else no_such_path()
        if self._revision != self._kinds.revision:
            self._kept.clear()
            self._revision = self._kinds.revision
        if parts in (["api"], ["apis"]):
            return self._groups(request, core=parts == ["api"])
        if parts[0] == "openapi":
            return self._openapi(request, path, parts[1:])
        if parts == [".well-known", "openid-configuration"]:
            return self._document(request, path, lambda: _issuer(self.address))
        if parts == ["openid", "v1", "jwks"]:
            return web.Response(body=bodies.encode({"keys": self.keys()}), content_type="application/jwk-set+json")
        return self._document(request, path, lambda: self._made(parts))

    def _made(self, parts: list[str]) -> RawObject | None:
        """The document at a path; nothing where there is none."""
        match parts:
            case [""]:
                return {"paths": self._paths()}
            case ["version"]:
                return _version()
            case ["api", version]:
                return discovery.resource_list(self._kinds.all(), "", version) or _nothing()
            case ["apis", group]:
                return discovery.group(self._kinds.all(), group)
            case ["apis", group, version]:
                found = discovery.resource_list(self._kinds.all(), group, version)
                return found or (_nothing() if self._kinds.has_builtin(group) else None)
        return None

    def _groups(self, request: web.BaseRequest, *, core: bool) -> web.Response:
        kinds = self._kinds.all()
        answer = bodies.negotiate(request.headers.get("Accept", ""), _AGGREGATED)
        if not answer.shape:
            make = (lambda: discovery.core_versions(self.address)) if core else (lambda: discovery.group_list(kinds))
            return self._document(request, "api" if core else "apis", make)
        key = f"aggregated {core}"
        if key not in self._kept:
            document = discovery.aggregated(kinds, core=core)
            self._kept[key] = bodies.encode(document), discovery.etag(document)
        body, etag = self._kept[key]
        headers = {**_HEADERS, "ETag": etag, "Vary": "Accept", "Content-Type": discovery.AGGREGATED}
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, headers=headers)

    def _openapi(self, request: web.BaseRequest, path: str, rest: list[str]) -> web.Response:
        # Imported when they are asked for: many a run needs none of them.
        from edgewright.local.documents import openapi, swagger, wire, words  # noqa: PLC0415

        kinds, definitions = self._kinds.all(), words.described(self._kinds.definitions)
        match rest:
            case ["v2"] if _takes(request, wire.MEDIA):
                if wire.MEDIA not in self._kept:
                    self._kept[wire.MEDIA] = wire.encode(swagger.document(kinds, definitions)), ""
                return web.Response(body=self._kept[wire.MEDIA][0], headers={**_HEADERS, "Content-Type": wire.MEDIA})
            case ["v2"]:
                return self._document(request, path, lambda: swagger.document(kinds, definitions))
            case ["v3"]:
                return self._document(request, path, lambda: openapi.index(kinds, definitions))
            case ["v3", "api", version]:
                return self._document(request, path, lambda: openapi.document(kinds, definitions, "", version))
            case ["v3", "apis", group, version]:
                return self._document(request, path, lambda: openapi.document(kinds, definitions, group, version))
        raise no_such_path()

    def _document(self, request: web.BaseRequest, key: str, make: Callable[[], RawObject | None]) -> web.Response:
        accept = request.headers.get("Accept", "")
        if key.startswith("/api"):
            bodies.check_accepted(accept)
        answer = bodies.negotiate(accept)
        if key not in self._kept:
            document = make()
            if document is None:
                return web.Response(status=404, text="404 page not found\n", headers=_HEADERS)
            self._kept[key] = bodies.encode(document), ""
        body = bodies.reencode(self._kept[key][0], answer)
        return web.Response(body=body, headers={**_HEADERS, "Content-Type": answer.format})

    def _paths(self) -> list[str]:
        served = {f"/apis/{each.kind.group}/{each.kind.version}" for each in self._kinds.all() if each.kind.group}
        groups = {path.rpartition("/")[0] for path in served}
        fixed = {"/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"}
        return sorted(served | groups | fixed)


def _nothing() -> NoReturn:
    raise no_such_path()


def _takes(request: web.BaseRequest, media: str) -> bool:
    """Whether the client's first wish is this media type, however it spells its version."""
    wished = request.headers.get("Accept", "").split(",", 1)[0].split(";", 1)[0].strip().lower()
    return wished.replace("@", ".") == media


def _issuer(address: str) -> RawObject:
    """Where others learn how to check tokens of ServiceAccounts."""
    return {
        "issuer": ISSUER,
        "jwks_uri": f"https://{address}/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }


def _version() -> RawObject:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "edgewright",
        "platform": f"{platform.system().lower()}/{machine}",
    }
