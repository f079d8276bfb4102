"""What the parts of a room know of each other: addresses on the LAN, the node, the registry, devices and firmware.

A room has a network of its own, so addresses are always the same, and taken by nobody. Nothing but names is here.
"""

from __future__ import annotations

from typing import Final

NODE: Final = "edge"
LAN_BRIDGE: Final = "e2elan"
LAN_ADDRESS: Final = "10.77.0.1"
"""The node, and the API server, as the LAN knows them."""
LAN_PREFIX: Final = 24
POOL: Final = "10.77.0.8/29"
"""What Services of type LoadBalancer may get."""
FLEET_ADDRESS: Final = "10.77.0.40"
"""The machine of the devices: their attestation service is here."""
FIRST_DEVICE: Final = "10.77.0.50"
POD_NETWORK: Final = "10.244.0.0/24"
REGISTRY: Final = f"{LAN_ADDRESS}:5000"
SCALE: Final = 0.1
"""How fast the devices live, and the flashers that wait for them."""
FIRMWARE: Final = "firmware"
"""The repository of the firmware in the registry."""
VERSIONS: Final = ("0.2.0", "0.3.0", "0.4.0", "0.5.0")
"""The versions there, for devices of this application and type; devices come with 0.1.0."""
APPLICATION: Final = "thermo"
DEVICE: Final = "esp32"
