"""The rules of Namespaces: they are held by a finalizer in their spec until all that is in them is gone."""

from __future__ import annotations

from typing import Final

from edgewright.local.builtin.checks import qualified_name
from edgewright.local.field_errors import invalid
from edgewright.local.served import Write
from edgewright.local.structs.rules import CORE, BuiltinRules, text_at
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

FINALIZER = "kubernetes"
NAME_LABEL = "kubernetes.io/metadata.name"
SELECTABLE: Final = {"status.phase": text_at("status", "phase")}
_PLAIN_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


class NamespaceRules(BuiltinRules):
    """What is special about Namespaces."""

    definition = f"{CORE}.Namespace"
    returns_deleted = True
    status = True
    name_rule = "label"

    def default(self, obj: RawObject) -> None:
        """A label with the name, by which selectors can name a namespace."""
        metadata = obj["metadata"]
        if name := metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: name}

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """A new namespace is active and held; where its name was generated, the label could not be given before."""
        self.default(obj)
        obj["status"] = {"phase": "Active"}
        finalizers = obj["spec"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """The finalizers are written by `finalize` only."""
        super().prepare_update(obj, old, write)
        if write.subresource not in ("status", "finalize"):
            obj["spec"].pop("finalizers", None)
            if "finalizers" in old["spec"]:
                obj["spec"]["finalizers"] = old["spec"]["finalizers"]

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """Finalizers must have names, and the phase must be the one that a deletion makes."""
        if write.subresource == "status":
            return _phase(obj)
        causes = []
        for index, name in enumerate(obj["spec"].get("finalizers") or ()):
            path = f"spec.finalizers[{index}]" if write.subresource == "finalize" else "spec.finalizers"
            causes += qualified_name(path, name)
            if "/" not in name and name not in _PLAIN_FINALIZERS:
                causes.append(
                    invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")
                )
        return causes

    def prepare_delete(self, obj: RawObject, write: Write) -> None:
        """A namespace that is being deleted says so."""
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def held(self, obj: RawObject) -> bool:
        """Whether finalizers in the spec are left."""
        return bool(obj["spec"].get("finalizers"))


def _phase(obj: RawObject) -> list[Cause]:
    phase = obj["status"].get("phase", "")
    deleting = "deletionTimestamp" in obj["metadata"]
    if phase == ("Terminating" if deleting else "Active"):
        return []
    wanted, state = ("Terminating", "not empty") if deleting else ("Active", "empty")
    return [invalid("status.Phase", phase, f"may only be '{wanted}' if `deletionTimestamp` is {state}")]
