"""The grammar of Kubernetes' JSONPath: a path as text becomes the steps that `jsonpath` walks.

Only `jsonpath` calls it. It takes and refuses what kube-apiserver's own parser takes and refuses, oddities included,
because a column whose path does not parse ends the table in the real server and must do so here.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Any, TypeAlias


class PathError(ValueError):
    """The path is not JSONPath as Kubernetes takes it; the message says where it stops being so."""


class Step(enum.Enum):
    """What a part of a path does with the values that it is given."""

    LITERAL = enum.auto()
    FIELD = enum.auto()
    WILDCARD = enum.auto()
    RECURSIVE = enum.auto()
    SLICE = enum.auto()
    UNION = enum.auto()
    FILTER = enum.auto()
    IDENTIFIER = enum.auto()


Nodes: TypeAlias = "tuple[Node, ...]"


@dataclass(frozen=True)
class Node:
    """One step: its argument (a name, a literal, an operator), the bounds of a slice, or the paths inside it."""

    step: Step
    argument: Any = None
    start: int | None = None
    end: int | None = None
    stride: int | None = None
    open_ended: bool = False
    branches: tuple[Nodes, ...] = ()


_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)")
_MAX_DIGITS = 400
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(['\"]))"
)
_SPECIAL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_ENDS_A_WORD = frozenset(" \t\r\n.,[]$@{}")
_END = ""
"""What the reader sees behind the last character."""


def parse_nodes(source: str) -> Nodes:
    """The steps of a path that is written without its braces; PathError where it is none."""
    return _Reader(source + "}").read()


class _Reader:
    """Reads one path from left to right; what follows its closing brace is read by nobody."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._nodes: list[Node] = []

    def read(self) -> Nodes:
        while not self._ahead("}"):
            if self._ahead("[?("):
                self._filter()
            elif self._ahead(".."):
                self._recursive()
            else:
                self._simple()
        self._check_rest()
        return tuple(self._nodes)

    def _check_rest(self) -> None:
        # A closing brace inside the text ends the path, and another opening one begins a second: it must parse too.
        _, brace, rest = self._source[self._at + 1 :].partition("{")
        if brace:
            _Reader(rest).read()

    def _simple(self) -> None:
        char = self._peek()
        if char in ("", "\r", "\n"):
            raise PathError("the path ends before it is complete")
        if char in " @$":
            self._at += 1
        elif char == "[":
            self._brackets()
        elif char in "\"'":
            self._nodes.append(Node(Step.LITERAL, _unquote(self._quoted(char))))
        elif char == ".":
            self._at += 1
            self._field()
        elif char in "+-" or char.isdecimal():
            self._nodes.append(Node(Step.LITERAL, _number(self._digits())))
        elif _begins_word(char):
            self._word()
        else:
            raise PathError(f"unexpected character {char!r}")

    def _peek(self) -> str:
        return self._source[self._at] if self._at < len(self._source) else _END

    def _next(self) -> str:
        char = self._peek()
        self._at += len(char)
        return char

    def _ahead(self, prefix: str) -> bool:
        return self._source.startswith(prefix, self._at)

    def _word(self) -> None:
        begin = self._at
        while (char := self._peek()) != _END and char not in _ENDS_A_WORD:
            self._at += 1
        word = self._source[begin : self._at]
        if word in ("true", "false"):
            self._nodes.append(Node(Step.LITERAL, word == "true"))
        else:
            self._nodes.append(Node(Step.IDENTIFIER, word))

    def _recursive(self) -> None:
        if self._nodes and self._nodes[-1].step is Step.RECURSIVE:
            raise PathError("a recursive descent follows another")
        self._at += 2
        self._nodes.append(Node(Step.RECURSIVE))
        if _begins_word(self._peek()):
            self._field()

    def _field(self) -> None:
        begin = self._at
        while (char := self._peek()) != _END and char not in _ENDS_A_WORD:
            self._at += 1
            if char == "\\":
                self._next()
        name = self._source[begin : self._at]
        self._nodes.append(Node(Step.WILDCARD) if name == "*" else Node(Step.FIELD, name.replace("\\", "")))

    def _digits(self) -> str:
        begin = self._at
        if self._peek() in "+-":
            self._at += 1
        while (char := self._peek()) == "." or char.isdecimal():
            self._at += 1
        return self._source[begin : self._at]

    def _quoted(self, quote: str) -> str:
        begin = self._at
        self._at += 1
        while (char := self._next()) != quote or self._source[self._at - 2] == "\\":
            if char in (_END, "\n"):
                raise PathError("a quoted string does not end")
        return self._source[begin : self._at]

    def _brackets(self) -> None:
        begin = self._at + 1
        while (char := self._next()) != "]":
            if char in (_END, "\n"):
                raise PathError("a bracket is not closed")
        content = self._source[begin : self._at - 1]
        if "," in content:
            branches = tuple(parse_nodes(f"[{part.strip(' ')}]") for part in content.split(","))
            self._nodes.append(Node(Step.UNION, branches=branches))
        elif key := _KEY.fullmatch(content):
            self._nodes.extend(parse_nodes(f".{key[1]}"))
        else:
            self._nodes.append(_slice(":" if content == "*" else content))

    def _filter(self) -> None:
        self._at += len("[?(")
        begin = self._at
        self._to_the_end_of_the_filter()
        content = self._source[begin : self._at - 1]
        if self._next() != "]":
            raise PathError("a filter is not closed by a bracket")
        if comparison := _COMPARISON.fullmatch(content):
            left, sign, right = comparison.groups()
            self._nodes.append(Node(Step.FILTER, sign, branches=(parse_nodes(left), parse_nodes(right))))
        else:
            self._nodes.append(Node(Step.FILTER, "exists", branches=(parse_nodes(content),)))

    def _to_the_end_of_the_filter(self) -> None:
        quote, closed = "", False
        while True:
            char = self._next()
            if char in (_END, "\n"):
                raise PathError("a filter is not closed")
            if char in "\"'":
                if not quote:
                    quote = char
                elif char == quote and self._source[self._at - 2] != "\\":
                    closed = True
            elif char == ")" and bool(quote) == closed:
                return


def _begins_word(char: str) -> bool:
    return char == "_" or char.isalpha() or char.isdecimal()


def _number(digits: str) -> int | float:
    if len(digits) > _MAX_DIGITS:
        raise PathError(f"{digits[:_MAX_DIGITS]}… is no number")
    if _WHOLE.fullmatch(digits) and -(2**63) <= int(digits) < 2**63:
        return int(digits)
    if _DECIMAL.fullmatch(digits):
        return float(digits)
    raise PathError(f"{digits} is no number")


def _slice(content: str) -> Node:
    match = _SLICE.fullmatch(content)
    if match is None:
        raise PathError(f"{content!r} is no index, slice or quoted key")
    first, second, third = match.groups()
    return Node(
        Step.SLICE,
        start=_bound(first),
        end=_bound(second[1:]) if second else None,
        stride=_bound(third[1:]) if third else None,
        open_ended=second == ":",
    )


def _bound(digits: str) -> int | None:
    if digits == "":
        return None
    if digits == "-" or len(digits) > _MAX_DIGITS or not -(2**63) <= int(digits) < 2**63:
        raise PathError(f"the index {digits} is no number")
    return int(digits)


def _unquote(quoted: str) -> str:
    quote, content = quoted[0], quoted[1:-1]
    pieces, at = [], 0
    while (escape := content.find("\\", at)) >= 0:
        match = _ESCAPE.match(content, escape)
        if match is None or (match[6] and match[6] != quote):
            raise PathError(f"the string {quoted} has an escape that is none")
        pieces += [_bare(content[at:escape], quote), _unescape(match)]
        at = match.end()
    pieces.append(_bare(content[at:], quote))
    return b"".join(pieces).decode("utf-8", "replace")


def _bare(piece: str, quote: str) -> bytes:
    if quote in piece:
        raise PathError(f"the string goes on behind the quote in {piece}")
    return piece.encode()


def _unescape(match: re.Match[str]) -> bytes:
    special, byte, short, long, octal, quote = match.groups()
    if special or quote:
        return (_SPECIAL[special] if special else quote).encode()
    if byte or octal:
        return bytes([int(byte, 16) if byte else int(octal, 8)])
    code = int(short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise PathError(f"the escape {match[0]} names no character")
    return chr(code).encode()
