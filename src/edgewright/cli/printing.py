"""How objects are printed: as a table with the columns of `kubectl get`, or whole as JSON, YAML, names or by JSONPath.

Commands hand over raw objects, so that what a program reads is what the server has. Pure: it gives texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec
import typer

from edgewright.api.crd import Column, CustomResource
from edgewright.cli import jsonpath, terminal
from edgewright.cli.failure import Failed
from edgewright.runtime import spans
from edgewright.runtime.objects import Kind, RawObject

OUTPUT_HELP = "table, wide, json, yaml, name or jsonpath=TEMPLATE."


class Style(StrEnum):
    """The forms that objects can be printed in."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    JSONPATH = "jsonpath"


@dataclass(frozen=True)
class Form:
    """The form that was asked for."""

    style: Style = Style.TABLE
    template: jsonpath.Template | None = None

    @property
    def for_people(self) -> bool:
        """Whether it is a table."""
        return self.style in {Style.TABLE, Style.WIDE}


def read_form(text: str | Form) -> Form:
    """The form in what was typed behind `-o`; one that was read already stays."""
    if isinstance(text, Form):
        return text
    name, equals, template = text.partition("=")
    try:
        style = Style(name or Style.TABLE)
        if style is not Style.JSONPATH:
            if equals:
                raise ValueError
            return Form(style)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is none of {OUTPUT_HELP[:-1]}", param_hint="--output") from None
    try:
        return Form(style, jsonpath.Template(template))
    except ValueError as error:
        raise typer.BadParameter(f"the template is wrong: {error}", param_hint="--output") from None


Output: TypeAlias = Annotated[
    Form,
    typer.Option(
        "--output",
        "-o",
        metavar="FORM",
        parser=read_form,
        help=f"How to print it: {OUTPUT_HELP}",
        show_default=False,
        autocompletion=lambda incomplete: [each for each in [*Style] if each.startswith(incomplete)],
    ),
]


def cleaned(item: RawObject, kind: Kind) -> RawObject:
    """An object as people want to see it: with its kind, and without what only the server reads."""
    metadata = {name: value for name, value in item.get("metadata", {}).items() if name != "managedFields"}
    rest = {name: value for name, value in item.items() if name not in {"apiVersion", "kind", "metadata"}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}


def text_of(
    items: Sequence[RawObject],
    resource: type[CustomResource],
    form: Form,
    *,
    now: datetime,
    one: bool = False,
    namespaces: bool = False,
    colour: bool = False,
    width: int | None = None,
) -> str:
    """All objects of a kind in a form; `one` prints the first alone and not as a list."""
    kind = resource.kind
    if form.for_people:
        wide = form.style is Style.WIDE
        columns = [each for each in resource.definition.columns if wide or not each.priority]
        rows = [row_of(item, columns, now=now, namespaces=namespaces) for item in items]
        head = [*(["NAMESPACE"] if namespaces else []), "NAME", *(each.name.upper() for each in columns)]
        return table(head, rows, colour=colour, width=None if wide else width)
    if form.style is Style.NAME:
        return "".join(f"{kind.plural}.{kind.group}/{item['metadata']['name']}\n" for item in items)
    whole = [cleaned(item, kind) for item in items]
    document: Any = whole[0] if one else {"apiVersion": "v1", "kind": "List", "items": whole}
    return as_text(document, form)


def as_text(document: Any, form: Form) -> str:
    """A document as JSON, as YAML or by a template; Failed where that asks for a place that a list does not have."""
    if form.template is not None:
        try:
            return form.template.render(document)
        except jsonpath.OutOfBounds as error:
            raise Failed(f"jsonpath: {error}") from None
    if form.style is Style.JSON:
        return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
    from edgewright.api.manifests import render  # noqa: PLC0415 - YAML takes long to import

    return render(document)


def row_of(item: RawObject, columns: Iterable[Column], *, now: datetime, namespaces: bool = False) -> list[str]:
    """One line of a table."""
    metadata = item["metadata"]
    return [
        *([metadata.get("namespace", "")] if namespaces else []),
        metadata["name"],
        *(cell(item, column, now) for column in columns),
    ]


def cell(item: RawObject, column: Column, now: datetime) -> str:
    """What a column shows of an object; as kubectl, nothing where there is nothing."""
    found = jsonpath.find(column.path, item)
    value = found[0] if found else None
    if value is None:
        return "<none>" if column.type == "date" else ""
    if column.type == "date":
        return spans.ago(datetime.fromisoformat(str(value)), now)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, colour: bool = False, width: int | None = None) -> str:
    """Columns as kubectl sets them; on a terminal a line ends where the terminal does."""
    lines = [list(head), *map(list, rows)]
    sizes = [max(len(line[number]) for line in lines) for number in range(len(head))]
    text = []
    for at, line in enumerate(lines):
        cells = [value.ljust(size) for value, size in zip(line[:-1], sizes[:-1], strict=True)]
        last = line[-1]
        if width is not None:
            room = width - sum(len(each) + 3 for each in cells)
            if room < len(last):
                last = last[: max(room - 1, 0)] + ("…" if room > 0 else "")
        shown = [*cells, last]
        if at and colour:
            shown = [terminal.state(each, on=True) for each in shown]
        text.append("   ".join(shown).rstrip() + "\n")
    return "".join(text)
