"""The devices on the LAN as a program: a simulated fleet, its attestation service, and its registration as Akri's.

`lan.Fleet` runs it in a network namespace of its own as `python -m tests.node.lan_program SETTINGS`, a JSON object.
Every entry of a device's journal is appended to a file when it happens, so that it outlives whatever the test does.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import sys
from pathlib import Path
from typing import Any

from edgewright.cli.instance_registration import Registration, pinned_certificate
from edgewright.cli.signals import stop_on_signals
from edgewright.devices.simulated.attestation import AttestationService
from edgewright.devices.simulated.device import Device, Times
from edgewright.devices.simulated.faults import parse_fault
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.simulated.journal import Entry
from edgewright.runtime import Client, config
from tests.node.layout import APPLICATION, DEVICE, FLEET_ADDRESS, LAN_ADDRESS, LAN_PREFIX, NODE, SCALE


async def run(settings: dict[str, Any]) -> None:
    """Runs the devices until a signal comes; `ready` is printed once they are registered."""

    def told(device: Device, entry: Entry) -> None:
        fields = ("at", "did", "run", "peer", "version", "sha256", "detail")
        said = {name: getattr(entry, name) for name in fields}
        with Path(settings["journal"]).open("a", encoding="utf-8") as journal:
            journal.write(json.dumps({"device": device.address, **said}) + "\n")

    with stop_on_signals() as stop:
        async with Client(config.load(kubeconfig=settings["kubeconfig"])) as client:
            namespace = settings["namespace"]
            fleet = Fleet(
                count=settings["count"],
                pinned=await pinned_certificate(client, namespace=namespace, name="ota-agent-tls"),
                device=DEVICE,
                application=APPLICATION,
                first_address=settings["first_address"],
                network=ipaddress.IPv4Network(f"{LAN_ADDRESS}/{LAN_PREFIX}", strict=False),
                faults=[parse_fault(each) for each in settings["faults"]],
                times=Times(scale=SCALE),
                told=told,
            )
            async with fleet, AttestationService(fleet.recognises, host=FLEET_ADDRESS, port=settings["port"]):
                registration = Registration(
                    client,
                    fleet,
                    namespace=namespace,
                    configuration=settings["configuration"],
                    node=NODE,
                    every=0.5,
                )
                await registration.begin()
                looking = asyncio.create_task(registration.run())
                print("ready", flush=True)
                await stop.wait()
                looking.cancel()
                await registration.end()


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
