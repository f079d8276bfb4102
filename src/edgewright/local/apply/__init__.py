"""Patches that know a kind's fields: strategic merge patch, server-side apply, and who owns which field.

The request path compiles a kind's schema with `compile`, and gives the result to `strategic.merge`, `record` and
`merge`. Nothing here reads or writes a store.
"""

from __future__ import annotations

from edgewright.local.apply.apply import keep_times, merge, record
from edgewright.local.apply.fieldtypes import FieldType, compile  # noqa: A004 - the domain's word

__all__ = ["FieldType", "compile", "keep_times", "merge", "record"]
