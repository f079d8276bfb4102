"""The Secrets and ConfigMaps that the gateway reads by name, as structs; it never lists them."""

from __future__ import annotations

from typing import ClassVar

from edgewright.runtime.objects import Kind, Resource


class Secret(Resource, frozen=True, kw_only=True):
    """A Secret; its values are base64, as the server holds them, and never logged."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Secret", plural="secrets")

    type: str = ""
    data: dict[str, str] = {}


class ConfigMap(Resource, frozen=True, kw_only=True):
    """A ConfigMap."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")

    data: dict[str, str] = {}
