"""Objects that were restored without what Helm stored of their release: taken over as they are, nothing installed.

`controller` asks before it would install for an object that had a release once. Hooks do not run, generated passwords
stay, and Helm afterwards finds a release that says what is there; what differs from the chart is drift, and is treated
as drift is.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from edgewright.controllers.chart.discovery import Discovery
from edgewright.controllers.chart.manifests import RELEASE_NAME, RELEASE_NAMESPACE, Part, parts
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, RawObject
from edgewright.runtime.yaml_dumper import dump


async def adoptable(client: Client, discovery: Discovery, manifest: str, *, namespace: str, release: str) -> str | None:
    """The manifest of a release as its objects are; None where no object carries its marks."""
    bodies, found = [], False
    for part in parts(manifest):
        live = await _live(client, discovery, part, namespace)
        marked = live is not None and is_marked(live, namespace=namespace, release=release)
        found = found or marked
        bodies.append(as_found(part, live) if live is not None and marked else part.body)
    if not found:
        return None
    return "".join(f"---\n{dump(body)}" for body in bodies)


async def _live(client: Client, discovery: Discovery, part: Part, namespace: str) -> RawObject | None:
    kind = await discovery.kind_of(part.type)
    if kind is None:
        return None
    key = Key(part.namespace or namespace if kind.namespaced else "", part.name)
    try:
        return await client.raw(kind).get(key)
    except NotFound:
        return None


def is_marked(live: RawObject, *, namespace: str, release: str) -> bool:
    """Whether an object says that it belongs to a release."""
    annotations = live["metadata"].get("annotations") or {}
    return (annotations.get(RELEASE_NAMESPACE), annotations.get(RELEASE_NAME)) == (namespace, release)


def as_found(part: Part, live: RawObject) -> Mapping[str, Any]:
    """An object of the manifest; a Secret with what it holds now, for that may have been made at random."""
    if part.type.kind != "Secret" or part.type.api_version != "v1":
        return part.body
    held = live.get("data") or {}
    data = {key: held.get(key, value) for key, value in (part.body.get("data") or {}).items()}
    texts = {
        key: held.get(key, base64.b64encode(str(value).encode()).decode())
        for key, value in (part.body.get("stringData") or {}).items()
    }
    body = {key: value for key, value in part.body.items() if key != "stringData"}
    return {**body, "data": {**data, **texts}}
