"""What an assembly says about a device: the condition Configured, and why a workload is not sent; pure.

The server shows it on the EdgeDevice when the device downloads its configuration.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from edgewright.api.edgedevice import CONFIGURED, EdgeDeviceStatus
from edgewright.gateway.assembly import Assembled
from edgewright.runtime.conditions import condition, set_condition


def configured(status: EdgeDeviceStatus, assembled: Assembled, *, generation: int, now: datetime) -> EdgeDeviceStatus:
    """The status that says what is in the configuration and what is not; the same one where it said so already."""
    left_out = assembled.left_out
    sentences = [*assembled.problems, *(f"workload {name}: {why}" for name, why in sorted(left_out.items()))]
    if sentences:
        new = condition(CONFIGURED, "False", "LeftOut", "; ".join(sentences), generation=generation)
    else:
        new = condition(CONFIGURED, "True", "Complete", "all its settings and workloads", generation=generation)
    workloads = tuple(
        each
        if each.message == (why := left_out.get(each.name, ""))
        else msgspec.structs.replace(each, message=why[:1024])
        for each in status.known_workloads
    )
    after = msgspec.structs.replace(status, conditions=set_condition(status.conditions, new, now=now))
    return after if workloads == status.known_workloads else after.with_workloads(workloads)
