"""The kinds whose CRDs are ours, in one place for whoever writes, prints or installs them; it has nothing else."""

from __future__ import annotations

from typing import Final

from edgewright.api.capabilities import CAPABILITIES, kinds_of
from edgewright.api.crd import CustomResource

CUSTOM_KINDS: Final[tuple[type[CustomResource], ...]] = kinds_of(CAPABILITIES)
"""The kinds whose CRDs are ours: what `make manifests` writes and `edgewright crds` prints and installs by default."""
