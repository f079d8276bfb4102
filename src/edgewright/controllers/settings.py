"""What somebody who runs the operator can choose; `edgewright run` and `edgewright up` fill it in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgewright.api.flash_pod import FLASHER_IMAGE

if TYPE_CHECKING:
    from edgewright.controllers.chart.settings import ChartSettings
    from edgewright.controllers.notifications.webhook import Webhook


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long things take, in seconds; tests scale them."""

    status_every: float = 1.0
    """The status of a job is written no more often."""
    first_backoff: float = 10.0
    """Before the second attempt on a device; it doubles with every further one."""
    longest_backoff: float = 300.0
    longest_claim: float = 86_400.0
    """No further attempt is made for a claim that is so old: nobody has a device for weeks."""
    longest_wait: float = 3600.0
    """A claim that cannot go on (for want of an address, a quota, or room within limits) is given back after that."""
    start_grace: float = 120.0
    """An attempt's Pod may take so much longer than the attempt's timeout to be scheduled, pulled and ended."""
    grace: int = 30
    """A flash Pod that is told to stop may finish writing within this."""
    foreign_grace: float = 60.0
    """So long after a foreign flasher has ended, ours next to it may wait for the device to come back."""
    failure_grace: float = 30.0
    """So long after a foreign flasher has ended with an error, the device may still show what it was given."""
    stale_after: float = 600.0
    """A Device that discovery has not seen for so long is Stale."""
    seen_every: float = 300.0
    """That a device was seen is written no more often."""
    probe_every: float = 60.0
    """A Device that discovery does not tell of is asked so often what it runs, where the settings say that it is."""
    observe_every: float = 10.0
    """A Device that a rollout watches during its soak time is asked so often, also where discovery tells of it."""
    observed_stale_after: float = 120.0
    """A Device that a rollout watches is Stale so soon: else none could be missed within a soak time of minutes."""
    soak_grace: float = 900.0
    """So long after a soak time its devices may take to be seen once more. It is longer than `stale_after` and than the
    longest pause between two writes that a device was seen: one that is there is seen by then, one that is gone Stale.
    """
    recheck: float = 30.0
    """What nobody tells us (a Secret that was missing, a node that is silent) is looked at again so often."""
    original_every: float = 5.0
    """The original's Lease is looked at no more often, and only while something starts or is under way."""
    offline_after: float = 300.0
    """An EdgeDevice that was not heard for so long, and for three of its heartbeats, is offline."""
    online_every: float = 10.0
    """Who is offline is decided so often."""
    gateway_pause: float = 90.0
    """Where no gateway has written for so long, no EdgeDevice is judged."""
    disconnect_grace: float = 600.0
    """So long an EdgeDevice that is being deleted waits for its device to ask, and to be told to disconnect."""

    def of_observed(self) -> Timing:
        """As it is for Devices that a rollout watches."""
        return replace(self, stale_after=min(self.stale_after, self.observed_stale_after))


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
    flasher_images: tuple[str, ...] = ()
    """The registries or repositories that spec.flashjobPodImage may be of, besides our own flasher; none: all."""
    pull_secrets: tuple[str, ...] = ()
    """The names that flash Pods may have as imagePullSecrets; none: all."""
    service_accounts: tuple[str, ...] = ()
    """The ServiceAccounts that flash Pods may have; none: all."""
    check_secrets: bool = True
    """Whether the Secrets that a job names are looked for before a device is claimed, for which it must get them."""
    tolerations: tuple[str, ...] = ()
    """The keys of the taints that flash Pods may tolerate; none: all."""
    pod_labels: tuple[str, ...] | None = None
    """How the labels begin that a job may give its Pods; None: all but those on which programs act."""
    pod_annotations: tuple[str, ...] | None = None
    """How the annotations begin that a job may give its Pods; None: all but those on which programs act."""
    token_hosts: tuple[str, ...] = ()
    """Hosts that may see credentials for registries of other domains, because they give out tokens for them."""
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
    webhook: Webhook | None = None
    """Who is told when a rollout pauses, fails, needs approval or ends; None: nobody."""
