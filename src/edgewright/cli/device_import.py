"""Devices in a CSV file, as spreadsheets write them: what each line asks for, and what is wrong with it.

`devices import` applies what it gives. Pure: it reads a text, and reports every wrong line and not just the first.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Final

from edgewright.api.device import Device
from edgewright.api.endpoint import endpoint_problem
from edgewright.runtime.objects import RawObject

COLUMNS: Final = ("name", "endpoint", "type", "protocol", "serial")
"""The columns that are fields of a Device; any other is a label."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def read(text: str) -> tuple[list[RawObject], list[str]]:
    """The Devices in a CSV text, and what is wrong with its lines."""
    sample = text.partition("\n")[0]
    reader = csv.reader(io.StringIO(text), delimiter=";" if sample.count(";") > sample.count(",") else ",")
    rows = [[cell.strip() for cell in row] for row in reader]
    if not rows:
        return [], ["it is empty: its first line must name the columns, at least name and endpoint"]
    head = [cell.lower() if cell.lower() in COLUMNS else cell for cell in rows[0]]
    missing = [name for name in COLUMNS[:2] if name not in head]
    if missing:
        return [], [f"line 1 has no column {' and no column '.join(missing)}"]
    devices: list[RawObject] = []
    problems: list[str] = []
    seen: dict[str, int] = {}
    for number, row in enumerate(rows[1:], 2):
        if not any(row) or row[0].startswith("#"):
            continue
        cells = dict(zip(head, [*row, *[""] * (len(head) - len(row))], strict=False))
        wrong = _problem(cells, row, head)
        if not wrong and cells["name"] in seen:
            wrong = f"{cells['name']} is on line {seen[cells['name']]} already"
        if wrong:
            problems.append(f"line {number}: {wrong}")
            continue
        seen[cells["name"]] = number
        devices.append(_device(cells))
    return devices, problems


def _problem(cells: dict[str, str], row: list[str], head: list[str]) -> str:
    if len(row) > len(head):
        return f"it has {len(row)} cells, and there are {len(head)} columns"
    if not _NAME.fullmatch(cells["name"]):
        return f"{cells['name']!r} is no name of a Device: it has lower-case letters, digits, - and ."
    problem = endpoint_problem(cells["endpoint"], local=True)
    if problem:
        return problem
    bad = [value for name, value in cells.items() if name not in COLUMNS and not _LABEL.fullmatch(value)]
    return f"{bad[0]!r} is no value of a label" if bad else ""


def _device(cells: dict[str, str]) -> RawObject:
    labels = {name: value for name, value in cells.items() if name not in COLUMNS and value and name}
    return {
        "apiVersion": Device.kind.api_version,
        "kind": Device.kind.kind,
        "metadata": {"name": cells["name"], **({"labels": labels} if labels else {})},
        "spec": {name: cells[name] for name in COLUMNS[1:] if cells.get(name)},
    }
