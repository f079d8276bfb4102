"""The roles and bindings that every cluster has, and what an existing one lacks of them.

`bootstrap` creates them when a control plane starts. The list is the real server's, without what its own controllers
need (`hack/default_roles.py` writes it).
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Final

import msgspec

from edgewright.local.access.policy import Rule, uncovered
from edgewright.runtime.objects import RawObject

_UPDATED: Final = "rbac.authorization.kubernetes.io/autoupdate"


def load() -> list[RawObject]:
    """All of them, roles before bindings."""
    loaded: list[RawObject] = json.loads(
        resources.files(__package__).joinpath("default_roles.json").read_bytes(),
    )
    return loaded


def completed(found: RawObject, wanted: RawObject) -> RawObject | None:
    """An object with what it lacks of its default; None where it lacks nothing, or its owner wants it as it is."""
    if (found["metadata"].get("annotations") or {}).get(_UPDATED) != "true":
        return None
    if wanted["kind"] == "ClusterRoleBinding":
        subjects = found.get("subjects") or []
        missing = [each for each in wanted.get("subjects") or () if each not in subjects]
        return {**found, "subjects": [*subjects, *missing]} if missing else None
    if "aggregationRule" in wanted:
        return None
    has = msgspec.convert(found.get("rules") or [], list[Rule])
    missing = [each for each in wanted["rules"] if uncovered(has, [msgspec.convert(each, Rule)])]
    return {**found, "rules": [*(found.get("rules") or []), *missing]} if missing else None
