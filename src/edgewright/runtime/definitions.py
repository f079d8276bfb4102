"""Installs custom resource definitions and waits until the server serves them.

Called by whoever needs a kind to be there: the command line, the embedded control plane, benchmarks and tests. It knows
nothing of which definitions there are.
"""

from __future__ import annotations

import asyncio
from typing import Literal, TypeAlias

from edgewright.runtime.client import Client, RawApi
from edgewright.runtime.errors import KubernetesError, NotFound
from edgewright.runtime.objects import Key, Kind, RawObject

DEFINITION = Kind(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)

_REFUSED_SECONDS = 2.0

Outcome: TypeAlias = Literal["created", "configured", "unchanged"]


async def install(client: Client, document: RawObject, *, dry_run: bool = False, within: float = 30.0) -> Outcome:
    """Makes one definition so and returns when it is served; objects of the kind that exist already are kept."""
    api = client.raw(DEFINITION)
    try:
        before: int | None = _generation(await api.get(Key("", document["metadata"]["name"])))
    except NotFound:
        before = None
    # Force: another manager's older copy of the same schema (kubectl apply, say) must not keep this one out.
    written = await api.apply(document, force=True, dry_run=dry_run)
    if not dry_run:
        await _wait_established(api, written, within=within)
    if before is None:
        return "created"
    return "unchanged" if before == _generation(written) else "configured"


def _generation(document: RawObject) -> int:
    return int(document["metadata"]["generation"])


def established(document: RawObject) -> tuple[bool, str]:
    """Whether the server serves the definition, and why not where it says so."""
    conditions = {each["type"]: each for each in document.get("status", {}).get("conditions") or ()}
    names = conditions.get("NamesAccepted", {})
    refusal = str(names.get("message", "")) if names.get("status") == "False" else ""
    return conditions.get("Established", {}).get("status") == "True", refusal


async def _wait_established(api: RawApi, document: RawObject, *, within: float) -> None:
    served, refusal = established(document)
    try:
        async with asyncio.timeout(within) as limit:
            while not served:
                if refusal:
                    # Told no: that may be old, from before somebody gave the names free, but not for long.
                    limit.reschedule(asyncio.get_running_loop().time() + min(within, _REFUSED_SECONDS))
                document = await _next_state(api, document)
                served, refusal = established(document)
    except TimeoutError:
        problem = refusal or f"the server does not serve it after {within:g} s"
        raise KubernetesError(f"{document['metadata']['name']}: {problem}") from None


async def _next_state(api: RawApi, document: RawObject) -> RawObject:
    """The definition after its next change."""
    metadata = document["metadata"]
    watch = api.watch(fields=f"metadata.name={metadata['name']}", resource_version=metadata["resourceVersion"])
    try:
        async for events in watch:
            for event in events:
                if event.type != "BOOKMARK":
                    return api.decode(event.object)
    finally:
        await watch.aclose()
    return await api.get(Key("", metadata["name"]))
