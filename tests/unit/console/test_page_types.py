"""What the page expects of the REST API (web/src/api/types.ts) is what the OpenAPI document promises.

Every field that the page names must be in the published schema, with a type that fits: a field that is renamed on one
side alone is found here, and not by who looks at an empty cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.documents import ROOT
from tests.unit.console.consoles import consoles

TYPES = ROOT / "web" / "src" / "api" / "types.ts"
FIELD = re.compile(r"\s*(?:/\*\*.*?\*/\s*)*(\w+|\[\w+: string\])(\?)?:\s*", re.DOTALL)
HEAD = re.compile(r"^export interface (\w+)(?:<\w+>)?(?: extends ([^{]+?))? \{", re.MULTILINE)
PLAIN = {"string": {"string"}, "number": {"integer", "number"}, "boolean": {"boolean"}}
PUBLISHED = {
    "Meta": "ObjectMeta",
    "Problem": "Problem",
    "Me": "Me",
    "SignedOut": "SignedOut",
    "KindSchema": "KindSchema",
    "FleetSummary": "FleetSummary",
    "FlashLog": "FlashLog",
    "ObjectEvents": "ObjectEvents",
    "Plan": "RolloutPlan",
    "Rollout": "FirmwareRollout",
    "Device": "Device",
    "FlashJob": "FlashJob",
}
"""The interfaces of the page, and what the document calls each; those within them are checked with them."""


def closing(text: str, start: int) -> int:
    """Where the brace that is open at `start` closes."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise AssertionError("a brace is not closed")


def fields_in(body: str) -> Iterator[tuple[str, str]]:
    """Name and type of each field."""
    at = 0
    while found := FIELD.match(body, at):
        end = at = found.end()
        depth = 0
        while body[end] != ";" or depth:
            depth += {"{": 1, "}": -1}.get(body[end], 0)
            end += 1
            if end == len(body):  # the last one of a line needs no semicolon
                break
        yield found[1], body[at:end].strip()
        at = end + 1


def interfaces(text: str) -> dict[str, dict[str, str]]:
    """Each interface with its fields, those that it takes over too."""
    made: dict[str, dict[str, str]] = {}
    for found in HEAD.finditer(text):
        own = dict(fields_in(text[found.end() : closing(text, found.end() - 1)]))
        left_out = re.fullmatch(r'Omit<(\w+), "(\w+)">', found[2] or "")
        base = dict(made.get(left_out[1] if left_out else found[2] or "", {}))
        if left_out:
            del base[left_out[2]]
        made[found[1]] = {**base, **own}
    return made


class Comparison:
    """The page's types next to the published schemas."""

    def __init__(self, text: str, document: dict[str, Any]) -> None:
        self.interfaces = interfaces(text)
        self.components: dict[str, Any] = document["components"]["schemas"]
        self.compared = 0

    def faults(self) -> list[str]:
        """Every field that the page expects and nobody promises."""
        return [
            each
            for name, component in PUBLISHED.items()
            for each in self._of(self.interfaces[name], {"$ref": f"#/components/schemas/{component}"}, name)
        ]

    def _of(self, fields: dict[str, str], schema: dict[str, Any], where: str) -> Iterator[str]:
        properties = self._resolved(schema).get("properties", {})
        for name, kind in fields.items():
            if name.startswith("["):
                continue
            self.compared += 1
            if name not in properties:
                yield f"{where}.{name}: is not published"
            else:
                yield from self._typed(kind, properties[name], f"{where}.{name}")

    def _typed(self, kind: str, schema: dict[str, Any], where: str) -> Iterator[str]:
        schema = self._resolved(schema)
        kind = kind.removesuffix(" | null")
        if kind.endswith("[]") and " | " not in kind:
            kind, schema = kind.removesuffix("[]"), self._resolved(schema.get("items", {}))
        if kind.startswith("{"):
            yield from self._of(dict(fields_in(kind[1:-1])), schema, where)
        elif kind in self.interfaces and kind != "Obj":
            yield from self._of(self.interfaces[kind], schema, where)
        elif kind in PLAIN:
            told = schema.get("type", [])
            if not PLAIN[kind] & set([told] if isinstance(told, str) else told):
                yield f"{where}: the page takes it for {kind}, and it is {told}"

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            return self._resolved(self.components[schema["$ref"].rpartition("/")[2]])
        choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
        return self._resolved(choices[0]) if len(choices) == 1 else schema


async def compared(folder: Path, text: str) -> Comparison:
    """These types next to what a console publishes."""
    async with consoles(folder) as portal:
        return Comparison(text, (await portal("GET", "/api/v1/openapi.json")).body)


async def test_every_field_that_the_page_reads_is_published(tmp_path: Path) -> None:
    comparison = await compared(tmp_path, TYPES.read_text())
    assert comparison.faults() == []
    assert comparison.compared > 100


async def test_a_field_that_nobody_publishes_and_a_type_that_is_another_are_found(tmp_path: Path) -> None:
    text = TYPES.read_text().replace("progress?: string", "progess?: string").replace("total: number", "total: string")
    assert (await compared(tmp_path, text)).faults() == [
        "FleetSummary.total: the page takes it for string, and it is integer",
        "FleetSummary.groups.total: the page takes it for string, and it is integer",
        "Plan.total: the page takes it for string, and it is integer",
        "Rollout.status.progess: is not published",
        "Rollout.status.counts.total: the page takes it for string, and it is integer",
    ]
