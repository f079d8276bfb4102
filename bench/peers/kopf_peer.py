"""The benchmark's peer on kopf: a handler that fills in the status, with the persistence that its users get by default.

Called by the driver on a namespace that already holds the objects. kopf writes each twice: its own annotation, and the
status. It ends when the last status write is answered, and prints one line of JSON. Its logs are silenced, which also
spares it the Kubernetes Events that it would post for them.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from types import SimpleNamespace
from typing import Any

import aiohttp
import kopf

from bench.peers.measurement import GROUP, PLURAL, VERSION, Measurement, parse_arguments, wanted_status

_READS = {"GET", "HEAD", "OPTIONS"}


def observed_by(measurement: Measurement) -> aiohttp.TraceConfig:
    """Counts the writes where they leave the program, and sees the answers: kopf tells a handler of neither."""

    async def sent(_: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestStartParams) -> None:
        if params.method not in _READS:
            measurement.requests += 1

    async def answered(_: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
        if params.method == "PATCH" and params.url.name == "status" and params.response.ok:
            measurement.written(params.url.parent.name)

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(sent)
    trace.on_request_end.append(answered)
    return trace


async def write_status(*, meta: Any, patch: Any, **_: Any) -> None:
    patch.status.update(wanted_status(meta["generation"]))


async def run(args: argparse.Namespace) -> str:
    os.environ["KUBECONFIG"] = args.kubeconfig
    logging.basicConfig(level=logging.WARNING)
    measurement = Measurement(args.objects)

    async def log_in(**kwargs: Any) -> Any:
        # The session that kopf itself would make of these credentials, but observed.
        found = kopf.login_with_kubeconfig(**kwargs)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=found.as_ssl_context()),
            headers=found.as_http_headers(),
            trace_configs=[observed_by(measurement)],
        )
        return kopf.AiohttpSession(
            aiohttp_session=session, server=found.server, default_namespace=found.default_namespace
        )

    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(log_in)
    kopf.on.create(GROUP, VERSION, PLURAL, registry=registry)(write_status)
    kopf.on.resume(GROUP, VERSION, PLURAL, registry=registry)(write_status)
    settings = kopf.OperatorSettings()
    # The one departure from kopf's defaults, for the same workers as everybody. A worker of kopf belongs to one object
    # and by default waits 5 s for more of it: a limit without a shorter wait would measure little but that wait.
    settings.queueing.worker_limit = args.workers
    settings.queueing.idle_timeout = 0.01
    await kopf.operator(
        registry=registry,
        settings=settings,
        standalone=True,
        namespaces=[args.namespace],
        stop_flag=measurement.finished,
    )
    return measurement.report()


if __name__ == "__main__":
    print(asyncio.run(run(parse_arguments(__doc__))))
