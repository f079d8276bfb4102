"""The inventory: one Device for each physical device that Akri has discovered, whatever happens to its Instances.

`identity` says which Device an Instance shows, `device_state` what is written down of it, and `instance_loop` does so.
Where it is enabled, `probe_loop` asks the devices that no Instance shows, and `probe_results` says what is written down
of that. Devices are made and kept here, and never deleted.
"""

from edgewright.controllers.inventory.instance_loop import add_inventory

__all__ = ["add_inventory"]
