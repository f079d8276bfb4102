"""The inventory: one Device for each physical device that Akri has discovered, whatever happens to its Instances.

`identity` says which Device an Instance shows, `keeping` what is written down of it, and `inventory` does so. Where it
is enabled, `probing` asks the devices that no Instance shows, and `answers` says what is written down of that. Devices
are made and kept here, and never deleted.
"""

from edgewright.controllers.inventory.inventory import add_inventory

__all__ = ["add_inventory"]
