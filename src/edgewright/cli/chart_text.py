"""What is said about objects that charts serve: rows, a sentence for why, and the lines of a status. Pure functions.

`chart_releases` prints what they return. Raw objects come in, so that a status of operator-sdk's can be read too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from edgewright.controllers.chart.releases import Revision, Stored
from edgewright.runtime import spans
from edgewright.runtime.objects import RawObject

HEAD: Final = ("NAME", "KIND", "STATE", "READY", "REVISION", "AGE", "MESSAGE")
HISTORY_HEAD: Final = ("REVISION", "UPDATED", "STATUS", "CHART", "DESCRIPTION")


def conditions(obj: RawObject) -> dict[str, dict[str, Any]]:
    """The conditions of an object, by type."""
    return {each["type"]: each for each in (obj.get("status") or {}).get("conditions") or ()}


def row(obj: RawObject, kind: str, *, now: datetime, namespaces: bool) -> list[str]:
    """One line of the list."""
    metadata, status, found = obj["metadata"], obj.get("status") or {}, conditions(obj)
    ready = found.get("Ready", {})
    created = metadata.get("creationTimestamp")
    return [
        *([metadata.get("namespace", "")] if namespaces else []),
        metadata["name"],
        kind,
        "Suspended" if "Suspended" in found else status.get("state", "") or "Unknown",
        ready.get("status", "Unknown"),
        str(status.get("revision", "") or ""),
        spans.ago(datetime.fromisoformat(created), now) if created else "",
        (ready.get("message") or "").splitlines()[0] if ready.get("status") != "True" and ready.get("message") else "",
    ]


def history_row(revision: Revision, stored: Stored, *, now: datetime) -> list[str]:
    """One line of a release's history, as `helm history` has it."""
    age = spans.ago(datetime.fromtimestamp(revision.modified, tz=now.tzinfo), now) if revision.modified else ""
    chart = f"{stored.chart_name}-{stored.chart_version}" if stored.chart_version else stored.chart_name
    return [str(revision.version), age, revision.status, chart, stored.description]


def lines(obj: RawObject, kind: str) -> Iterator[str]:
    """The status of one object."""
    status = obj.get("status") or {}
    release = (status.get("deployedRelease") or {}).get("name", "")
    yield f"{kind} {obj['metadata']['name']}: {why(obj, kind)}"
    yield f"  release    {release or 'none'}"
    yield f"  state      {status.get('state') or 'Unknown'}"
    yield f"  revision   {status.get('revision') or 0}"
    if status.get("failures"):
        yield f"  failures   {status['failures']}"
    for name, each in conditions(obj).items():
        message = (each.get("message") or "").splitlines()
        yield f"  {name}={each['status']} {each.get('reason', '')}{f': {message[0]}' if message else ''}"


def why(obj: RawObject, kind: str) -> str:
    """Why an object is not ready, and what to do about it, in a sentence."""
    found, metadata = conditions(obj), obj["metadata"]
    target = f"{kind.lower()}/{metadata['name']}"
    ready = found.get("Ready", {})
    message = (ready.get("message") or "").strip()
    if metadata.get("deletionTimestamp"):
        answer = f"it is being deleted: {message or 'its release is uninstalled first'}."
    elif "Suspended" in found:
        answer = f"it is suspended: nothing is done until `edgewright chart resume {target}`."
    elif not found:
        answer = "no operator has seen it yet: is one running that serves this kind (`edgewright run --watches FILE`)?"
    elif ready.get("observedGeneration", 0) < metadata.get("generation", 0):
        answer = "its last change has not been looked at yet: wait, or see whether the operator runs."
    elif ready.get("reason") == "RetriesExhausted":
        answer = f"{message}."
    elif "ReleaseFailed" in found:
        undone = f" ({found['Remediated']['message']})" if "Remediated" in found else ""
        cause = (found["ReleaseFailed"].get("message") or "").strip()
        now = f"`edgewright chart retry {target}` does it now"
        answer = f"its last attempt failed{undone}: {cause}. It is tried again; {now}."
    elif "Irreconcilable" in found:
        answer = f"nothing was done: {(found['Irreconcilable'].get('message') or '').strip()}."
    elif ready.get("status") != "True":
        answer = f"{ready.get('reason', 'it is not ready')}: {message}."
    elif "Drifted" in found:
        answer = f"it is ready, but others changed objects of it: {found['Drifted']['message']}."
    else:
        answer = "it is ready."
    return answer
