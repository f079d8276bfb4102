"""The benchmarks' custom resources as typed structs, and their CRDs: a small one to reconcile, a large one to cache."""

from __future__ import annotations

from typing import Any, ClassVar

from bench.peers.measurement import GROUP, PLURAL, VERSION
from edgewright.runtime import Condition, Kind, RawObject, Resource, Struct
from edgewright.runtime.definitions import DEFINITION


class BenchSpec(Struct, frozen=True, kw_only=True):
    """What the driver writes."""

    index: int = 0
    payload: str = ""


class BenchStatus(Struct, frozen=True, kw_only=True):
    """What a peer writes."""

    phase: str = ""
    observed_generation: int = 0


class Bench(Resource, frozen=True, kw_only=True):
    """The object that every peer reconciles once."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version=VERSION, kind="Bench", plural=PLURAL)

    spec: BenchSpec = BenchSpec()
    status: BenchStatus | None = None


class GadgetSpec(Struct, frozen=True, kw_only=True):
    """About what a device of a fleet list says."""

    type: str = ""
    protocol: str = ""
    endpoint: str = ""
    application: str = ""
    version: str = ""
    firmware: str = ""
    digest: str = ""
    serial: str = ""
    site: str = ""
    notes: str = ""


class GadgetStatus(Struct, frozen=True, kw_only=True):
    """About what is known of such a device."""

    conditions: tuple[Condition, ...] = ()
    history: tuple[str, ...] = ()


class Gadget(Resource, frozen=True, kw_only=True):
    """An object of about 1.5 kB, as the cache benchmark keeps 100,000 of them."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version=VERSION, kind="Gadget", plural="gadgets")

    spec: GadgetSpec = GadgetSpec()
    status: GadgetStatus = GadgetStatus()


def crd(resource: type[Resource], *, status: bool) -> RawObject:
    """A CRD that accepts anything in spec and status: what is measured is not validation."""
    kind = resource.kind
    anything: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
    }
    if status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": DEFINITION.api_version,
        "kind": DEFINITION.kind,
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower()},
            "versions": [version],
        },
    }
