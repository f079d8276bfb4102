"""`edgewright edge logs|exec`: the last lines of a workload on a device, and a command in it, through the gateway.

Each creates a request at the API server, which decides whether the caller may, and waits for what the device answers.
The device answers only where its own settings allow it. The request is removed in any case.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

from edgewright.api.edgeaccess import (
    DEFAULT_LINES,
    DEFAULT_SECONDS,
    DONE,
    FAILED,
    MAX_SECONDS,
    AccessStatus,
    EdgeExecRequest,
    EdgeLogRequest,
    ExecRequestSpec,
    LogRequestSpec,
)
from edgewright.api.edgedevice import EdgeDevice
from edgewright.cli import completion, terminal
from edgewright.cli.cluster import Context, Kubeconfig, Namespace, Place, missing, place
from edgewright.cli.failure import Failed
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import KubernetesError, NotFound
from edgewright.runtime.objects import ObjectMeta

Device = Annotated[
    str, typer.Argument(help="The id of the device.", autocompletion=completion.edge_devices, show_default=False)
]
Workload = Annotated[str, typer.Argument(help="The workload.", show_default=False)]
Container = Annotated[
    str, typer.Option("--container", "-c", help="The container of its pod; default: the first.", show_default=False)
]
Timeout = Annotated[int, typer.Option("--timeout", help=f"Seconds that the device may take, {MAX_SECONDS} at most.")]
_LOOK_EVERY: Final = 0.2
_ON_THE_WAY: Final = 15.0
"""Seconds that an answer may be on its way besides."""


def logs(
    device: Device,
    workload: Workload,
    *,
    tail: Annotated[int, typer.Option("--tail", help="So many of the last lines, 10000 at most.")] = DEFAULT_LINES,
    container: Container = "",
    timeout: Timeout = DEFAULT_SECONDS,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show the last lines of a workload on a device, where the device allows it (remote-logs in its settings)."""
    where = place(kubeconfig, context, namespace)
    spec = LogRequestSpec(
        device=device, workload=workload, container=container, tail_lines=tail, timeout_seconds=timeout
    )
    request = EdgeLogRequest(metadata=_metadata("logs", where), spec=spec)
    _give(where.run(lambda client: answer_to(client, where, request)))


def execute(
    device: Device,
    workload: Workload,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="The program and its arguments.")],
    *,
    container: Container = "",
    timeout: Timeout = DEFAULT_SECONDS,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Run a command in a workload on a device, where the device allows it (remote-exec in its settings)."""
    where = place(kubeconfig, context, namespace)
    spec = ExecRequestSpec(
        device=device, workload=workload, container=container, command=tuple(command), timeout_seconds=timeout
    )
    request = EdgeExecRequest(metadata=_metadata("exec", where), spec=spec)
    status = where.run(lambda client: answer_to(client, where, request))
    _give(status)
    if status.exit_code:
        raise typer.Exit(status.exit_code)


async def answer_to(client: Client, where: Place, request: EdgeLogRequest | EdgeExecRequest) -> AccessStatus:
    """Makes a request, waits for its answer, and removes it."""
    spec = request.spec
    try:
        await client.of(EdgeDevice).get(where.key(spec.device))
    except NotFound as error:
        raise missing(EdgeDevice.kind, spec.device, where, error) from None
    api: Any = client.of(type(request))
    made = await api.create(request)
    try:
        clock = SystemClock()
        async with asyncio.timeout(spec.timeout_seconds + _ON_THE_WAY):
            while (found := (await api.get(made.key)).status).phase not in {DONE, FAILED}:
                await clock.sleep(_LOOK_EVERY)
    except TimeoutError:
        raise Failed(
            f"device {spec.device} has not answered within {spec.timeout_seconds} s: is it online, and is its agent "
            "one that knows this?"
        ) from None
    finally:
        with suppress(KubernetesError):
            await api.delete(made.key, uid=made.metadata.uid)
    if found.phase == FAILED:
        raise Failed(f"device {spec.device}: {found.message}")
    status: AccessStatus = found
    return status


def _metadata(prefix: str, where: Place) -> ObjectMeta:
    return ObjectMeta(name=f"{prefix}-{uuid.uuid4().hex[:12]}", namespace=where.namespace)


def _give(status: AccessStatus) -> None:
    if status.truncated:
        terminal.say("There is more than is shown.")
    if status.output:
        terminal.give(status.output.removesuffix("\n"))
