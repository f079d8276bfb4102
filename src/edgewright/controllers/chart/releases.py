"""The releases that Helm stored: one Secret per revision, which is what we decide from and what outlives a crash.

`controller` reads a release's history with one request and needs only labels of it; `Stored` is one revision with its
content, read when something of it is shown. A revision that a crash left pending is marked failed here, as Helm would
have done. Secrets are asked for by the name of their release, never all of them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import msgspec

from edgewright.runtime.objects import Key, Kind, ObjectMeta, RawObject, Resource

CHART_LABEL: Final = "edgewright.dev/chart"
VALUES_LABEL: Final = "edgewright.dev/values"
REVISION_LABEL: Final = "edgewright.dev/revision"
"""The revision that the two digests are about. Helm copies labels to revisions that others make: those are not ours."""

DEPLOYED: Final = "deployed"
FAILED: Final = "failed"
UNINSTALLED: Final = frozenset({"uninstalling", "uninstalled"})
PENDING: Final = frozenset({"pending-install", "pending-upgrade", "pending-rollback"})

MAX_NAME: Final = 53
"""The longest name of a release that Helm takes."""
_KEPT: Final = 40
_INTERRUPTED: Final = "interrupted: marked failed by edgewright"


class ReleaseSecret(Resource, frozen=True, kw_only=True):
    """What Helm stores of a revision, without its content."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Secret", plural="secrets")


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One stored revision of a release, as its labels tell it."""

    version: int
    status: str
    chart: str = ""
    values: str = ""
    modified: float = 0.0
    """When Helm wrote it last, in seconds since 1970; 0 where it does not say."""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    @property
    def key(self) -> Key:
        """The Secret."""
        return Key(self.metadata.namespace, self.metadata.name)

    @property
    def ours(self) -> bool:
        """Whether this operator made it, or began to."""
        return self.metadata.labels.get(REVISION_LABEL) == str(self.version)

    @property
    def pending(self) -> bool:
        """Whether an action on it is under way, or was cut short."""
        return self.status in PENDING


class _Info(msgspec.Struct, frozen=True):
    status: str = ""
    description: str = ""
    notes: str = ""


class _ChartMetadata(msgspec.Struct, frozen=True):
    name: str = ""
    version: str = ""


class _Chart(msgspec.Struct, frozen=True):
    metadata: _ChartMetadata = _ChartMetadata()


class _Content(msgspec.Struct, frozen=True):
    info: _Info = _Info()
    chart: _Chart = _Chart()
    manifest: str = ""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The content of a stored revision, as far as we use it."""

    chart_name: str
    manifest: str
    notes: str
    description: str


class NotARelease(ValueError):
    """A Secret is not what Helm stores."""


_decode_content = msgspec.json.Decoder(_Content).decode


def release_name(name: str) -> str:
    """The release of an object of this name: the same, or where Helm takes none so long, its beginning and a hash."""
    if len(name) <= MAX_NAME:
        return name
    return f"{name[:_KEPT].rstrip('.-')}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def selector(release: str) -> str:
    """The labels by which Helm's own storage finds the revisions of a release."""
    return f"owner=helm,name={release}"


def labels_of(version: int, *, chart: str, values: str) -> dict[str, str]:
    """What a revision that we make is labelled with."""
    return {CHART_LABEL: chart, VALUES_LABEL: values, REVISION_LABEL: str(version)}


def history(secrets: Iterable[ReleaseSecret]) -> tuple[Revision, ...]:
    """The revisions in these Secrets, oldest first; what Helm did not write is left out."""
    found = []
    for each in secrets:
        labels = each.metadata.labels
        if not labels.get("version", "").isdecimal():
            continue
        time = labels.get("modifiedAt") or labels.get("createdAt", "")
        found.append(
            Revision(
                version=int(labels["version"]),
                status=labels.get("status", ""),
                chart=labels.get(CHART_LABEL, ""),
                values=labels.get(VALUES_LABEL, ""),
                modified=float(time) if time.isdecimal() else 0.0,
                metadata=each.metadata,
            )
        )
    return tuple(sorted(found, key=lambda revision: revision.version))


def read_content(secret: RawObject) -> Stored:
    """The content of a revision's Secret."""
    try:
        content = _decode_content(_unpack(secret))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotARelease(f"{secret['metadata']['name']}: {error}") from error
    return Stored(
        chart_name=content.chart.metadata.name,
        manifest=content.manifest,
        notes=content.info.notes,
        description=content.info.description,
    )


def marked_failed(secret: RawObject) -> RawObject:
    """The same Secret, saying that its revision failed: what a crash left pending holds up every further action.

    It does not count as an attempt of ours any more, so that the next one need not wait.
    """
    try:
        content: dict[str, Any] = msgspec.json.decode(_unpack(secret))
    except msgspec.MsgspecError as error:
        raise NotARelease(f"{secret['metadata']['name']}: {error}") from error
    info = {**_mapping(content.get("info")), "status": FAILED, "description": _INTERRUPTED}
    packed = gzip.compress(msgspec.json.encode({**content, "info": info}), mtime=0)
    metadata = secret["metadata"]
    labels = {**_mapping(metadata.get("labels")), "status": FAILED, REVISION_LABEL: "interrupted"}
    return {
        **secret,
        "metadata": {**metadata, "labels": labels},
        "data": {"release": base64.b64encode(base64.b64encode(packed)).decode()},
    }


def _unpack(secret: RawObject) -> bytes:
    try:
        inner = base64.b64decode(base64.b64decode(_mapping(secret.get("data"))["release"]))
        return gzip.decompress(inner) if inner.startswith(b"\x1f\x8b") else inner
    except (KeyError, ValueError, OSError, EOFError, zlib.error) as error:
        raise NotARelease(f"{secret['metadata']['name']}: holds no release: {error}") from error


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
