"""Reads docs/acceptance.md and says which of its rows are not proven: `python -m tests.acceptance.page REPORTS`.

`test_acceptance_page` checks that the tests exist; after a whole run, this checks by its JUnit reports that each of
them ran and passed. Nothing is run here.
"""

from __future__ import annotations

import ast
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "acceptance.md"
_COLUMNS: Final = 3


@dataclass(frozen=True)
class Row:
    """One thing that a document has, and the test that does it."""

    line: int
    what: str
    test: str
    difference: str

    @property
    def path(self) -> str:
        """The file of the test."""
        module = self.test.partition("::")[0]
        return module if "/" in module else f"tests/acceptance/{module}.py"

    @property
    def names(self) -> tuple[str, ...]:
        """The class, where there is one, and the function."""
        return tuple(self.test.split("::")[1:])


def rows(text: str) -> list[Row]:
    """The rows of all tables; ValueError where one does not have its three columns and one test."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("| ") or line.startswith("| what the document has"):
            continue
        cells = [each.strip() for each in line.strip("|").split("|")]
        named = re.fullmatch(r"`([^`]+::[^`]+)`", cells[1]) if len(cells) == _COLUMNS else None
        if named is None:
            raise ValueError(f"line {number}: a row has three columns, and one test in the second")
        found.append(Row(number, cells[0], named[1], cells[2]))
    return found


def exists(row: Row, root: Path = ROOT) -> bool:
    """Whether there is such a test."""
    path = root / row.path
    if not path.is_file():
        return False
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for name in row.names:
        kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        found = next((each for each in body if isinstance(each, kinds) and each.name == name), None)
        if found is None:
            return False
        body = found.body
    return row.names[-1].startswith("test_")


def results(reports: Iterable[Path]) -> dict[str, set[str]]:
    """How each test ended, in all its variants: passed, failed or skipped, by module.class.test."""
    found: dict[str, set[str]] = {}
    for report in reports:
        for case in ET.parse(report).iter("testcase"):
            name = f"{case.get('classname')}.{str(case.get('name')).partition('[')[0]}"
            ends = {child.tag for child in case} & {"failure", "error", "skipped"}
            found.setdefault(name, set()).update(ends or {"passed"})
    return found


def unproven(found: Iterable[Row], ended: Mapping[str, set[str]]) -> list[str]:
    """A sentence for each row whose test did not run, or did not pass."""
    told = []
    for row in found:
        name = ".".join((row.path.removesuffix(".py").replace("/", "."), *row.names))
        how = ended.get(name, set())
        if how != {"passed"}:
            reason = "did not run" if not how else ", ".join(sorted(how - {"passed"}))
            told.append(f"docs/acceptance.md:{row.line}: {row.test}: {reason}")
    return told


def main() -> int:
    """The command: 0 where every row is proven by the reports in a folder."""
    told = unproven(rows(PAGE.read_text(encoding="utf-8")), results(sorted(Path(sys.argv[1]).glob("*.xml"))))
    for sentence in told:
        print(sentence, file=sys.stderr)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
