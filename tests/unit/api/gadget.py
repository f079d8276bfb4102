"""A kind for tests that uses everything the generator can publish, in two versions.

The unit tests look at its schema, the cluster tests at how the real API server treats it. It is no kind of ours.
"""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from edgewright.api.annotations import Rule, Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition, Scale
from edgewright.runtime.objects import Condition, Kind, Struct


class Colour(StrEnum):
    """Colours that a gadget comes in."""

    RED = "Red"
    BLUE = "Blue"


class Slot(Struct, frozen=True, kw_only=True):
    """A place for a firmware."""

    name: Annotated[str, Schema(min_length=1, max_length=20)]
    """The name of the slot; entries are merged by it."""

    size: Annotated[int, Schema(minimum=1, maximum=4096)] = 64
    """The size of the slot in kB."""


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds that must fit together."""

    object_schema: ClassVar[Schema] = Schema(
        rules=(
            Rule(rule="self.low <= self.high", message="low must not be above high", field_path=".low"),
            Rule(
                rule="self.high < 1000",
                message="high is too high",
                message_expression="self.high > 5000 ? 'high is far above 1000' : 'high must be below 1000'",
                reason="FieldValueForbidden",
            ),
        )
    )

    low: int = 1
    """The lower bound."""

    high: int = 10
    """The upper bound."""


class Options(Struct, frozen=True, kw_only=True):
    """Options, of which we know one."""

    object_schema: ClassVar[Schema] = Schema(preserve_unknown_fields=True)

    known: int = 0
    """The one that we know."""


class GadgetSpec(Struct, frozen=True, kw_only=True):
    """Everything that can be wanted of a gadget."""

    title: Annotated[str, Schema(min_length=3, max_length=40, pattern="^[A-Z]")]
    """A title that begins with a capital letter.

    It has a second paragraph.
    """

    replicas: Annotated[int, Schema(minimum=0, maximum=100, format="int32")] = 2
    """How many there must be."""

    ratio: Annotated[float, Schema(minimum=0, maximum=1, exclusive_minimum=True, multiple_of=0.25)] = 0.5
    """A share in quarters."""

    colour: Colour = Colour.RED
    """The colour."""

    mode: Literal["fast", "safe"] = "safe"
    """How it works."""

    level: Annotated[int, Schema(enum=(1, 2, 3))] = 1
    """A level out of three."""

    enabled: Annotated[bool, Schema(defaulted=True)] = False
    """An empty default that the server fills in all the same."""

    note: Annotated[str | None, Schema(max_length=100)] = None
    """Text that may be null."""

    port: Annotated[int | str, Schema(pattern="^([a-z]+|[0-9]+%)$", maximum=65535)] = 80
    """A number, a name or a percentage."""

    names: Annotated[
        tuple[Annotated[str, Schema(max_length=10)], ...] | Annotated[str, Schema(max_length=10)], Schema(max_items=3)
    ] = ()
    """One name or a list of them."""

    slots: Annotated[tuple[Slot, ...], Schema(list_type="map", list_map_keys=("name",), max_items=8)] = ()
    """Slots, merged by name."""

    tags: Annotated[frozenset[Annotated[str, Schema(max_length=20)]], Schema(max_items=8)] = frozenset()
    """Tags without order or duplicates."""

    steps: Annotated[tuple[str, ...], Schema(min_items=1)] = ("check", "flash")
    """Steps in order, replaced as a whole."""

    labels: Annotated[dict[str, Annotated[str, Schema(max_length=63)]], Schema(max_properties=4)] = {}
    """A map of short strings."""

    settings: dict[str, Any] = {}
    """A free-form object."""

    options: Options = Options()
    """An object with one known field among others."""

    anything: Any = None
    """Any JSON value."""

    template: Annotated[dict[str, Any], Schema(embedded_resource=True)] = {}
    """A whole object of some other kind."""

    limits: Annotated[Limits, Schema(defaulted=True, map_type="atomic")] = Limits()
    """Bounds, all filled in by the server where they are absent."""

    since: datetime | None = None
    """A moment."""

    day: date | None = None
    """A day."""

    secret: bytes = b""
    """Bytes in base 64."""

    serial: Annotated[
        str,
        Schema(
            max_length=20,
            rules=(Rule(rule="self == oldSelf", message="the serial cannot be changed"),),
        ),
    ] = ""
    """A text that is fixed once it is set."""


class GadgetStatus(Struct, frozen=True, kw_only=True):
    """What is known about a gadget."""

    replicas: int = 0
    """How many there are."""

    selector: str = ""
    """Which Pods belong to it."""

    conditions: Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))] = ()
    """The state of the gadget."""


class Gadget(CustomResource, frozen=True, kw_only=True):
    """A thing that has everything."""

    kind: ClassVar[Kind] = Kind(group="tests.edgewright.dev", version="v1", kind="Gadget", plural="gadgets")
    definition: ClassVar[Definition] = Definition(
        singular="gadget",
        list_kind="GadgetCollection",
        short_names=("gdt",),
        categories=("things",),
        columns=(
            Column(name="Replicas", path=".spec.replicas", type="integer", format="int32", description="How many."),
            Column(name="Ready", path='.status.conditions[?(@.type=="Ready")].status'),
            Column(name="Colour", path=".spec.colour", priority=1),
            AGE,
        ),
        scale=Scale(label_selector=".status.selector"),
        selectable_fields=(".spec.colour", ".spec.title"),
    )

    spec: GadgetSpec
    """What is wanted."""

    status: GadgetStatus = GadgetStatus()
    """What is known."""


class OldGadgetSpec(Struct, frozen=True, kw_only=True):
    """What could be wanted of a gadget in the old days."""

    title: str
    """A title."""


class OldGadget(CustomResource, frozen=True, kw_only=True):
    """A gadget as it was written before."""

    kind: ClassVar[Kind] = Kind(group="tests.edgewright.dev", version="v1beta1", kind="Gadget", plural="gadgets")
    definition: ClassVar[Definition] = Definition(
        singular="gadget",
        list_kind="GadgetCollection",
        short_names=("gdt",),
        categories=("things",),
        storage=False,
        deprecated=True,
        deprecation_warning="tests.edgewright.dev/v1beta1 Gadget is old; use v1",
    )

    spec: OldGadgetSpec
    """What is wanted."""
