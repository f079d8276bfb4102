"""What the kinds that make Pods of a template have in common: the template, its selector, numbers, shares, warnings.

Each kind has a module of its own with the rest. Like all rules these are functions of what they are given.
"""

from __future__ import annotations

import re
from typing import Any

from edgewright.local.builtin import checks, labelselector, poddefaults
from edgewright.local.builtin.pod import environment_warnings
from edgewright.local.builtin.podspec import pod_spec
from edgewright.local.field_errors import forbidden, invalid, required, unsupported
from edgewright.local.names import label
from edgewright.local.served import Write
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_REPLICAS = ("replicas", "readyReplicas", "availableReplicas")
_PERCENT = re.compile("[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


class WorkloadRules(BuiltinRules):
    """Rules of a kind with a template of Pods, a status of its own and generations."""

    status = True
    generations = True
    template_path: tuple[str, ...] = ("spec", "template")
    """Where the template stands."""
    named_after = True
    """Whether Pods get names made of the object's, so that a name that is no label is warned of."""
    counts: tuple[str, ...] = ()
    """The numbers of its status, which are zero or more."""
    counts_of_pods: tuple[str, ...] = ()
    """Those among them that are no more than there are Pods."""
    ready_path = "readyReplicas"
    """What is called where more are available than are ready."""
    fixed: tuple[str, ...] = ("selector",)
    """What of its spec never changes."""

    def template(self, obj: RawObject) -> RawObject:
        """The template of an object."""
        for name in self.template_path:
            obj = obj[name]
        return obj

    def default(self, obj: RawObject) -> None:
        """The template is filled in as a Pod's spec is."""
        poddefaults.fill_spec(self.template(obj)["spec"])

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """A status that came with it goes."""
        obj["status"] = self.unset("status")

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """What is wrong with the spec, with the change of what is fixed in it, or with the numbers of the status."""
        if write.subresource == "status":
            return self.status_faults(obj, old or {})
        spec, causes = obj["spec"], self.spec_faults(obj, old)
        for name in self.fixed if old is not None else ():
            causes += checks.immutable(f"spec.{name}", spec.get(name), (old or obj)["spec"].get(name))
        return causes

    def spec_faults(self, obj: RawObject, old: RawObject | None) -> list[Cause]:
        """What is wrong with all but the status."""
        raise NotImplementedError

    def status_faults(self, obj: RawObject, old: RawObject) -> list[Cause]:
        """What is wrong with the status."""
        status = obj["status"]
        causes = counts(status, *self.counts)
        replicas, ready, available = (status.get(name) or 0 for name in _REPLICAS)
        for name in self.counts_of_pods:
            if (count := status.get(name) or 0) > replicas:
                causes.append(invalid(f"status.{name}", count, "cannot be greater than status.replicas"))
        if available > ready:
            causes.append(invalid("status.availableReplicas", available, f"cannot be greater than {self.ready_path}"))
        value, before = status.get("collisionCount"), (old.get("status") or {}).get("collisionCount")
        if before is not None and (value is None or value < before):
            causes.append(invalid("status.collisionCount", value or 0, "cannot be decremented"))
        return causes

    def warnings(self, obj: RawObject, old: RawObject | None, write: Write) -> list[str]:
        """What an author should know of a new or changed template."""
        found = []
        if write.subresource == "status":
            return []
        if old is None and self.named_after and (wrong := label(obj["metadata"].get("name", ""))):
            found.append(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
                f"a DNS label is recommended: [{' '.join(wrong)}]"
            )
        if old is None or obj["metadata"].get("generation") != old["metadata"].get("generation"):
            path = ".".join((*self.template_path, "spec"))
            found += environment_warnings(self.template(obj)["spec"], path)
        return found


def fill(target: RawObject, defaults: dict[str, Any]) -> None:
    """Fills in fields that are not there."""
    for name, value in defaults.items():
        if target.get(name) is None:
            target[name] = value


def template_faults(template: RawObject, path: str) -> list[Cause]:
    """What is wrong with a template of Pods, wherever it stands."""
    about = template["metadata"]
    causes = checks.labels(f"{path}.labels", about.get("labels") or {})
    causes += checks.notes(f"{path}.annotations", about.get("annotations") or {})
    causes += pod_spec(template["spec"], f"{path}.spec", is_pod=False)
    if template["spec"].get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        causes.append(forbidden(f"{path}.spec.ephemeralContainers", why))
    return causes


def always_restarted(template: RawObject, path: str, kind: str) -> list[Cause]:
    """Pods that are to run for ever are always restarted and have no deadline."""
    spec, causes = template["spec"], []
    if spec["restartPolicy"] != "Always":
        causes.append(unsupported(f"{path}.spec.restartPolicy", spec["restartPolicy"], ("Always",)))
    if "activeDeadlineSeconds" in spec:
        why = f"activeDeadlineSeconds in {kind} is not Supported"
        causes.append(forbidden(f"{path}.spec.activeDeadlineSeconds", why))
    return causes


def selector_faults(spec: RawObject, kind: str, *, demanded: bool = True) -> list[Cause]:
    """What is wrong with the selector of a workload: it must be there, and select something, but not everything."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")] if demanded else []
    causes = labelselector.faults("spec.selector", selector)
    if labelselector.is_empty(selector):
        causes.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return causes


def unselected(spec: RawObject, *, invalid_selector: str | None = None) -> list[Cause]:
    """That the selector does not find the Pods of the template; `invalid_selector` says what of one that is wrong."""
    selector = spec.get("selector")
    if selector is not None and labelselector.faults("", selector):
        return [] if invalid_selector is None else [invalid("spec.selector", selector, invalid_selector)]
    labels = spec["template"]["metadata"].get("labels")
    if selector is not None and labelselector.selects(selector, labels or {}):
        return []
    why = "`selector` does not match template `labels`"
    return [invalid("spec.template.metadata.labels", labels, why)]


def count_or_share(path: str, value: int | str) -> list[Cause]:
    """A number that is zero or more, or a percentage."""
    if isinstance(value, int):
        return checks.not_negative(path, value)
    return [] if _PERCENT.fullmatch(value) else [invalid(path, value, _PERCENT_RULE)]


def amount(value: int | str) -> int:
    """The number in a count or a percentage; 0 for what is neither."""
    if isinstance(value, int):
        return value
    return int(value[:-1]) if _PERCENT.fullmatch(value) else 0


def not_over_whole(path: str, value: int | str) -> list[Cause]:
    """A share may not be more than everything."""
    if isinstance(value, str) and amount(value) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []


def counts(status: RawObject, *names: str) -> list[Cause]:
    """Numbers of a status, which are zero or more."""
    return [cause for name in names for cause in checks.not_negative(f"status.{name}", status.get(name) or 0)]
