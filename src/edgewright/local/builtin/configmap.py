"""The rules of ConfigMaps: keys, size, and that an immutable one stays as it is."""

from __future__ import annotations

from edgewright.local.builtin.checks import data_key
from edgewright.local.field_errors import forbidden, invalid, too_long
from edgewright.local.served import Write
from edgewright.local.structs.rules import CORE, BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

LARGEST = 1024 * 1024
"""How many bytes a ConfigMap or Secret may hold."""
IMMUTABLE = "field is immutable when `immutable` is set"


class ConfigMapRules(BuiltinRules):
    """What is special about ConfigMaps."""

    definition = f"{CORE}.ConfigMap"

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """Keys must be file names and in one of the two maps only."""
        causes = held_fast(obj, old, ("data", "binaryData"))
        texts, binaries = obj.get("data") or {}, obj.get("binaryData") or {}
        for key in texts:
            causes += data_key("data", key)
            if key in binaries:
                causes.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        for key in binaries:
            causes += data_key("binaryData", key)
        size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts.values())
        if size + sum(decoded_size(data) for data in binaries.values()) > LARGEST:
            causes.append(too_long("[]", LARGEST))  # the real server's name for the whole object
        return causes


def held_fast(obj: RawObject, old: RawObject | None, names: tuple[str, ...]) -> list[Cause]:
    """What was changed of an object that was declared immutable."""
    if old is None or not old.get("immutable"):
        return []
    causes = [] if obj.get("immutable") else [forbidden("immutable", IMMUTABLE)]
    return causes + [forbidden(name, IMMUTABLE) for name in names if obj.get(name) != old.get(name)]


def decoded_size(data: str) -> int:
    """How many bytes a text in base64 stands for."""
    return len(data) * 3 // 4 - data.count("=", -2)
