"""The network of the containers that podman runs: a bridge of the node's own, on which each Pod has its address.

Services have loopback addresses on this machine, which would end in the Pod itself: `open_services` lets the Pod's
side of the bridge pass all of 127.0.0.0/8 but 127.0.0.0/16 on to the machine. So a Service, the API server and a Pod
that is a process have the same address everywhere, and what listens on the machine's own 127.0.0.1 stays out of reach.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Final

from edgewright.containers import ContainerNetworkDefinition, Podman
from edgewright.local.node.addresses import SubnetAddresses
from edgewright.local.node.podman_spec import LABEL
from edgewright.runtime import logs

_ROUTES: Final = """\
set -e
echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet
ip route replace table local local 127.0.0.0/16 dev lo scope host src 127.0.0.1
ip route del table local local 127.0.0.0/8 dev lo 2> /dev/null || true
ip route replace 127.0.0.0/8 via "$1" dev eth0 src "$2"
"""

_log = logs.get("local.node.network")


class ContainerNetwork:
    """The bridge of one node, made when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self.name = f"edgewright-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
        self.addresses = SubnetAddresses()
        self._labels = {LABEL: str(folder)}
        self._made: ContainerNetworkDefinition | None = None
        self._making = asyncio.Lock()

    async def make(self, podman: Podman) -> None:
        """Makes sure that it is there, and that its addresses can be given."""
        async with self._making:
            if self._made is None:
                made = await podman.create_network(self.name, labels=self._labels)
                self.addresses.use((made.subnets or [])[0].subnet)
                self._made = made

    async def open_services(self, pid: int, address: str) -> None:
        """Lets a Pod reach the Services of this machine; `pid` is of a process in its network."""
        made = self._made
        assert made is not None  # noqa: S101 - a Pod is in it
        gateway = (made.subnets or [])[0].gateway
        try:
            bridge = Path(f"/proc/sys/net/ipv4/conf/{made.interface}/route_localnet")
            await asyncio.to_thread(bridge.write_text, "1")
        except OSError as error:
            _log.warning("Services cannot be reached from containers", error=str(error))
            return
        process = await asyncio.create_subprocess_exec(
            *("nsenter", f"--net=/proc/{pid}/ns/net", "sh", "-c", _ROUTES, "sh", gateway, address),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await process.communicate()
        if process.returncode:
            text = output.decode(errors="replace").strip()
            _log.warning("Services cannot be reached from a Pod", address=address, error=text)
