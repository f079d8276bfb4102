"""The rules of Nodes: taints, addresses and what they have to offer."""

from __future__ import annotations

import ipaddress
from typing import Final

from edgewright.local import quantities
from edgewright.local.builtin import checks
from edgewright.local.builtin.containers import resource_amount
from edgewright.local.builtin.podspec import TAINT_EFFECTS
from edgewright.local.field_errors import duplicate, forbidden, invalid
from edgewright.local.selectors import label_value_faults
from edgewright.local.served import Write
from edgewright.local.structs.rules import CORE, BuiltinRules, flag_at
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

SELECTABLE: Final = {"spec.unschedulable": flag_at("spec", "unschedulable")}
_ONCE = 'node updates may not change {} except from "" to valid'


class NodeRules(BuiltinRules):
    """What is special about Nodes: a new one may come with its status."""

    definition = f"{CORE}.Node"
    status = True

    def default(self, obj: RawObject) -> None:
        """All of the capacity can be given out, unless less is said; the first range of addresses has two fields."""
        status, spec = obj["status"], obj["spec"]
        for name in ("capacity", "allocatable"):
            if name in status:
                status[name] = {key: quantities.rounded(amount) for key, amount in status[name].items()}
        if "capacity" in status:
            status.setdefault("allocatable", dict(status["capacity"]))
        ranges = spec.get("podCIDRs") or []
        if spec.get("podCIDR") and (not ranges or ranges[0] != spec["podCIDR"]):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif ranges:
            spec["podCIDR"] = ranges[0]

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """The status stays; the configuration of kubelets from here is long gone."""
        obj["spec"].pop("configSource", None)
        obj["status"].pop("config", None)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """As for every kind with a status."""
        super().prepare_update(obj, old, write)
        if write.subresource != "status":
            obj["spec"].pop("configSource", None)

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """Taints and amounts must be good; what was once given to a node stays."""
        spec, status = obj["spec"], obj["status"]
        causes = taints(spec.get("taints") or [], "metadata.taints")
        for name in ("capacity", "allocatable"):
            for resource, amount in (status.get(name) or {}).items():
                causes += resource_amount(resource, amount, f"status.{name}.{resource}")
        causes += _ranges(spec.get("podCIDRs") or [])
        if old is None:
            return causes
        return causes + _changes(obj, old)


def _changes(obj: RawObject, old: RawObject) -> list[Cause]:
    causes, seen = [], []
    for index, address in enumerate(obj["status"].get("addresses") or ()):
        if address in seen:
            causes.append(duplicate(f"status.addresses[{index}]", address))
        seen.append(address)
    before = old["spec"]
    if before.get("podCIDRs") and before["podCIDRs"] != obj["spec"].get("podCIDRs"):
        causes.append(forbidden("spec.podCIDRs", _ONCE.format("podCIDR")))
    if before.get("providerID") and before["providerID"] != obj["spec"].get("providerID"):
        causes.append(forbidden("spec.providerID", _ONCE.format("providerID")))
    return causes


def _ranges(ranges: list[str]) -> list[Cause]:
    causes, versions = [], []
    for index, each in enumerate(ranges):
        try:
            versions.append(ipaddress.ip_network(each, strict=False).version)
        except ValueError:
            why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            causes.append(invalid(f"spec.podCIDRs[{index}]", each, why))
    if len(ranges) > 1 and causes:
        why = "Internal error: invalid PodCIDRs. failed to check with dual stack"
        causes.append(Cause("InternalError", why, "spec.podCIDRs"))
    if len(ranges) > 1 and len(set(versions)) != len(ranges):
        causes.append(invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family"))
    return causes


def taints(listed: list[RawObject], path: str) -> list[Cause]:
    """What keeps Pods off a node."""
    causes, seen = [], set()
    for index, taint in enumerate(listed):
        place = f"{path}[{index}]"
        causes += checks.qualified_name(f"{place}.key", taint["key"])
        if faults := label_value_faults(taint.get("value", "")):
            causes.append(invalid(f"{place}.value", taint["value"], ";".join(faults)))
        causes += checks.one_of(f"{place}.effect", taint["effect"], TAINT_EFFECTS)
        if (taint["key"], taint["effect"]) in seen:
            causes.append(Cause("FieldValueDuplicate", _twice(taint), place))
        seen.add((taint["key"], taint["effect"]))
    return causes


def _twice(taint: RawObject) -> str:
    return f"{duplicate('', taint).message}: taints must be unique by key and effect pair"
