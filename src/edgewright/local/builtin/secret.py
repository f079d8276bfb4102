"""The rules of Secrets: texts become data, types demand keys, and type and immutable ones stay as they are."""

from __future__ import annotations

import base64
import json
from typing import Final

from edgewright.local.builtin.checks import data_key, immutable
from edgewright.local.builtin.configmap import LARGEST, decoded_size, held_fast
from edgewright.local.field_errors import invalid, required, too_long
from edgewright.local.served import Write
from edgewright.local.structs.rules import CORE, BuiltinRules, text_at
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

SELECTABLE: Final = {"type": text_at("type")}
_ACCOUNT = "kubernetes.io/service-account.name"
_JSON_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


class SecretRules(BuiltinRules):
    """What is special about Secrets."""

    definition = f"{CORE}.Secret"

    def default(self, obj: RawObject) -> None:
        """A type, and `stringData` as data."""
        obj.setdefault("type", "Opaque")
        texts = obj.pop("stringData", None)
        if texts:
            encoded = {
                key: base64.b64encode(text.encode("utf-8", "surrogatepass")).decode() for key, text in texts.items()
            }
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """Keys, size, and what the type demands."""
        causes = [] if old is None else immutable("type", obj.get("type", ""), old.get("type", ""))
        causes += held_fast(obj, old, ("data",))
        data: dict[str, str] = obj.get("data") or {}
        for key in data:
            causes += data_key("data", key)
        if sum(decoded_size(value) for value in data.values()) > LARGEST:
            causes.append(too_long("data", LARGEST))
        return causes + _demanded(obj, data)


def _demanded(obj: RawObject, data: dict[str, str]) -> list[Cause]:
    """What a Secret of this type must hold and does not."""
    kind, missing = obj.get("type", ""), []
    if kind == "kubernetes.io/service-account-token":
        if not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT):
            missing = [f"metadata.annotations[{_ACCOUNT}]"]
    elif kind in _JSON_KEYS:
        return _json(data, _JSON_KEYS[kind])
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            missing = ["data[username]", "data[password]"]
    elif kind == "kubernetes.io/ssh-auth":
        missing = [] if data.get("ssh-privatekey") else ["data[ssh-privatekey]"]
    elif kind == "kubernetes.io/tls":
        missing = [f"data[{key}]" for key in ("tls.crt", "tls.key") if key not in data]
    return [required(path) for path in missing]


def _json(data: dict[str, str], key: str) -> list[Cause]:
    if key not in data:
        return [required(f"data[{key}]")]
    try:
        wrong = "" if isinstance(json.loads(base64.b64decode(data[key])), dict) else "the content is not a JSON object"
    except ValueError as error:
        wrong = str(error)
    return [invalid(f"data[{key}]", "<secret contents redacted>", wrong)] if wrong else []
