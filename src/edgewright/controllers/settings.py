"""What somebody who runs the operator can choose; `edgewright run` and `edgewright up` fill it in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgewright.api.flash_pod import FLASHER_IMAGE

if TYPE_CHECKING:
    from edgewright.controllers.chart.settings import ChartSettings


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long things take, in seconds; tests scale them."""

    status_every: float = 1.0
    """The status of a job is written no more often."""
    first_backoff: float = 10.0
    """Before the second attempt on a device; it doubles with every further one."""
    longest_backoff: float = 300.0
    start_grace: float = 120.0
    """An attempt's Pod may take so much longer than the attempt's timeout to be scheduled, pulled and ended."""
    grace: int = 30
    """A flash Pod that is told to stop may finish writing within this."""
    foreign_grace: float = 60.0
    """So long after a foreign flasher has ended, ours next to it may wait for the device to come back."""
    stale_after: float = 600.0
    """A Device that discovery has not seen for so long is Stale."""
    seen_every: float = 300.0
    """That a device was seen is written no more often."""
    probe_every: float = 60.0
    """A Device that discovery does not tell of is asked so often what it runs, where the settings say that it is."""
    recheck: float = 30.0
    """What nobody tells us (a Secret that was missing, a node that is silent) is looked at again so often."""
    original_every: float = 5.0
    """The original's Lease is looked at no more often, and only while something starts or is under way."""
    disconnect_grace: float = 600.0
    """So long an EdgeDevice that is being deleted waits for its device to ask, and to be told to disconnect."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How one operator works."""

    flasher_image: str = FLASHER_IMAGE
    local: bool = False
    """Whether devices may be on this machine: then their endpoints may be loopback addresses."""
    nat: bool = False
    """Devices dial in from other addresses than their own: their Services are open to all."""
    plain_registries: tuple[str, ...] = ()
    """Registry hosts that are spoken to over plain HTTP."""
    attestation: str = ""
    """The URL of the attestation service, where it is not found by the Service's environment variable."""
    probe: bool = False
    """Whether Devices that discovery does not tell of are asked what they run, from where the operator runs."""
    claim_buckets: bool = True
    """Whether each EdgeDevice that names no bucket gets an ObjectBucketClaim, where that kind is installed."""
    bucket_class: str = "openshift-storage.noobaa.io"
    """The storage class of those claims."""
    timing: Timing = Timing()
    charts: ChartSettings | None = None
    """Which kinds charts serve, where they do."""
