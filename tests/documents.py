"""Reads the pages that people read, README and docs/, so that tests can hold them to what they say.

A fenced block with the language `console` holds commands (lines that begin with `$ `) and the output that each of them
shows; a block under a comment `<!-- file: NAME -->` is a file of that name. `tests/unit/test_docs.py` looks at the
pages, `tests/cluster/test_docs.py` runs their commands, but for those in `ON_MACHINES`. Nothing is run or written here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

SUITES = frozenset(
    {
        *("lint", "unit", "coverage", "local", "cluster", "flash", "conformance", "boards", "e2e", "acceptance"),
        *("acceptance-page", "edge", "browser"),
    }
)
THE_TEST_ITSELF = SUITES | {"test", "verify", "bench", "soak", "kubernetes", "lock"}
"""Targets of the Makefile that a test cannot run, because they run the tests or build for minutes: it looks them up."""

ON_MACHINES = {ROOT / "docs" / "tutorial-edge-devices.md": ROOT / "tests" / "edge" / "test_tutorial.py"}
"""Pages whose commands are typed on several machines, and the tests that have those and run them."""

_FENCE = re.compile(r"^```(\w*)$")
_FILE = re.compile(r"^<!-- file: (\S+) -->$")
_MAKE = re.compile(r"^make ([a-z0-9-]+)")
_INCLUDE = re.compile(r"^-?include +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its language, its lines, and the name of the file that it is, if it is one."""

    page: Path
    line: int
    language: str
    lines: tuple[str, ...]
    file: str = ""

    @property
    def text(self) -> str:
        """What stands in the block."""
        return "".join(f"{line}\n" for line in self.lines)


@dataclass(frozen=True)
class Command:
    """One command as a page shows it, with the output below it; no output shown means that any will do."""

    page: Path
    line: int
    text: str
    output: tuple[str, ...]

    @property
    def target(self) -> str | None:
        """The target of the Makefile that is looked up and not run; None for a command that is run."""
        found = _MAKE.match(self.text)
        return found[1] if found and found[1] in THE_TEST_ITSELF else None

    def __str__(self) -> str:
        """Where it stands and what it is, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.text}"


def pages() -> list[Path]:
    """Every page, in the order in which a reader finds them."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def makefile() -> str:
    """The Makefile, and after it the files that it includes."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    included = [file for names in _INCLUDE.findall(text) for name in names.split() for file in sorted(ROOT.glob(name))]
    return "\n".join([text, *(file.read_text(encoding="utf-8") for file in included)])


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    opened: tuple[int, str, list[str]] | None = None
    file = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is not None:
            if line == "```":
                yield Block(page, opened[0], opened[1], tuple(opened[2]), file)
                opened, file = None, ""
            else:
                opened[2].append(line)
        elif fence:
            opened = (number, fence[1], [])
        elif named := _FILE.match(line):
            file = named[1]
        elif line.startswith("```"):
            raise ValueError(f"{page}:{number}: a fence must be ``` and one word")
        elif line:
            file = ""  # the comment stands directly above its block
    if opened is not None:
        raise ValueError(f"{page}:{opened[0]}: the block is not closed")


def commands(page: Path) -> list[Command]:
    """The commands of a page, in order; a line that ends in a backslash goes on in the next."""
    found: list[Command] = []
    for block in blocks(page):
        if block.language != "console":
            continue
        if not block.lines or not block.lines[0].startswith("$ "):
            raise ValueError(f"{page}:{block.line}: a console block begins with a command")
        text, begins = "", 0
        output: list[str] = []
        for at, line in enumerate(block.lines, block.line + 1):
            if text.endswith("\\") and not output:
                text = f"{text}\n{line}"
            elif line.startswith("$ "):
                if text:
                    found.append(Command(page, begins, text, tuple(output)))
                text, output, begins = line.removeprefix("$ "), [], at
            else:
                output.append(line)
        found.append(Command(page, begins, text, tuple(output)))
    return found


def matches(shown: tuple[str, ...], printed: str) -> bool:
    """Whether a command printed what its page shows: `...` stands for any text, as a line of its own for any lines.

    How much space stands between two words does not count, because columns are as wide as what is in them.
    """
    parts: list[str] = []
    for line in shown:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            words = r"[ ]+".join(re.escape(word).replace(r"\.\.\.", r".*?") for word in line.split())
            parts.append(rf"[ ]*{words}[ ]*\n")
    return re.fullmatch("".join(parts), printed.rstrip("\n") + "\n") is not None
