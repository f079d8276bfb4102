"""What things are called: the Service and the Pod of a device, label values, and the hash of a desired state.

Both loops use it. The published names are kept wherever Kubernetes takes them; where it does not, they are cut and end
in a hash, so that they stay the same for the same job and device and differ for different ones. Pure.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

from edgewright.api.flashjob import FlashJobSpec

_LABEL_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253
_HASH_LENGTH: Final = 10
_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def service_name(job: str, uuid: str) -> str:
    """The name of a device's Service: `<job>-service-<uuid>`, or one with a hash where that is no DNS-1035 label."""
    published = f"{job}-service-{uuid}"
    if len(published) <= _LABEL_LENGTH and _DNS_1035.fullmatch(published):
        return published
    return _rewritten(published, job, "service", uuid)


def pod_name(job: str, uuid: str) -> str:
    """The name of a device's Pod: `<job>-flashing-pod-<uuid>`, or one with a hash where no Pod may be called so."""
    # Pods have four times the room of Services: the published samples need more than a label's 63 characters.
    published = f"{job}-flashing-pod-{uuid}"
    if len(published) <= _SUBDOMAIN_LENGTH and _DNS_SUBDOMAIN.fullmatch(published):
        return published
    return _rewritten(published, job, "flashing-pod", uuid)


def label_value(text: str) -> str:
    """The text as the value of a label: itself wherever it may be one, else cut and with a hash."""
    if not text or (len(text) <= _LABEL_LENGTH and _LABEL_VALUE.fullmatch(text)):
        return text
    return _rewritten(text, text)


@lru_cache(maxsize=16_384)  # asked for every entry of a job whenever its status is written
def device_name(uuid: str) -> str:
    """The name of a Device that is made for this uuid: itself wherever an object may be called so."""
    if len(uuid) <= _SUBDOMAIN_LENGTH and _DNS_SUBDOMAIN.fullmatch(uuid):
        return uuid
    return _rewritten(uuid, uuid)


def state_of(spec: FlashJobSpec) -> str:
    """The desired state as a short hash: jobs act once on a device for each."""
    return _hash(spec.firmware, spec.version, spec.device or "", length=16)


def _rewritten(name: str, *parts: str) -> str:
    """A DNS-1035 label that begins as readable as `name` and is as unique as `parts`."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not readable or not readable[0].isalpha():
        readable = f"x-{readable}".rstrip("-")
    cut = readable[: _LABEL_LENGTH - _HASH_LENGTH - 1].rstrip("-")
    return f"{cut}-{_hash(*parts, length=_HASH_LENGTH)}"


def _hash(*parts: str, length: int) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:length]
