"""The rules of Bindings, by which a scheduler gives a Pod its node; a Binding is never stored itself."""

from __future__ import annotations

from edgewright.local.structs.rules import CORE, BuiltinRules


class BindingRules(BuiltinRules):
    """A create of a Binding is a POST to the `binding` subresource of the Pod of that name."""

    definition = f"{CORE}.Binding"
    stands_for = ("pods", "binding")
