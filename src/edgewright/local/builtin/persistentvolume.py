"""The rules of PersistentVolumes: each is the folder of one claim, made with it and gone with it.

A volume that somebody makes by hand would be used by nobody here, so it is refused.
"""

from __future__ import annotations

from edgewright.local.builtin import checks
from edgewright.local.builtin.persistentvolumeclaim import StorageRules
from edgewright.local.builtin.workloads import fill
from edgewright.local.field_errors import forbidden
from edgewright.local.served import Write
from edgewright.local.structs.rules import CORE
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

PROTECTION = "kubernetes.io/pv-protection"
"""The finalizer that keeps a volume for as long as it has its claim."""
_ONLY = "volumes are made with their claims here: create a PersistentVolumeClaim"


class PersistentVolumeRules(StorageRules):
    """What is special about volumes."""

    definition = f"{CORE}.PersistentVolume"
    protection = PROTECTION

    def default(self, obj: RawObject) -> None:
        """A volume is for a file system, is kept, and waits."""
        fill(obj["spec"], {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"})
        fill(obj["status"], {"phase": "Pending"})

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """It has a claim and a folder, and of its spec only the size changes."""
        spec = obj["spec"]
        if old is not None:
            return checks.immutable("spec", _but_size(spec), _but_size(old["spec"]))
        return [forbidden(f"spec.{name}", _ONLY) for name in ("claimRef", "hostPath") if not spec.get(name)]


def _but_size(spec: RawObject) -> RawObject:
    return {name: value for name, value in spec.items() if name != "capacity" and value is not None}
