"""The text of an expression before it is compiled: names as CEL takes them, and what the library does not know.

Rules are rewritten here into expressions of the same meaning. Strings and comments in them are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*)"
    r"|(?P<string>(?i:[rb]{0,2})(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"))"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<space>\s+)|(?P<other>.)",
    re.DOTALL | re.ASCII,
)
_OPTIONAL = frozenset({"validate", "named"})
"""Functions that give an optional value, which a function in Python cannot: a list gives it in their stead."""


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        yield _Token(str(found.lastgroup), found[0])


def escaped(name: str) -> str | None:
    """The name by which expressions know a field; None for a field that they cannot name."""
    if not name or name[0].isdigit() or not re.fullmatch(r"[A-Za-z0-9_./-]+", name):
        return None
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[-./]", lambda found: _ESCAPES[found[0]], name)


def mentions(text: str, variable: str) -> bool:
    """Whether an expression names a variable."""
    before = ""
    for token in _tokens(text):
        if token.kind == "name" and token.text == variable and before != ".":
            return True
        if token.kind not in ("space", "comment"):
            before = token.text
    return False


def rewritten(text: str) -> str:
    """The expression with the calls that give an optional value in a form that the library can evaluate."""
    out: list[str] = []
    depth = 0
    ends: list[int] = []  # the depths at which a call closes that gives a list for an optional value
    last, before_last = "", ""
    for token in _tokens(text):
        out.append(token.text)
        if token.kind == "other" and token.text == "(":
            depth += 1
            if last in _OPTIONAL and before_last == ".":
                ends.append(depth)
        elif token.kind == "other" and token.text == ")":
            if ends and ends[-1] == depth:
                ends.pop()
                out.append(".first()")
            depth -= 1
        if token.kind not in ("space", "comment"):
            last, before_last = token.text, last
    return "".join(out)
