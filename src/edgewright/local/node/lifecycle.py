"""What a Pod needs next: which containers to start, stop or kill, when to look again, and in which phase it is.

Pure functions from the Pod, what has run so far and the time; `pod_loop` carries the plan out, `status` shows it.
The rules are the kubelet's: init containers one by one, sidecars before and next to the others, restarts after a
back-off that doubles, a program gets its grace period before it is killed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from edgewright.local.node.folders import Attempt
from edgewright.local.node.pods import Pod, is_sidecar
from edgewright.runtime.backoff import delay
from edgewright.runtime.objects import RawObject

Phase: TypeAlias = Literal["Pending", "Running", "Succeeded", "Failed"]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The waits of a node in seconds; tests make them short."""

    backoff: float = 10.0
    longest_backoff: float = 300.0
    backoff_reset: float = 600.0
    heartbeat: float = 10.0
    status_every: float = 300.0
    retry: float = 2.0
    refresh: float = 60.0
    launch: float = 30.0


class NotStarted(Exception):
    """A container cannot be started now; the reason is the word that its status shows."""

    def __init__(self, reason: str, message: str, *, retry: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry = retry
        """In how many seconds to try again, where the node's usual wait is not meant."""


@dataclass(frozen=True)
class Halt:
    """That nothing more is to be started, why, and when what still runs is killed."""

    reason: str
    kill_at: datetime
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class View:
    """What is known of a Pod when the plan is made; attempts are the latest first."""

    pod: Pod
    attempts: Mapping[str, Sequence[Attempt]]
    now: datetime
    halt: Halt | None = None
    started: Mapping[str, bool] = field(default_factory=dict)
    """Whether a container that runs has passed its startup probe; one without a probe is not in it."""
    failing: frozenset[str] = frozenset()
    """The containers whose liveness or startup probe has failed: they are ended, and then restarted by the policy."""

    def latest(self, name: str) -> Attempt | None:
        """The last attempt to run a container."""
        attempts = self.attempts.get(name)
        return attempts[0] if attempts else None


@dataclass(frozen=True)
class Start:
    """Run a container: for the how many-eth time, and how far its back-off has grown."""

    container: RawObject
    number: int = 0
    step: int = 0


@dataclass
class Plan:
    """What to do now and what to show."""

    starts: list[Start] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)
    """Containers that are asked to end."""
    kill_at: datetime | None = None
    """When those that were asked are killed."""
    wake: datetime | None = None
    """When to look again at the latest."""
    waiting: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Why containers do not run: a reason and a message."""
    phase: Phase = "Pending"
    initialized: bool = False
    final: bool = False
    """Whether nothing runs any more and nothing ever will."""

    def wake_by(self, moment: datetime) -> None:
        """Look again at that time, or before."""
        self.wake = moment if self.wake is None else min(self.wake, moment)


def make_plan(view: View, timing: Timing) -> Plan:
    """The plan for a Pod in this state."""
    plan = Plan()
    pod = view.pod
    plan.initialized = _initialized(view)
    if view.halt is not None:
        _halt(view, view.halt, plan)
        return plan
    if not plan.initialized:
        failed = _initialize(view, timing, plan)
        if failed:
            _finish(view, plan, "Failed")
            return plan
        plan.initialized = _initialized(view) and not plan.starts
        if not plan.initialized:
            _restart_failing(view, plan)
            return plan
    _keep_sidecars(view, timing, plan)
    for container in pod.containers:
        _keep(container, view, timing, plan, policy=pod.restart_policy)
    plan.phase = _phase(view, plan)
    if plan.phase in {"Succeeded", "Failed"}:
        plan.starts.clear()
        _finish(view, plan, plan.phase)
    else:
        _restart_failing(view, plan)
    return plan


def _initialized(view: View) -> bool:
    """Whether every init container is done (a sidecar: has begun); for ever once one of the others has run."""
    if any(view.latest(container["name"]) for container in view.pod.containers):
        return True
    return all(_init_done(container, view) for container in view.pod.init_containers)


def _init_done(container: RawObject, view: View) -> bool:
    latest = view.latest(container["name"])
    if latest is None:
        return False
    if is_sidecar(container):
        return latest.running and view.started.get(container["name"], True)
    return latest.end is not None and latest.end.code == 0


def _initialize(view: View, timing: Timing, plan: Plan) -> bool:
    """Goes on with the init containers; True where one failed and is not tried again."""
    policy = "OnFailure" if view.pod.restart_policy in {"Always", "OnFailure"} else "Never"
    for container in view.pod.init_containers:
        sidecar = is_sidecar(container)
        latest = view.latest(container["name"])
        if not sidecar and latest is not None and latest.end is not None and latest.end.code and policy == "Never":
            return True
        if sidecar or not _init_done(container, view):
            _keep(container, view, timing, plan, policy="Always" if sidecar else policy)
        if not _init_done(container, view):
            return False
    return False


def _keep_sidecars(view: View, timing: Timing, plan: Plan) -> None:
    for container in view.pod.init_containers:
        if is_sidecar(container):
            _keep(container, view, timing, plan, policy="Always")


def _keep(container: RawObject, view: View, timing: Timing, plan: Plan, *, policy: str) -> None:
    """Starts a container that has not run, or ended and is to run again once its back-off is over."""
    latest = view.latest(container["name"])
    if latest is None:
        plan.starts.append(Start(container))
        return
    if latest.end is None or not _runs_again(latest, policy):
        return
    step, wait = back_off(latest, timing)
    ended = latest.finished_at
    due = (ended or view.now) + timedelta(seconds=wait)
    if view.now >= due:
        plan.starts.append(Start(container, latest.number + 1, step))
        return
    plan.wake_by(due)
    pod = view.pod
    text = f"back-off {_whole(wait)} restarting failed container={container['name']}"
    plan.waiting[container["name"]] = (
        "CrashLoopBackOff",
        f"{text} pod={pod.metadata.name}_{pod.metadata.namespace}({pod.uid})",
    )


def _whole(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _runs_again(latest: Attempt, policy: str) -> bool:
    return policy == "Always" or (policy == "OnFailure" and latest.end is not None and latest.end.code != 0)


def back_off(latest: Attempt, timing: Timing) -> tuple[int, float]:
    """How far the back-off has grown after this end, and the wait: none at first, then doubling."""
    ran = (latest.finished_at - latest.started_at).total_seconds() if latest.finished_at and latest.started_at else 0.0
    step = 1 if ran >= timing.backoff_reset else latest.step + 1
    return step, delay(step - 1, base=timing.backoff, cap=timing.longest_backoff)


def _phase(view: View, plan: Plan) -> Phase:
    """As the kubelet counts: all must have run once; what will run again counts as running."""
    policy = view.pod.restart_policy
    ends: list[int | None] = []
    for container in view.pod.containers:
        latest = view.latest(container["name"])
        if latest is None:
            return "Pending"
        if latest.end is None or _runs_again(latest, policy):
            ends.append(None)
        else:
            ends.append(latest.end.code)
    if None in ends:
        return "Running"
    plan.waiting.clear()
    return "Failed" if any(ends) else "Succeeded"


def _running(view: View, containers: Sequence[RawObject]) -> list[str]:
    names = (container["name"] for container in containers)
    return [name for name in names if (latest := view.latest(name)) is not None and latest.running]


def _finish(view: View, plan: Plan, phase: Phase) -> None:
    """The Pod has ended by itself: sidecars go too, and then it is final."""
    plan.phase = phase
    plan.waiting.clear()
    running = _running(view, [*view.pod.init_containers, *view.pod.containers])
    if not running:
        plan.final = True
        return
    plan.phase = "Running"
    plan.stops = running
    ends = [at for attempts in view.attempts.values() if attempts and (at := attempts[0].finished_at)]
    _kill_at(view, plan, max(ends, default=view.now) + timedelta(seconds=view.pod.grace))


def _halt(view: View, halt: Halt, plan: Plan) -> None:
    """Ends what runs: first the containers, then the sidecars; the last of them makes it final."""
    sidecars = [each for each in view.pod.init_containers if is_sidecar(each)]
    others = [*(each for each in view.pod.init_containers if not is_sidecar(each)), *view.pod.containers]
    late = view.now >= halt.kill_at
    plan.stops = _running(view, [*others, *sidecars] if late else others) or _running(view, sidecars)
    ends = [view.latest(container["name"]) for container in view.pod.containers]
    well = bool(ends) and all(each is not None and each.end is not None and each.end.code == 0 for each in ends)
    if plan.stops:
        plan.phase = "Running" if any(each is not None for each in ends) else "Pending"
        _kill_at(view, plan, halt.kill_at)
        return
    plan.final = True
    plan.phase = "Succeeded" if well and halt.reason != "DeadlineExceeded" else "Failed"


def _kill_at(view: View, plan: Plan, moment: datetime) -> None:
    """What runs then is killed; once it was, its end is what brings the next pass."""
    plan.kill_at = moment
    if moment > view.now:
        plan.wake_by(moment)


def _restart_failing(view: View, plan: Plan) -> None:
    """A container whose probe failed is ended; that it runs again follows from its end."""
    running = _running(view, [*view.pod.init_containers, *view.pod.containers])
    plan.stops = [name for name in running if name in view.failing]
