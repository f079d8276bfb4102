"""The rules of Jobs, whose Pods end: the selector is made here, and most of what a Job says never changes."""

from __future__ import annotations

from typing import Any

from edgewright.local.builtin import checks, jobpolicies, labelselector, workloads
from edgewright.local.field_errors import OMITTED, invalid, required, too_long, unsupported
from edgewright.local.names import label, subdomain
from edgewright.local.served import Write
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

JOB_NAME, LEGACY_JOB_NAME = "batch.kubernetes.io/job-name", "job-name"
CONTROLLER_UID, LEGACY_CONTROLLER_UID = "batch.kubernetes.io/controller-uid", "controller-uid"
SELECTABLE = {"status.successful": lambda obj: str((obj.get("status") or {}).get("succeeded") or 0)}
_MODES = ("NonIndexed", "Indexed")
_NUMBERS = (
    *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
    *("backoffLimitPerIndex", "maxFailedIndexes"),
)
_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_MAX_PARALLELISM, _MANY_COMPLETIONS, _MAX_OF_MANY = 100_000, 100_000, 10_000
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")


class JobRules(workloads.WorkloadRules):
    """What is special about Jobs."""

    definition = "io.k8s.api.batch.v1.Job"
    orphans = True
    fixed = ()
    counts = ("active", "succeeded", "failed", "ready", "terminating")

    def default(self, obj: RawObject) -> None:
        """One Pod, tried again six times."""
        super().default(obj)
        fill(obj["spec"])
        labels = obj["spec"]["template"]["metadata"].get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = labels  # one map for both, as in the real server: what is added is in both

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """Its Pods are told from others by its uid, unless it says itself how."""
        super().prepare_create(obj, write)
        spec, made = obj["spec"], _made_labels(obj)
        if spec["manualSelector"]:
            return
        labels = spec["template"]["metadata"].setdefault("labels", {})
        for key, value in made.items():
            labels.setdefault(key, value)
        if spec.get("selector") is None:
            spec["selector"] = {}
        spec["selector"].setdefault("matchLabels", {}).setdefault(CONTROLLER_UID, made[CONTROLLER_UID])

    def status_faults(self, obj: RawObject, old: RawObject) -> list[Cause]:
        """How a Job ended is said once, and whole."""
        return super().status_faults(obj, old) + _end_faults(obj["status"], old.get("status") or {})

    def spec_faults(self, obj: RawObject, old: RawObject | None) -> list[Cause]:
        """Numbers must make sense together; of a Job that is there only a few things change."""
        spec = obj["spec"]
        causes = _generated_faults(obj)
        causes += spec_faults(spec, "spec")
        if spec.get("selector") is None:
            causes.append(required("spec.selector"))
        else:
            causes += labelselector.faults("spec.selector", spec["selector"])
        causes += workloads.unselected(spec)
        if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
            name = obj["metadata"].get("name", "")
            last = f"{name}-{spec['completions'] - 1}"
            if label(last):
                why = f"will not able to create pod with invalid DNS label: {last}"
                causes.append(invalid("metadata.name", name, why))
        return causes if old is None else causes + _changes(obj, old)


def fill(spec: RawObject) -> None:
    """What a Job leaves out."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    limit = 2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6
    replacement = "Failed" if spec.get("podFailurePolicy") is not None else "TerminatingOrFailed"
    defaults: dict[str, Any] = {"parallelism": 1, "backoffLimit": limit, "completionMode": "NonIndexed"}
    defaults |= {"suspend": False, "podReplacementPolicy": replacement, "manualSelector": False}
    workloads.fill(spec, defaults)
    fill_policies(spec)


def fill_policies(spec: RawObject) -> None:
    """What the rules about failed Pods leave out, in a Job and in a template of Jobs."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


def spec_faults(spec: RawObject, path: str) -> list[Cause]:
    """What is wrong with a Job, or with a template of Jobs."""
    causes: list[Cause] = []
    for name in _NUMBERS:
        causes += checks.not_negative(f"{path}.{name}", spec.get(name) or 0)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        causes.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    causes += _manager_faults(spec.get("managedBy"), f"{path}.managedBy")
    mode = spec.get("completionMode")
    if mode is not None and mode not in _MODES:
        causes.append(unsupported(f"{path}.completionMode", mode, _MODES))
    causes += _indexed_faults(spec, path) if mode == "Indexed" else []
    if mode in (None, "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                causes.append(invalid(f"{path}.{name}", spec[name], "requires indexed completion mode"))
    causes += jobpolicies.faults(spec, path)
    causes += workloads.template_faults(spec["template"], f"{path}.template")
    return causes + _restart_faults(spec, f"{path}.template.spec.restartPolicy")


def _restart_faults(spec: RawObject, path: str) -> list[Cause]:
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy == "Always":
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [unsupported(path, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _manager_faults(manager: str | None, path: str) -> list[Cause]:
    if manager is None:
        return []
    causes = [] if len(manager) <= 63 else [too_long(path, 63)]
    host, slash, rest = manager.partition("/")
    if not slash or not host or not rest:
        why = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [*causes, invalid(path, manager, why) if manager else required(path)]
    return causes + [invalid(path, host, why) for why in subdomain(host)]


def _indexed_faults(spec: RawObject, path: str) -> list[Cause]:
    completions, parallelism, failed = (spec.get(name) for name in ("completions", "parallelism", "maxFailedIndexes"))
    causes = []
    if completions is None:
        causes.append(required(f"{path}.completions", "when completion mode is Indexed"))
    most = f"must be less than or equal to {_MAX_PARALLELISM}"
    if (parallelism or 0) > _MAX_PARALLELISM:
        causes.append(invalid(f"{path}.parallelism", parallelism, f"{most} when completion mode is Indexed"))
    if completions is not None and failed is not None and failed > completions:
        causes.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if (failed or 0) > _MAX_PARALLELISM:
        causes.append(invalid(f"{path}.maxFailedIndexes", failed, most))
    if (completions or 0) > _MANY_COMPLETIONS and spec.get("backoffLimitPerIndex") is not None:
        if failed is None:
            why = f"must be specified when completions is above {_MANY_COMPLETIONS}"
            causes.append(required(f"{path}.maxFailedIndexes", why))
        why = f"must be less than or equal to {_MAX_OF_MANY} when completions are above {_MANY_COMPLETIONS}"
        for name, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
            if (value or 0) > _MAX_OF_MANY:
                causes.append(invalid(f"{path}.{name}", value, f"{why} and used with backoff limit per index"))
    return causes


def _made_labels(obj: RawObject) -> dict[str, str]:
    """By which the Pods of a Job are known that does not say itself how."""
    name, uid = obj["metadata"].get("name", ""), obj["metadata"].get("uid", "")
    return {LEGACY_CONTROLLER_UID: uid, LEGACY_JOB_NAME: name, CONTROLLER_UID: uid, JOB_NAME: name}


def _generated_faults(obj: RawObject) -> list[Cause]:
    spec = obj["spec"]
    if spec["manualSelector"] or spec.get("selector") is None:
        return []
    labels, expected = spec["template"]["metadata"].get("labels") or {}, _made_labels(obj)
    causes = []
    for key, value in expected.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            causes.append(required(path, f"must be '{value}'"))
        elif labels[key] != value:
            causes.append(invalid(path, labels, f"must be '{value}'"))
    if not labelselector.faults("", spec["selector"]) and not labelselector.selects(spec["selector"], expected):
        causes.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return causes


def _changes(obj: RawObject, old: RawObject) -> list[Cause]:
    spec, before = obj["spec"], old["spec"]
    causes = checks.immutable("spec.selector", spec.get("selector"), before.get("selector"))
    if spec.get("completionMode") != "Indexed":
        causes += checks.immutable("spec.completions", spec.get("completions"), before.get("completions"))
    elif spec.get("completions") not in (None, before.get("completions"), spec["parallelism"]):
        why = "can only be modified in tandem with spec.parallelism"
        causes.append(invalid("spec.completions", spec["completions"], why))
    for name in _FIXED:
        causes += checks.immutable(f"spec.{name}", spec.get(name), before.get(name))
    new, fixed = spec["template"], before["template"]
    status = old.get("status") or {}
    if before["suspend"] and (not status.get("startTime") or _has(status, "Suspended")) and not status.get("active"):
        return causes + checks.immutable("spec.template.spec", _but_scheduling(new), _but_scheduling(fixed))
    return causes + checks.immutable("spec.template", new, fixed)


def _but_scheduling(template: RawObject) -> RawObject:
    """The spec of a template without what may change while a Job waits: where and with how much its Pods run."""
    spec = {name: value for name, value in template["spec"].items() if name not in _SCHEDULING}
    if "affinity" in spec:
        spec["affinity"] = {name: value for name, value in spec["affinity"].items() if name != "nodeAffinity"}
        if not spec["affinity"]:
            del spec["affinity"]
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = [{**each, "resources": {}} for each in spec[name]]
    return spec


def _has(status: RawObject, name: str) -> bool:
    return any(each["type"] == name and each["status"] == "True" for each in status.get("conditions") or ())


def _end_faults(status: RawObject, before: RawObject) -> list[Cause]:
    is_, was = ({name: _has(each, name) for name in _ENDS} for each in (status, before))
    wrong = [f"cannot disable the terminal {end}=True condition" for end in _LAST if was[end] and not is_[end]]
    for one, other in _CONTRADICTIONS:
        if is_[one] and is_[other]:
            wrong.append(f"cannot set {one}=True and {other}=true conditions")
    for one, other in _DEMANDS:
        if is_[one] and not is_[other] and not was[one]:
            wrong.append(f"cannot set {one}=True condition without the {other}=true condition")
    causes = [invalid("status.conditions", OMITTED, why) for why in wrong]
    if any(is_[end] for end in _LAST) and not any(was[end] for end in _LAST):
        if status.get("active"):
            causes.append(invalid("status.active", status["active"], "active>0 is invalid for finished job"))
        if not status.get("startTime"):
            causes.append(required("status.startTime", "startTime is required for finished job"))
    if (status.get("failed") or 0) < (before.get("failed") or 0):
        causes.append(invalid("status.failed", status.get("failed") or 0, "cannot decrease the failed counter"))
    return causes + _completion_faults(status, complete=is_["Complete"])


def _completion_faults(status: RawObject, *, complete: bool) -> list[Cause]:
    """A Job that is complete says since when, and no other does."""
    if complete and not status.get("completionTime"):
        return [required("status.completionTime", "completionTime is required for Complete jobs")]
    if status.get("completionTime") and not complete:
        why = "cannot set completionTime when there is no Complete=True condition"
        return [invalid("status.completionTime", status["completionTime"], why)]
    return []


_LAST = ("Complete", "Failed")
_ENDS = (*_LAST, "FailureTarget", "SuccessCriteriaMet")
_CONTRADICTIONS = (
    *(("Complete", "Failed"), ("Complete", "FailureTarget")),
    *(("SuccessCriteriaMet", "Failed"), ("SuccessCriteriaMet", "FailureTarget")),
)
_DEMANDS = (("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet"))
