"""How much of a registry's answers is taken, and how often it is asked again.

Every module of this package is handed the same `Limits`; tests make them small. Nothing is counted here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes in bytes and times in seconds; no firmware for a microcontroller comes near them."""

    manifest: int = 4 << 20
    """Of an index, a manifest, an image's configuration or a signed payload."""
    layer: int = 64 << 20
    """Of all layers together, as they lie in the registry."""
    unpacked: int = 64 << 20
    """Of all layers together, unpacked."""
    redirects: int = 5
    attempts: int = 6
    """How often one thing is asked for before the registry is given up."""
    pause: float = 0.5
    """Before the second attempt; it doubles with each, up to ten seconds."""
