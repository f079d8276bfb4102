"""The rules of PodTemplates, which are plain data: nobody creates Pods of them."""

from __future__ import annotations

from edgewright.local.builtin import poddefaults
from edgewright.local.builtin.workloads import template_faults
from edgewright.local.served import Write
from edgewright.local.structs.rules import CORE, BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject


class PodTemplateRules(BuiltinRules):
    """What is special about PodTemplates."""

    definition = f"{CORE}.PodTemplate"
    returns_deleted = True
    generations = True

    def default(self, obj: RawObject) -> None:
        """The spec in the template is filled in as a Pod's is."""
        poddefaults.fill_spec(obj["template"]["spec"])

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """A template must have the spec of a Pod that could be made of it."""
        return template_faults(obj["template"], "template")
