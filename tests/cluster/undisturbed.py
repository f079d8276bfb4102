"""API servers on which nobody but the test writes the objects that it makes.

An exchange that creates an object and then updates it has one right answer only where no controller has written the
object in between: those of workloads write its status, that of claims binds it, the scheduler adds conditions. The
controllers that make what a new namespace needs run on both servers.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from tests.harness import ControlPlane, LocalPlane

_PROGRAM = Path(__file__).with_name("undisturbed_program.py")
_CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "endpointslice-controller",
    "clusterrole-aggregation-controller",
)

# Without the controller that takes it away, no new Node may get the taint of one that is not ready.
undisturbed_cluster = functools.partial(
    ControlPlane,
    parts={"controller-manager"},
    controllers=_CONTROLLERS,
    api_flags=("--disable-admission-plugins=TaintNodesByCondition",),
)
"""Makes a real control plane, and starts nothing."""

undisturbed_plane = functools.partial(LocalPlane, program=(sys.executable, str(_PROGRAM)))
"""Makes an `edgewright up`, and starts nothing."""
