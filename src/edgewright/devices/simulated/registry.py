"""A small OCI registry in the process, which serves real images from memory and misbehaves where it is told to.

The demo and the tests put firmware into it, and push and pull as with any other registry. It keeps nothing after its
end; it is no registry to be used for anything else.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import ssl
import tarfile
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

INDEX: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
PAYLOAD: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
FIRMWARE_PATH: Final = "/firmware/firmware.bin"

_TOKEN: Final = "a-token-of-the-simulated-registry"  # noqa: S105  # it opens nothing but this
_PATH: Final = re.compile(r"/v2/(?P<repository>.+)/(?P<kind>manifests|blobs)/(?P<name>[^/]+)")
_UPLOAD: Final = re.compile(r"/v2/(?P<repository>.+)/blobs/uploads/(?P<upload>[^/]*)")
_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")
_REMEMBERED: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request, as the registry saw it."""

    path: str
    range: str
    authorization: str


@dataclass(kw_only=True)
class Faults:
    """How the registry misbehaves; tests set what they need, at any time."""

    cut_after: int | None = None
    """Blobs are cut off after so many bytes of an answer, as long as `cuts` lasts."""
    cuts: int = 1
    ranges: bool = True
    """Whether the registry goes on where it was cut, when asked to."""
    wrong_ranges: bool = False
    """Whether it says that it goes on at another place than asked for."""
    busy: int = 0
    """So many of the next requests are answered with 503."""
    blobs_elsewhere: str = ""
    """The URL that stands before the path to which requests for blobs are redirected."""


class Registry:
    """Serves on loopback while the context lasts."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        login: tuple[str, str] | None = None,
        tokens: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`login` is the user and password that are wanted; with `tokens` they are wanted by a token service."""
        self.faults = Faults()
        self.requests: deque[Asked] = deque(maxlen=_REMEMBERED)
        self._address = (host, port)
        self._login = login
        self._tokens = tokens
        self._tls = tls
        self.blobs: dict[str, bytes] = {}
        """What is there, by digest."""
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        """By repository and tag or digest: the media type and the document."""
        self._runner: web.ServerRunner | None = None

    @property
    def host(self) -> str:
        """What stands before the first / of a reference to an image in here."""
        return f"{self._address[0]}:{self._address[1]}"

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"{'https' if self._tls else 'http'}://{self.host}"

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, *self._address, ssl_context=self._tls, backlog=1024).start()
        self._address = (self._address[0], self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    # --- filling it --------------------------------------------------------------------------------------------------

    def add_image(
        self,
        repository: str,
        tag: str,
        firmware: bytes | Mapping[str, bytes],
        *,
        path: str = FIRMWARE_PATH,
        labels: Mapping[str, str] | None = None,
        version: str = "",
    ) -> str:
        """Puts an image there and gives its digest: of one manifest, or of an index with an entry a device."""
        extra = dict(labels or {})
        if version:
            extra["org.opencontainers.image.version"] = version
        if not isinstance(firmware, Mapping):
            return self._add_manifest_of(repository, tag, firmware, device="", path=path, labels=extra)[0]
        entries = []
        for device, content in firmware.items():
            digest, size = self._add_manifest_of(repository, "", content, device=device, path=path, labels=extra)
            platform = {"os": "custom", "architecture": device}
            entries.append({"mediaType": MANIFEST, "digest": digest, "size": size, "platform": platform})
        return self.add_document(repository, tag, {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})

    def add_document(self, repository: str, tag: str, document: Mapping[str, Any]) -> str:
        """Puts an index or a manifest there, under its digest and, where one is named, a tag."""
        body = json.dumps(document).encode()
        digest = _digest(body)
        for name in filter(None, (tag, digest)):
            self.manifests[repository, name] = (str(document.get("mediaType", MANIFEST)), body)
        return digest

    def add_blob(self, content: bytes, media_type: str, **more: Any) -> dict[str, Any]:
        """Puts content there and gives the descriptor that names it."""
        digest = _digest(content)
        self.blobs[digest] = content
        return {"mediaType": media_type, "digest": digest, "size": len(content), **more}

    def sign(self, repository: str, digest: str, make_signature: Callable[[bytes], bytes], *, claim: str = "") -> None:
        """Signs an image as cosign does; `claim` is another digest to say that the signature is for."""
        image = {"docker-manifest-digest": claim or digest}
        identity = {"docker-reference": f"{self.host}/{repository}"}
        critical = {"identity": identity, "image": image, "type": "cosign container image signature"}
        payload = json.dumps({"critical": critical, "optional": None}).encode()
        signature = {"dev.cosignproject.cosign/signature": b64encode(make_signature(payload)).decode()}
        layer = self.add_blob(payload, PAYLOAD, annotations=signature)
        config = self.add_blob(b"{}", CONFIG)
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
        self.add_document(repository, f"{digest.replace(':', '-')}.sig", manifest)

    def tamper(self, digest: str) -> None:
        """Changes the last byte of a blob or manifest and leaves its digest as it was."""
        if digest in self.blobs:
            self.blobs[digest] = _changed(self.blobs[digest])
        for key, (media_type, body) in self.manifests.items():
            if _digest(body) == digest:
                self.manifests[key] = (media_type, _changed(body))

    def layers(self, repository: str, name: str) -> list[str]:
        """The digests of the layers of a manifest."""
        return [layer["digest"] for layer in json.loads(self.manifests[repository, name][1])["layers"]]

    def _add_manifest_of(
        self, repository: str, tag: str, firmware: bytes, *, device: str, path: str, labels: dict[str, str]
    ) -> tuple[str, int]:
        archive = pack({path.lstrip("/"): firmware})
        named = {"com.urunc.iot.path": path, **labels}
        config = {
            "os": "custom",
            "architecture": device,
            "config": {"Labels": named},
            "rootfs": {"type": "layers", "diff_ids": [_digest(archive)]},
        }
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.add_blob(json.dumps(config).encode(), CONFIG),
            "layers": [self.add_blob(gzip.compress(archive, 1, mtime=0), LAYER)],
        }
        return self.add_document(repository, tag, document), len(json.dumps(document))

    # --- serving it --------------------------------------------------------------------------------------------------

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = request.headers
        authorization = headers.get("Authorization", "")
        self.requests.append(Asked(path=request.path_qs, range=headers.get("Range", ""), authorization=authorization))
        if request.path == "/token":
            return self._give_token(authorization)
        if self.faults.busy > 0:
            self.faults.busy -= 1
            return _error(503, "UNAVAILABLE", "busy", {"Retry-After": "0"})
        if not self._welcome(authorization):
            return _error(
                401, "UNAUTHORIZED", "authentication required", {"WWW-Authenticate": self._challenge(request)}
            )
        return await self._give(request)

    async def _give(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method in {"POST", "PUT"}:
            return await self._take(request)
        found = _PATH.fullmatch(request.path)
        if request.method not in {"GET", "HEAD"} or (found is None and request.path != "/v2/"):
            return _error(404, "NOT_FOUND", "there is nothing here")
        if found is None:
            return web.json_response({})
        if found["kind"] == "manifests":
            return self._give_manifest(found["repository"], found["name"])
        return await self._give_blob(request, found["name"])

    async def _take(self, request: web.BaseRequest) -> web.Response:
        """A blob in two steps, or a manifest, as the distribution specification has it."""
        body = await request.read()
        if upload := _UPLOAD.fullmatch(request.path):
            if request.method == "POST":
                there = f"/v2/{upload['repository']}/blobs/uploads/{len(self.requests)}"
                return web.Response(status=202, headers={"Location": there})
            digest = request.query.get("digest", "")
            if digest != _digest(body):
                return _error(400, "DIGEST_INVALID", "the content has another digest")
            self.blobs[digest] = body
            return web.Response(status=201, headers={"Docker-Content-Digest": digest})
        found = _PATH.fullmatch(request.path)
        if request.method != "PUT" or found is None or found["kind"] != "manifests":
            return _error(404, "NOT_FOUND", "there is nothing here")
        for name in (found["name"], _digest(body)):
            self.manifests[found["repository"], name] = (request.headers.get("Content-Type", MANIFEST), body)
        return web.Response(status=201, headers={"Docker-Content-Digest": _digest(body)})

    def _give_manifest(self, repository: str, name: str) -> web.Response:
        if (found := self.manifests.get((repository, name))) is None:
            return _error(404, "MANIFEST_UNKNOWN", "manifest unknown")
        media_type, body = found
        digest = name if name.startswith("sha256:") else _digest(body)
        return web.Response(body=body, headers={"Content-Type": media_type, "Docker-Content-Digest": digest})

    async def _give_blob(self, request: web.BaseRequest, digest: str) -> web.StreamResponse:
        if self.faults.blobs_elsewhere:
            return web.Response(status=307, headers={"Location": f"{self.faults.blobs_elsewhere}{request.path}"})
        if (content := self.blobs.get(digest)) is None:
            return _error(404, "BLOB_UNKNOWN", "blob unknown to registry")
        begin, end, status = 0, len(content), 200
        headers = {"Content-Type": "application/octet-stream", "Docker-Content-Digest": digest}
        if self.faults.ranges and (asked := _RANGE.fullmatch(request.headers.get("Range", ""))):
            begin, end, status = int(asked[1]), min(len(content), int(asked[2] or len(content)) + 1), 206
            if begin >= len(content):
                return _error(416, "RANGE_INVALID", "there is no such range")
            claimed = begin + 1 if self.faults.wrong_ranges else begin
            headers["Content-Range"] = f"bytes {claimed}-{end - 1}/{len(content)}"
        body = content[begin:end]
        if self.faults.cut_after is None or self.faults.cuts <= 0 or len(body) <= self.faults.cut_after:
            return web.Response(status=status, body=body, headers=headers)
        self.faults.cuts -= 1
        response = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(body))})
        await response.prepare(request)
        await response.write(body[: self.faults.cut_after])
        if request.transport is not None:
            request.transport.close()  # what was written still arrives
        return response

    # --- who may come in ---------------------------------------------------------------------------------------------

    def _welcome(self, authorization: str) -> bool:
        if self._tokens:
            return authorization == f"Bearer {_TOKEN}"
        return self._login is None or authorization == _basic(self._login)

    def _challenge(self, request: web.BaseRequest) -> str:
        if not self._tokens:
            return 'Basic realm="the simulated registry"'
        found = _PATH.fullmatch(request.path)
        scope = f',scope="repository:{found["repository"]}:pull"' if found else ""
        return f'Bearer realm="{self.url}/token",service="simulated"{scope}'

    def _give_token(self, authorization: str) -> web.Response:
        if self._login is not None and authorization != _basic(self._login):
            return _error(401, "UNAUTHORIZED", "wrong user or password")
        return web.json_response({"token": _TOKEN, "expires_in": 300})


def pack(files: Mapping[str, bytes]) -> bytes:
    """A tar archive, the same for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _changed(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def _basic(login: tuple[str, str]) -> str:
    return "Basic " + b64encode(":".join(login).encode()).decode()


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"errors": [{"code": code, "message": message}]}, status=status, headers=headers)
