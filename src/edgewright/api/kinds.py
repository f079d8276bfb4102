"""The kinds whose CRDs are ours, in one place for whoever writes, prints or installs them; it has nothing else."""

from __future__ import annotations

from typing import Final

from edgewright.api.crd import CustomResource
from edgewright.api.device import Device
from edgewright.api.flashjob import FlashJob

CUSTOM_KINDS: Final[tuple[type[CustomResource], ...]] = (FlashJob, Device)
"""The kinds whose CRDs are ours: what `make manifests` writes and `edgewright crds` prints and installs."""
