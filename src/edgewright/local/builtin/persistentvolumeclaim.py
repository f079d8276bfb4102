"""The rules of PersistentVolumeClaims: a claim is a folder of the machine that outlives the Pods that use it."""

from __future__ import annotations

from typing import Any

from edgewright.local.builtin import checks, labelselector
from edgewright.local.builtin.workloads import fill as fill_in
from edgewright.local.field_errors import forbidden, invalid, required, unsupported
from edgewright.local.quantities import value as amount_of
from edgewright.local.served import Write
from edgewright.local.structs.rules import CORE, BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

PROTECTION = "kubernetes.io/pvc-protection"
"""The finalizer that keeps a claim for as long as a Pod uses it."""
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


class StorageRules(BuiltinRules):
    """What claims and volumes have in common."""

    status = True
    returns_deleted = True
    protection = ""
    """The finalizer that keeps an object for as long as it is used."""

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """It is protected from the first moment, as the admission of a real cluster does it."""
        obj["status"] = {"phase": "Pending"}
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if self.protection not in finalizers:
            finalizers.append(self.protection)


class PersistentVolumeClaimRules(StorageRules):
    """What is special about claims."""

    definition = f"{CORE}.PersistentVolumeClaim"
    protection = PROTECTION

    def default(self, obj: RawObject) -> None:
        """A claim is for a file system, and waits."""
        fill(obj)

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """What is claimed does not change, except that a bound claim may grow."""
        if write.subresource == "status":
            return []
        causes = spec_faults(obj["spec"], "spec")
        return causes if old is None else causes + _changes(obj, old)


def fill(claim: RawObject) -> None:
    """What a claim and a template of claims leave out."""
    fill_in(claim["spec"], {"volumeMode": "Filesystem"})
    fill_in(claim["status"], {"phase": "Pending"})


def spec_faults(spec: RawObject, path: str) -> list[Cause]:
    """What is wrong with what is claimed."""
    modes = spec.get("accessModes") or []
    causes = [] if modes else [required(f"{path}.accessModes", "at least 1 access mode is required")]
    if spec.get("selector") is not None:
        causes += labelselector.faults(f"{path}.selector", spec["selector"])
    causes += [unsupported(f"{path}.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and any(mode in _MODES[:3] for mode in modes):
        causes.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    size = _size(spec)
    if size is None:
        causes.append(required(f"{path}.resources[storage]"))
    elif amount_of(size) <= 0:
        causes.append(invalid(f"{path}.resources[storage]", size, "must be greater than zero"))
    if spec.get("storageClassName"):
        causes += checks.subdomain(f"{path}.storageClassName", spec["storageClassName"])
    return causes + checks.supported(f"{path}.volumeMode", spec["volumeMode"], ("Block", "Filesystem"))


def _size(spec: RawObject) -> str | None:
    found: str | None = (spec["resources"].get("requests") or {}).get("storage")
    return found


def _changes(obj: RawObject, old: RawObject) -> list[Cause]:
    new, before = dict(obj["spec"]), dict(old["spec"])
    bound = (old.get("status") or {}).get("phase") == "Bound"
    if not before.get("volumeName"):
        before["volumeName"] = new.get("volumeName")
    causes = []
    if _but_size(new, bound) != _but_size(before, bound):
        causes.append(forbidden("spec", _IMMUTABLE))
    size, least = _size(new), ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
    if size is not None and amount_of(size) < amount_of(_size(before) or "0") and amount_of(size) <= amount_of(least):
        why = "field can not be less than status.capacity"
        causes.append(forbidden("spec.resources.requests.storage", why))
    return causes + checks.immutable("volumeMode", new["volumeMode"], before["volumeMode"])


def _but_size(spec: dict[str, Any], bound: bool) -> dict[str, Any]:
    rest = {name: value for name, value in spec.items() if value is not None}
    if bound:
        requests = {**(spec["resources"].get("requests") or {}), "storage": ""}
        rest["resources"] = {**spec["resources"], "requests": requests}
    return rest
