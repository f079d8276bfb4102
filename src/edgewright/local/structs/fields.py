"""The fields of built-in kinds, from the two tables that hack/builtin_fields.py writes from the real server.

The rules of built-in kinds and the OpenAPI documents read them; they are loaded once, when first asked for. Nobody may
change what is given out.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from edgewright.runtime.objects import RawObject

REFERENCE = "#/components/schemas/"
"""What the name of a definition is prefixed with where a schema refers to it."""
GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"
"""Where a definition lists the kinds that it is of."""


@functools.cache
def definitions() -> Mapping[str, RawObject]:
    """The OpenAPI v3 components of everything built in, by name (`io.k8s.api.core.v1.Pod`), without descriptions."""
    return _load("fields.json")


@functools.cache
def forms() -> Mapping[str, Mapping[str, Any]]:
    """What OpenAPI does not say of definitions.

    `pointer` fields are plain values that are told apart from their zero value; `kept` fields are written when empty;
    `named` says what Go calls the type of plain fields that have one of their own.
    """
    return _load("forms.json")


def _load(name: str) -> dict[str, RawObject]:
    loaded: dict[str, RawObject] = json.loads(resources.files(__package__).joinpath(name).read_bytes())
    return loaded
