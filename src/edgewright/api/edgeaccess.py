"""EdgeLogRequest and EdgeExecRequest: somebody wants the last lines of a workload on a device, or to run a command.

`edgewright edge logs` and `edge exec` make one and read its status; the gateway hands it to the device and writes what
came back. They are two kinds, so that the API server allows one or the other to whoever asks. Whether the device does
it is up to its own settings. They live for minutes.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, TypeAlias

from edgewright.api.annotations import Rule, Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.runtime.objects import Kind, Struct

MAX_OUTPUT: Final = 65_536
"""How many characters come back at most."""
MAX_SECONDS: Final = 120
DEFAULT_SECONDS: Final = 30
DEFAULT_LINES: Final = 200
KEPT_SECONDS: Final = 600
"""So long after it was made a request is deleted, whatever became of it."""
TAKEN: Final = "Taken"
"""The device has got it, and is the only one that ever does."""
DONE: Final = "Done"
FAILED: Final = "Failed"

_ONCE: Final = Schema(required=True, rules=(Rule(rule="self == oldSelf", message="make another request instead"),))
Name: TypeAlias = Annotated[str, Schema(min_length=1, max_length=253, required=True)]
Seconds: TypeAlias = Annotated[int, Schema(minimum=1, maximum=MAX_SECONDS)]


class AccessStatus(Struct, frozen=True, kw_only=True):
    """What became of the request."""

    phase: Annotated[str, Schema(max_length=63)] = ""
    """Taken: the device has got it; Done; Failed."""
    output: Annotated[str, Schema(max_length=MAX_OUTPUT)] = ""
    """What came back."""
    truncated: bool = False
    """Whether there was more."""
    exit_code: int | None = None
    """How the command ended."""
    message: Annotated[str, Schema(max_length=1024)] = ""
    """Why there is nothing, in a sentence."""


class LogRequestSpec(Struct, frozen=True, kw_only=True):
    """Which lines."""

    device: Name = ""
    """The EdgeDevice, in the same namespace."""
    workload: Name = ""
    """The workload."""
    container: Annotated[str, Schema(max_length=253)] = ""
    """The container of its pod; empty: the first."""
    tail_lines: Annotated[int, Schema(minimum=1, maximum=10_000)] = DEFAULT_LINES
    """So many of the last lines."""
    timeout_seconds: Seconds = DEFAULT_SECONDS
    """How long the device may take."""


class ExecRequestSpec(Struct, frozen=True, kw_only=True):
    """Which command."""

    device: Name = ""
    """The EdgeDevice, in the same namespace."""
    workload: Name = ""
    """The workload."""
    container: Annotated[str, Schema(max_length=253)] = ""
    """The container of its pod; empty: the first."""
    command: Annotated[
        tuple[Annotated[str, Schema(max_length=4096)], ...],
        Schema(min_items=1, max_items=100, required=True, list_type="atomic"),
    ] = ()
    """The program and its arguments; no shell is around it."""
    timeout_seconds: Seconds = DEFAULT_SECONDS
    """How long the command may take."""


_DEFINITION = Definition(
    columns=(
        Column(name="Device", path=".spec.device", description="The device."),
        Column(name="Workload", path=".spec.workload", description="The workload."),
        Column(name="Phase", path=".status.phase", description="What became of it."),
        AGE,
    ),
)


class EdgeLogRequest(CustomResource, frozen=True, kw_only=True):
    """The last lines of a workload on a device are asked for."""

    kind: ClassVar[Kind] = Kind(
        group="edgewright.dev", version="v1alpha1", kind="EdgeLogRequest", plural="edgelogrequests"
    )
    definition: ClassVar[Definition] = _DEFINITION

    spec: Annotated[LogRequestSpec, _ONCE] = LogRequestSpec()
    """Which lines."""

    status: AccessStatus = AccessStatus()
    """What became of it."""


class EdgeExecRequest(CustomResource, frozen=True, kw_only=True):
    """A command in a workload on a device is asked for."""

    kind: ClassVar[Kind] = Kind(
        group="edgewright.dev", version="v1alpha1", kind="EdgeExecRequest", plural="edgeexecrequests"
    )
    definition: ClassVar[Definition] = _DEFINITION

    spec: Annotated[ExecRequestSpec, _ONCE] = ExecRequestSpec()
    """Which command."""

    status: AccessStatus = AccessStatus()
    """What became of it."""


AccessRequest: TypeAlias = EdgeLogRequest | EdgeExecRequest
