"""Shows the embedded control plane to a person: `make demo`.

It starts `edgewright up` in a folder of its own, installs our kinds, declares a FlashJob, runs a Pod, kills the control
plane and shows that nothing is lost. Everything that it starts ends with it.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from edgewright.api import CUSTOM_KINDS, custom_resource_definitions
from edgewright.runtime import Client, Key, Kind, config
from edgewright.runtime.definitions import install
from edgewright.runtime.errors import KubernetesError

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = Path(sysconfig.get_path("scripts")) / "edgewright"
SAMPLE = ROOT / "config" / "samples" / "application_v1alpha1_flashjob.yaml"
POD = Kind(group="", version="v1", kind="Pod", plural="pods")
NODE = Kind(group="", version="v1", kind="Node", plural="nodes", namespaced=False)
HELLO = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "hello", "namespace": "default"},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "hello", "image": "shell", "args": ["-c", "echo hello from a Pod; exit 0"]}],
    },
}
_SECONDS = 60.0
say = Console(highlight=False, soft_wrap=True).print


class Up:
    """`edgewright up` as a process."""

    def __init__(self, directory: Path) -> None:
        self._data = directory / "data"
        self._log = directory / "up.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it on a free port."""
        command = [str(PROGRAM), "up", "--data", str(self._data), "--listen", "127.0.0.1:0", "--image", "shell=sh"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def end(self, how: signal.Signals) -> None:
        """Ends it and waits."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()

    @property
    def kubeconfig(self) -> Path:
        """Where it writes how to reach it."""
        return self._data / "kubeconfig"


async def eventually(what: str, ask: Callable[[], Awaitable[Any]]) -> Any:
    """The first answer that is one; a server that is not there yet is asked again."""
    ends = time.monotonic() + _SECONDS
    last: Exception | None = None
    while time.monotonic() < ends:
        try:
            if answer := await ask():
                return answer
        except (KubernetesError, OSError, ValueError) as error:
            last = error
        await asyncio.sleep(0.05)
    raise SystemExit(f"demo: {what} did not happen within {_SECONDS:.0f} s ({last})")


async def connected(up: Up) -> Client:
    """A client of the server, as soon as it is there."""
    before = up.kubeconfig.stat().st_mtime_ns if up.kubeconfig.exists() else 0
    up.start()
    started = time.monotonic()

    async def answers() -> Client | None:
        if not up.kubeconfig.exists() or up.kubeconfig.stat().st_mtime_ns == before:
            return None
        client = Client(config.load(kubeconfig=up.kubeconfig))
        try:
            await client.raw(NODE).list()
        except KubernetesError:
            await client.close()
            raise
        return client

    client: Client = await eventually("an answer of the API server", answers)
    say(f"  the API server answers [bold]{time.monotonic() - started:.1f} s[/] after its start")
    return client


async def show(directory: Path) -> None:
    """The demonstration."""
    up = Up(directory)
    try:
        say("[bold]1. edgewright up:[/] a Kubernetes API and a node, in one process, with nothing installed")
        client = await connected(up)
        say("[bold]2. edgewright crds install:[/] our kinds")
        for document in custom_resource_definitions(CUSTOM_KINDS):
            await install(client, document)
            say(f"  {document['metadata']['name']}")
        say("[bold]3. A FlashJob is declared[/]")
        flash_job = next(iter(CUSTOM_KINDS)).kind
        manifest = yaml.safe_load(SAMPLE.read_text(encoding="utf-8"))
        manifest["metadata"].setdefault("namespace", "default")
        await client.raw(flash_job).apply(manifest, force=True)
        say(f"  {flash_job.kind} {manifest['metadata']['name']} is stored; the controller that acts on it comes next")
        say("[bold]4. A Pod runs[/] as a process on this machine")
        await eventually("the default ServiceAccount", lambda: client.raw(POD).create(HELLO))
        pods = client.raw(POD)

        async def ended() -> Any:
            pod = await pods.get(Key("default", "hello"))
            return pod if pod.get("status", {}).get("phase") == "Succeeded" else None

        pod = await eventually("the end of the Pod", ended)
        said = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        say(f"  Pod hello on node {pod['spec']['nodeName']}: {pod['status']['phase']}, exit code {said['exitCode']}")
        say("[bold]5. kill -9, and up again:[/] nothing is lost")
        await client.close()
        up.end(signal.SIGKILL)
        client = await connected(up)
        kept = await client.raw(flash_job).get(Key("default", manifest["metadata"]["name"]))
        say(f"  FlashJob {kept['metadata']['name']} is there, at version {kept['metadata']['resourceVersion']}")
        await client.close()
    finally:
        up.end(signal.SIGTERM)


def main() -> int:
    """Runs it in a folder that goes afterwards."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="edgewright-demo-", ignore_cleanup_errors=True) as directory:
        asyncio.run(show(Path(directory)))
    say(f"[green]done[/] in {time.monotonic() - started:.1f} s. Try it yourself: [bold].venv/bin/edgewright up[/]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
