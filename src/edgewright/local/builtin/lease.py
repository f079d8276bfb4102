"""The rules of Leases, by which programs agree on a leader."""

from __future__ import annotations

from edgewright.local.builtin.checks import not_negative
from edgewright.local.field_errors import invalid
from edgewright.local.served import Write
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject


class LeaseRules(BuiltinRules):
    """What is special about Leases: they are never replaced blindly."""

    definition = "io.k8s.api.coordination.v1.Lease"
    unconditional_update = False
    create_on_update = True

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """Elections by the API server itself are not on offer, as in a real cluster that was not asked for them."""
        for name in ("strategy", "preferredHolder"):
            obj["spec"].pop(name, None)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """As for a new one."""
        self.prepare_create(obj, write)

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """Numbers must make sense."""
        spec, causes = obj["spec"], []
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            causes.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        return causes + not_negative("spec.leaseTransitions", spec.get("leaseTransitions", 0))
