"""The releases that Helm stored: one Secret per revision, which is what we decide from and what outlives a crash.

Pure functions on what `storage` reads and writes: labels tell a release's history, and `Stored` is one revision with
its content, read when something of it is shown. A revision that a crash left pending is marked failed here, as Helm
would have done; one that was lost is written again from what is there.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

import msgspec

from edgewright.runtime.objects import Key, Kind, ObjectMeta, RawObject, Resource

CHART_LABEL: Final = "edgewright.dev/chart"
VALUES_LABEL: Final = "edgewright.dev/values"
SOURCES_LABEL: Final = "edgewright.dev/values-from"
"""Whether values came from ConfigMaps or Secrets: those of this revision are not to be shown."""
RETRY_LABEL: Final = "edgewright.dev/retry"
"""A digest of the last request to try again that was heard."""
REVISION_LABEL: Final = "edgewright.dev/revision"
"""The revision that the two digests are about. Helm copies labels to revisions that others make: those are not ours."""

DEPLOYED: Final = "deployed"
FAILED: Final = "failed"
SUPERSEDED: Final = "superseded"
UNINSTALLED: Final = frozenset({"uninstalling", "uninstalled"})
PENDING: Final = frozenset({"pending-install", "pending-upgrade", "pending-rollback"})

MAX_NAME: Final = 53
"""The longest name of a release that Helm takes."""
ENDED: Final = frozenset({"Succeeded", "Failed"})
_TESTS: Final = frozenset({"test", "test-success"})
_KEPT: Final = 40
_INTERRUPTED: Final = "interrupted: marked failed by edgewright"
_ADOPTED: Final = "adopted: the objects of the release were there, its stored revisions were not"
_TYPE: Final = "helm.sh/release.v1"
_INTERRUPTED_MARK: Final = "interrupted"


class ReleaseSecret(Resource, frozen=True, kw_only=True):
    """What Helm stores of a revision; its content stays as it came, until somebody asks for it."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Secret", plural="secrets")

    data: msgspec.Raw = msgspec.Raw(b"{}")


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One stored revision of a release, as its labels tell it."""

    version: int
    status: str
    chart: str = ""
    values: str = ""
    retry: str = ""
    modified: float = 0.0
    """When Helm wrote it last, in seconds since 1970; 0 where it does not say."""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"{}"), repr=False, compare=False)
    """The data of its Secret, as it came."""

    @property
    def key(self) -> Key:
        """The Secret."""
        return Key(self.metadata.namespace, self.metadata.name)

    @property
    def mark(self) -> str:
        """The revision that our digests are about; Helm copies it to what others make."""
        return self.metadata.labels.get(REVISION_LABEL, "")

    @property
    def ours(self) -> bool:
        """Whether this operator made it, or began to."""
        return self.mark == str(self.version)

    @property
    def interrupted(self) -> bool:
        """Whether a crash cut it short."""
        return self.mark == _INTERRUPTED_MARK

    @property
    def pending(self) -> bool:
        """Whether an action on it is under way, or was cut short."""
        return self.status in PENDING


class _Info(msgspec.Struct, frozen=True):
    status: str = ""
    description: str = ""
    notes: str = ""


class _LastRun(msgspec.Struct, frozen=True):
    phase: str = ""


class _Hook(msgspec.Struct, frozen=True):
    name: str = ""
    events: tuple[str, ...] | None = None
    last_run: _LastRun = _LastRun()


class _ChartMetadata(msgspec.Struct, frozen=True):
    name: str = ""
    version: str = ""


class _Chart(msgspec.Struct, frozen=True):
    metadata: _ChartMetadata = _ChartMetadata()


class _Content(msgspec.Struct, frozen=True):
    info: _Info = _Info()
    chart: _Chart = _Chart()
    config: dict[str, Any] | None = None
    manifest: str = ""
    hooks: tuple[_Hook, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The content of a stored revision, as far as we use it."""

    chart_name: str
    manifest: str
    notes: str
    description: str
    chart_version: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    tests: Mapping[str, str] = field(default_factory=dict)
    """The phase that each test ended in; empty where it has not run."""

    @property
    def untested(self) -> bool:
        """Whether a test has not run yet."""
        return any(phase not in ENDED for phase in self.tests.values())

    @property
    def failed_tests(self) -> tuple[str, ...]:
        """The tests that ran and failed."""
        return tuple(name for name, phase in self.tests.items() if phase == "Failed")


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


def labels_of(version: int, *, chart: str, values: str, retry: str = "", sources: bool = False) -> dict[str, str]:
    """What a revision that we make is labelled with."""
    more = {SOURCES_LABEL: "true" if sources else "false", **({RETRY_LABEL: retry} if retry else {})}
    return {CHART_LABEL: chart, VALUES_LABEL: values, REVISION_LABEL: str(version), **more}


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
                retry=labels.get(RETRY_LABEL, ""),
                modified=float(time) if time.isdecimal() else 0.0,
                metadata=each.metadata,
                data=each.data,
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
        chart_version=content.chart.metadata.version,
        config=content.config or {},
        tests={
            each.name: each.last_run.phase for each in content.hooks or () if _TESTS.intersection(each.events or ())
        },
    )


def content_of(revision: Revision) -> Stored:
    """The content of a revision, as it was listed."""
    return read_content({"metadata": {"name": revision.key.name}, "data": msgspec.json.decode(revision.data)})


def marked_failed(secret: RawObject) -> RawObject:
    """The same Secret, saying that its revision failed: what a crash left pending holds up every further action.

    It does not count as an attempt of ours any more, so that the next one need not wait.
    """
    try:
        content: dict[str, Any] = msgspec.json.decode(_unpack(secret))
    except msgspec.MsgspecError as error:
        raise NotARelease(f"{secret['metadata']['name']}: {error}") from error
    info = {**_mapping(content.get("info")), "status": FAILED, "description": _INTERRUPTED}
    metadata = secret["metadata"]
    labels = {**_mapping(metadata.get("labels")), "status": FAILED, REVISION_LABEL: _INTERRUPTED_MARK}
    return {
        **secret,
        "metadata": {**metadata, "labels": labels},
        "data": {"release": _pack({**content, "info": info})},
    }


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A release whose stored revisions are gone while its objects are there: what is known of it."""

    namespace: str
    name: str
    chart: Mapping[str, Any]
    """The metadata of its chart, as Chart.yaml has it."""
    values: Mapping[str, Any]
    manifest: str
    notes: str
    labels: Mapping[str, str]


def written_again(lost: Lost, now: datetime) -> RawObject:
    """The Secret of a first revision that says what is there, as Helm would have stored it."""
    time = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    info = {
        "first_deployed": time,
        "last_deployed": time,
        "deleted": "",
        "description": _ADOPTED,
        "status": DEPLOYED,
        "notes": lost.notes,
    }
    content = {
        "name": lost.name,
        "namespace": lost.namespace,
        "version": 1,
        "info": info,
        "chart": {
            "metadata": dict(lost.chart),
            "lock": None,
            "templates": [],
            "values": {},
            "schema": None,
            "files": [],
        },
        "config": dict(lost.values),
        "manifest": lost.manifest,
        "apply_method": "ssa",
    }
    stamp = str(int(now.timestamp()))
    own = {"owner": "helm", "name": lost.name, "version": "1", "status": DEPLOYED, "createdAt": stamp}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": _TYPE,
        "metadata": {
            "name": f"sh.helm.release.v1.{lost.name}.v1",
            "namespace": lost.namespace,
            "labels": {**own, "modifiedAt": stamp, **lost.labels},
        },
        "data": {"release": _pack(content)},
    }


def _pack(content: Mapping[str, Any]) -> str:
    packed = gzip.compress(msgspec.json.encode(content), mtime=0)
    return base64.b64encode(base64.b64encode(packed)).decode()


def _unpack(secret: RawObject) -> bytes:
    try:
        inner = base64.b64decode(base64.b64decode(_mapping(secret.get("data"))["release"]))
        return gzip.decompress(inner) if inner.startswith(b"\x1f\x8b") else inner
    except (KeyError, ValueError, OSError, EOFError, zlib.error) as error:
        raise NotARelease(f"{secret['metadata']['name']}: holds no release: {error}") from error


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
