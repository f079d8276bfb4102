"""The live names that a shell offers behind a command: rollouts, devices, mini-clusters, namespaces, contexts.

Typer calls these while somebody types, kubectl by `kubectl_complete-edgewright`. A server that is unavailable,
slow or refuses costs a second at most and is never mentioned; nothing is changed.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, Final

import typer

from edgewright.runtime.objects import Kind

SECONDS: Final = 1.5
"""How long a shell waits at the most."""
_NAMESPACE: Final = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)


def rollouts(context: typer.Context, incomplete: str) -> list[str]:
    """The FirmwareRollouts of the namespace that was typed."""
    from edgewright.api.firmwarerollout import FirmwareRollout  # noqa: PLC0415 - only while somebody completes

    return _live(context, FirmwareRollout.kind, incomplete)


def miniclusters(context: typer.Context, incomplete: str) -> list[str]:
    """The MiniClusters of the namespace that was typed."""
    from edgewright.api.minicluster import MiniCluster  # noqa: PLC0415

    return _live(context, MiniCluster.kind, incomplete)


def devices(context: typer.Context, incomplete: str) -> list[str]:
    """The Devices."""
    from edgewright.api.device import Device  # noqa: PLC0415

    return _live(context, Device.kind, incomplete)


def edge_devices(context: typer.Context, incomplete: str) -> list[str]:
    """The EdgeDevices of the namespace that was typed."""
    from edgewright.api.edgedevice import EdgeDevice  # noqa: PLC0415

    return _live(context, EdgeDevice.kind, incomplete)


def namespaces(context: typer.Context, incomplete: str) -> list[str]:
    """The namespaces of the cluster."""
    return _live(context, _NAMESPACE, incomplete)


def _live(context: typer.Context, kind: Kind, incomplete: str) -> list[str]:
    """The names of a kind that begin so; none whatever goes wrong."""
    import asyncio  # noqa: PLC0415 - every command imports this module, and few need that

    try:
        return [name for name in asyncio.run(_names(context.params, kind)) if name.startswith(incomplete)]
    except Exception:
        return []


async def _names(typed: dict[str, Any], kind: Kind) -> list[str]:
    import asyncio  # noqa: PLC0415

    from edgewright.cli.cluster import load  # noqa: PLC0415 - that module uses this one
    from edgewright.runtime.client import Client  # noqa: PLC0415

    file = typed.get("kubeconfig")
    settings = load(Path(file) if file else None, typed.get("context"), typed.get("namespace"))
    async with asyncio.timeout(SECONDS), Client(settings, timeout=SECONDS, retries=0) as client:
        everywhere = typed.get("all_namespaces") or not kind.namespaced
        page = await client.raw(kind).list(None if everywhere else settings.namespace)
        return sorted(item["metadata"]["name"] for item in page.items)


def plugin() -> None:
    """The console script that kubectl runs to complete `kubectl edgewright …`: a candidate a line, then `:4`."""
    for candidate in candidates(sys.argv[1:]):
        print(candidate)
    print(":4")  # no file names


def candidates(words: list[str]) -> list[str]:
    """What may stand where the last word is, by the same way as for a shell."""
    from edgewright.cli.line import run  # noqa: PLC0415

    typed = shlex.join(["edgewright", *words[:-1]]) + " " + (words[-1] if words else "")
    asked = {
        "_EDGEWRIGHT_COMPLETE": "complete_fish",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": typed,
    }
    before, argv, answer = dict(os.environ), sys.argv, io.StringIO()
    os.environ.update(asked)
    sys.argv = ["edgewright"]
    try:
        with redirect_stdout(answer), suppress(SystemExit):
            run()
    finally:
        sys.argv = argv
        os.environ.clear()
        os.environ.update(before)
    return answer.getvalue().splitlines()


def word_typed(environ: Mapping[str, str]) -> list[str]:
    """The command that somebody completes, where it stands there already: only its module is needed then."""
    return environ.get("_TYPER_COMPLETE_ARGS", environ.get("COMP_WORDS", "")).split()[1:2]
