"""What a heartbeat says, from what the agent knows: pure, and sent by `Agent`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgewright.agent.hardware import delta
from edgewright.api.edge_hardware import HardwareInfo
from edgewright.api.edge_protocol import (
    DeviceConfigurationMessage,
    EventInfo,
    Heartbeat,
    HeartbeatConfiguration,
    UpgradeStatus,
    WorkloadStatus,
)


def heartbeat_settings(configuration: DeviceConfigurationMessage) -> HeartbeatConfiguration:
    """How often and with what; a minute where the configuration does not say."""
    found = configuration.configuration.heartbeat if configuration.configuration else HeartbeatConfiguration()
    return found if found.period_seconds > 0 else HeartbeatConfiguration(hardware_profile=found.hardware_profile)


def hardware_to_send(
    configuration: DeviceConfigurationMessage, known: HardwareInfo | None, now: HardwareInfo
) -> HardwareInfo | None:
    """The hardware that goes with this heartbeat: none, all of it, or what has changed since `known`."""
    profile = heartbeat_settings(configuration).hardware_profile
    if not profile.include:
        return None
    return delta(known, now) if profile.scope == "delta" else now


def compose(
    *,
    version: str,
    statuses: Mapping[str, str],
    last_upload: Callable[[str], str],
    problems: Mapping[str, str],
    rolled_back: Mapping[str, str],
    upgrade: UpgradeStatus,
    hardware: HardwareInfo | None,
    events: tuple[EventInfo, ...],
) -> Heartbeat:
    """The message; a device with a problem is degraded."""
    return Heartbeat(
        status="degraded" if problems else "up",
        version=version,
        workloads=tuple(
            WorkloadStatus(
                name=name,
                status=status,
                last_data_upload=last_upload(name),
                rolled_back=name in rolled_back,
                message=rolled_back.get(name) or problems.get(f"workload {name}", ""),
            )
            for name, status in sorted(statuses.items())
        ),
        upgrade=upgrade,
        hardware=hardware,
        events=events,
    )
