"""The field that a rule names for its fault, relative to where the rule is written.

Evaluation puts it after the rule's own path. A path that names nothing is refused when the rule is written, elsewhere.
"""

from __future__ import annotations

import re

from edgewright.local.schema.nodes import Node

_STEP = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\.)*)'\]", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def normalized(path: str, node: Node) -> str:
    """The path in the form of causes; empty for one that names nothing that is there."""
    out, position, place = "", 0, node
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            return ""
        name = found[1] if found[1] is not None else re.sub(r"\\(.)", lambda each: _ESCAPES.get(each[1], ""), found[2])
        below = place.properties.get(name) if place.properties else place.values
        if below is None:
            return ""
        out += (f".{name}" if out else name) if place.properties else f"[{name}]"
        place, position = below, found.end()
    return out
