"""What the parts of the agent have in common: the device, podman, the disk, time and chance, made once by `Agent`."""

from __future__ import annotations

import random
from dataclasses import dataclass

from edgewright.agent.events import Events
from edgewright.agent.state import State
from edgewright.containers import Podman
from edgewright.runtime.clock import Clock


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a part of the agent works with."""

    device: str
    """The id of the device."""
    podman: Podman
    state: State
    events: Events
    clock: Clock
    rng: random.Random
