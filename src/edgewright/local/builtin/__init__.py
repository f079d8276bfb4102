"""The built-in kinds of Kubernetes that the embedded API server offers, with their fields and their rules.

`kinds` asks for `served`, the documents and patches for `definitions`; there is a module per kind with what is special
about it. A kind that would need a controller that we do not have is not here. Nothing in here reads or writes a store.
"""

from __future__ import annotations

from edgewright.local.structs.fields import definitions

from .catalogue import served

__all__ = ["definitions", "served"]
