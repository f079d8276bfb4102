"""Following a mini-cluster to its end: why it waits, what its command says, and with which code it ended.

`flux run` and `flux logs` call it. It only reads. A log that breaks off is asked for again, and goes on where it was.
"""

from __future__ import annotations

import asyncio
import codecs
import sys
from collections.abc import Callable
from typing import Final

from edgewright.api.flux import FluxPhase
from edgewright.api.minicluster import MiniCluster
from edgewright.api.pod import Pod
from edgewright.cli.cluster import Place, missing
from edgewright.cli.failure import Failed
from edgewright.cli.rollout_follow import kept
from edgewright.controllers.minicluster.indexed_decisions import lead_pod
from edgewright.controllers.minicluster.objects import CLUSTER
from edgewright.runtime.cache import Cache
from edgewright.runtime.client import Client
from edgewright.runtime.errors import ApiError, KubernetesError, NotFound

_ENDED: Final = {FluxPhase.SUCCEEDED, FluxPhase.FAILED}
_LONGEST: Final = 86_400.0
"""One answer with a log is no longer than that; a longer one is asked for again."""
_PAUSE: Final = 0.5
_SILENT: Final = 10.0
"""After so many seconds without a status somebody is told that there may be no operator."""


async def to_the_end(client: Client, where: Place, name: str, *, say: Callable[[str], None]) -> int:
    """Shows the log of the lead broker until the command has ended; gives its exit code.

    Failed where it ended without one: it could not be run, or was deleted.
    """
    clusters = Cache(client.of(MiniCluster), namespaces=[where.namespace], fields=f"metadata.name={name}")
    pods = Cache(client.of(Pod), namespaces=[where.namespace], labels=f"{CLUSTER}={name}")
    log: asyncio.Task[None] | None = None
    told = ""
    try:
        async with kept(clusters, pods) as changed:
            while True:
                changed.clear()
                found = clusters.get(where.key(name))
                if found is None:
                    raise Failed(f"MiniCluster {name} was deleted before its command had ended")
                lead = lead_pod(tuple(pods))
                if log is None and lead is not None and _has_started(lead, found.runner_name):
                    log = asyncio.create_task(_copy(client, lead, found.runner_name, follow=True))
                if found.status.phase in _ENDED:
                    return await _end(client, found, lead, log)
                if log is None and found.status.message and found.status.message != told:
                    told = found.status.message
                    say(f"{found.status.phase}: {told}")
                await _change(changed, None if found.status.phase or told else _SILENT)
                if not changed.is_set():
                    told = "nobody has taken it on yet: does the operator run, with `--controllers flux` or all?"
                    say(told)
    finally:
        if log is not None:
            log.cancel()
            await asyncio.gather(log, return_exceptions=True)


async def _change(changed: asyncio.Event, limit: float | None) -> None:
    """Waits for the next change, or as long as nobody says anything."""
    try:
        async with asyncio.timeout(limit):
            await changed.wait()
    except TimeoutError:
        return


async def _end(client: Client, found: MiniCluster, lead: Pod | None, log: asyncio.Task[None] | None) -> int:
    """All of the log, then the code."""
    if log is not None:
        await log
    elif lead is not None:
        await _copy(client, lead, found.runner_name, follow=False)
    if found.status.exit_code is None:
        raise Failed(f"MiniCluster {found.metadata.name}: {found.status.message}")
    return found.status.exit_code


async def show_log(client: Client, where: Place, name: str, *, follow: bool) -> None:
    """Shows the log of the lead broker as far as it is, or to its end."""
    try:
        found = await client.of(MiniCluster).get(where.key(name))
    except NotFound as error:
        raise missing(MiniCluster.kind, name, where, error) from None
    page = await client.of(Pod).list(where.namespace, labels=f"{CLUSTER}={name}")
    lead = lead_pod(tuple(page.items))
    if lead is None or not _has_started(lead, found.runner_name):
        raise Failed(f"MiniCluster {name} has no log: {found.status.message or 'it is not started yet'}")
    await _copy(client, lead, found.runner_name, follow=follow)


def _has_started(pod: Pod, container: str) -> bool:
    return any(
        each.name == container and (each.state.running or each.state.terminated)
        for each in pod.status.container_statuses
    )


async def _copy(client: Client, pod: Pod, container: str, *, follow: bool) -> None:
    """Copies a log to standard output; what was copied before an interruption is left out after it."""
    path = f"{Pod.kind.path(pod.metadata.namespace, pod.metadata.name)}/log"
    query = {"container": container, **({"follow": "true"} if follow else {})}
    copied = 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        seen = 0
        try:
            async with client.transport.stream(path, query, seconds=_LONGEST) as parts:
                async for part in parts:
                    new = part[max(0, copied - seen) :]
                    seen += len(part)
                    copied = max(copied, seen)
                    sys.stdout.write(decoder.decode(new))
                    sys.stdout.flush()
        except NotFound:
            return  # the Pod is gone: the status tells the end
        except KubernetesError as error:
            if isinstance(error, ApiError) and not follow:
                raise
            await asyncio.sleep(_PAUSE)  # the node is not there, or the container has not quite started
        else:
            return
