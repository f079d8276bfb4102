"""Makes an image of firmware files and pushes it to a registry: layer, configuration and manifest per device type.

`edgewright firmware push` calls it. What it writes is what `pull` and the published flashers read: the file under
/firmware, named by a label, for the platform custom/TYPE. The same files give the same digests.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urljoin

import msgspec

from edgewright.api.flash_pod import Outcome
from edgewright.api.reference import Reference
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.http import Session, origin_of
from edgewright.devices.oci.access import Access
from edgewright.devices.oci.challenge import parse_challenge
from edgewright.devices.oci.limits import Limits
from edgewright.devices.oci.manifests import (
    CONFIG_TYPES,
    DEVICE_OS,
    INDEX_TYPES,
    MANIFEST_TYPES,
    PATH_LABEL,
    VERSION_LABEL,
)
from edgewright.devices.oci.repository import Repository
from edgewright.runtime.http_parser import Answer

FOLDER: Final = "/firmware"
"""Where the file lies in an image, as the published flashers expect it."""
LAYER_TYPE: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_SMALL: Final = 64 << 10


@dataclass(frozen=True, kw_only=True)
class File:
    """A firmware file, and the type of device that it is for."""

    name: str
    content: bytes = field(repr=False)
    device: str
    version: str = ""


@dataclass(frozen=True)
class Blob:
    """Something that is uploaded, by its digest."""

    content: bytes = field(repr=False)
    media_type: str

    @property
    def digest(self) -> str:
        """Its digest, by which a registry knows it."""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    def descriptor(self, **more: Any) -> dict[str, Any]:
        """How a document names it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content), **more}


@dataclass(frozen=True, kw_only=True)
class Package:
    """An image as it is uploaded: blobs first, then the manifests, the one with the tag last."""

    blobs: tuple[Blob, ...]
    manifests: tuple[Blob, ...]


def package(files: Sequence[File]) -> Package:
    """The image of these files: a manifest, or an index of one per device type where there are several."""
    blobs: list[Blob] = []
    manifests: list[Blob] = []
    for file in files:
        path = f"{FOLDER}/{file.name}"
        archive = _packed(path, file.content)
        labels = {PATH_LABEL: path, **({VERSION_LABEL: file.version} if file.version else {})}
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(archive).hexdigest()}"]}
        config = {"os": DEVICE_OS, "architecture": file.device, "config": {"Labels": labels}, "rootfs": rootfs}
        configured = Blob(msgspec.json.encode(config), CONFIG_TYPES[0])
        layer = Blob(gzip.compress(archive, 9, mtime=0), LAYER_TYPE)
        blobs += [configured, layer]
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPES[0],
            "config": configured.descriptor(),
            "layers": [layer.descriptor()],
            "annotations": labels,
        }
        manifests.append(Blob(msgspec.json.encode(document), MANIFEST_TYPES[0]))
    if len(manifests) > 1:
        entries = [
            made.descriptor(platform={"os": DEVICE_OS, "architecture": file.device})
            for made, file in zip(manifests, files, strict=True)
        ]
        index = {"schemaVersion": 2, "mediaType": INDEX_TYPES[0], "manifests": entries}
        manifests.append(Blob(msgspec.json.encode(index), INDEX_TYPES[0]))
    return Package(blobs=tuple(blobs), manifests=tuple(manifests))


def _packed(path: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        member = tarfile.TarInfo(path.lstrip("/"))
        member.size = len(content)
        member.mode = 0o644
        archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


async def push(
    reference: Reference,
    content: Package,
    *,
    access: Access,
    limits: Limits = Limits(),  # noqa: B008  # it is immutable
    log: Callable[[str], None] = lambda _line: None,
) -> str:
    """Uploads an image under the tag of its reference, and gives its digest; Ended says why it could not."""
    async with Session(tls=access.tls) as session:
        registry = _Upload(session, reference, access=access, limits=limits, log=log)
        for blob in content.blobs:
            await registry.put_blob(blob)
        for manifest in content.manifests[:-1]:
            await registry.put_manifest(manifest, manifest.digest)
        last = content.manifests[-1]
        await registry.put_manifest(last, reference.target)
        return last.digest


class _Upload(Repository):
    """A repository that is written to."""

    async def put_blob(self, blob: Blob) -> None:
        """Uploads a blob whole."""
        began = await self._send("POST", f"{self._base}/blobs/uploads/", {}, b"")
        self._demand(began, {202}, "to take an upload")
        target = urljoin(f"{self._base}/blobs/uploads/", began.headers.get("location", ""))
        if origin_of(target) != self._origin:
            raise Ended(Outcome.REFUSED, f"{self._reference.host} wants the firmware to be sent to another host")
        target += ("&" if "?" in target else "?") + urlencode({"digest": blob.digest})
        ended = await self._send("PUT", target, {"Content-Type": "application/octet-stream"}, blob.content)
        self._demand(ended, {201}, f"to take {blob.digest}")
        self._log(f"{blob.digest}: {len(blob.content)} bytes")

    async def put_manifest(self, manifest: Blob, target: str) -> None:
        """Uploads a manifest under a tag or its digest."""
        url = f"{self._base}/manifests/{target}"
        answer = await self._send("PUT", url, {"Content-Type": manifest.media_type}, manifest.content)
        self._demand(answer, {200, 201}, f"to take the manifest {target}")

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One request, and another one after logging in where that is asked for."""
        for last in (False, True):
            login = {"Authorization": self._authorization} if self._authorization else {}
            try:
                answer = await self._session.request(method, url, headers={**headers, **login}, body=body, limit=_SMALL)
            except OSError as error:
                raise Ended(Outcome.FAILED, f"{self._reference.host} cannot be reached: {error}") from None
            if answer.status != 401 or last:
                break
            await self._log_in(parse_challenge(answer.headers.get("www-authenticate", "")))
        return answer

    def _demand(self, answer: Answer, wanted: set[int], what: str) -> None:
        if answer.status in wanted:
            return
        host = self._reference.host
        if answer.status in {401, 403}:
            raise Ended(Outcome.REFUSED, f"{host} refuses {what} for {self._reference}: log in first (docker login)")
        raise Ended(Outcome.FAILED, f"{host} refuses {what}: it answers {answer.status} {answer.body[:200]!r}")
