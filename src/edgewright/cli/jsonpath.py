"""JSONPath templates as kubectl takes them: `{.metadata.name}`, `{range .items[*]}…{end}`, filters, slices, literals.

`printing` calls it for `-o jsonpath=…`. It is the part of the language that people use with kubectl, and no more; what
it cannot read is a ValueError that says where. As with kubectl, a field that is not there is nothing, and a place that
a list does not have is an error: a script must not go on with an empty text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

_TOKEN: Final = re.compile(
    r"""
      (?P<deep>\.\.)
    | \.(?P<all>\*)
    | \.(?P<name>(?:[^.\[\]\\\s{}(),|]|\\.)+)
    | \[\s*'(?P<quoted>(?:[^'\\]|\\.)*)'\s*\]
    | \[\s*"(?P<quoted2>(?:[^"\\]|\\.)*)"\s*\]
    | \[\s*(?P<wild>\*)\s*\]
    | \[\s*(?P<slice>-?\d*\s*:\s*-?\d*(?:\s*:\s*-?\d*)?)\s*\]
    | \[\s*(?P<union>-?\d+(?:\s*,\s*-?\d+)*)\s*\]
    | \[\?\(\s*(?P<filter>[^\]]*?)\s*\)\s*\]
    """,
    re.VERBOSE,
)
_FILTER: Final = re.compile(r"(?P<left>@[^=!<>]*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>.+))?")
_LITERAL: Final = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')\s*""")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class OutOfBounds(ValueError):
    """A template asks for a place that a list does not have."""

    def __init__(self, index: int, length: int) -> None:
        super().__init__(f"array index out of bounds: index {index}, length {length}")


Step: TypeAlias = Callable[[Iterable[Any]], list[Any]]


@dataclass(frozen=True)
class _Text:
    text: str


@dataclass(frozen=True)
class _Path:
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class _Range:
    steps: tuple[Step, ...]
    inner: tuple[_Node, ...]


_Node: TypeAlias = "_Text | _Path | _Range"


class Template:
    """A template that was read; `render` fills it."""

    def __init__(self, text: str) -> None:
        source = text if "{" in text else f"{{{text if text.startswith(('.', '[', '$', '@')) else '.' + text}}}"
        self._nodes, rest = _nodes(_parts(source), inside=False)
        if rest:
            raise ValueError("there is an {end} without a {range …}")

    def render(self, root: Any) -> str:
        """The text that the template gives for an object; OutOfBounds where a list of it is too short."""
        return "".join(_rendered(self._nodes, root))


def find(path: str, root: Any) -> list[Any]:
    """Everything at a path such as `.status.counts.failed`; empty where there is nothing."""
    try:
        return _walk(_steps(path), root)
    except OutOfBounds:
        return []


def _rendered(nodes: Iterable[_Node], here: Any) -> Iterable[str]:
    for node in nodes:
        match node:
            case _Text(text):
                yield text
            case _Path(steps):
                yield " ".join(_shown(value) for value in _walk(steps, here))
            case _Range(steps, inner):
                for value in _walk(steps, here):
                    yield from _rendered(inner, value)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _walk(steps: Iterable[Step], root: Any) -> list[Any]:
    found = [root]
    for step in steps:
        found = step(found)
    return found


def _parts(text: str) -> list[tuple[bool, str]]:
    """The template cut into what stands in braces and what does not."""
    parts: list[tuple[bool, str]] = []
    position = 0
    while position < len(text):
        begin = text.find("{", position)
        if begin < 0:
            parts.append((False, text[position:]))
            break
        if begin > position:
            parts.append((False, text[position:begin]))
        end = _closing(text, begin)
        parts.append((True, text[begin + 1 : end].strip()))
        position = end + 1
    return parts


def _closing(text: str, begin: int) -> int:
    quote = ""
    position = begin + 1
    while position < len(text):
        letter = text[position]
        if letter == "\\":
            position += 1
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "}":
            return position
        position += 1
    raise ValueError(f"the brace at position {begin} is not closed")


def _nodes(parts: list[tuple[bool, str]], *, inside: bool) -> tuple[tuple[_Node, ...], bool]:
    """The nodes up to an {end}, and whether there was one that closes nothing here."""
    nodes: list[_Node] = []
    while parts:
        braced, text = parts.pop(0)
        if not braced:
            nodes.append(_Text(text))
        elif text == "end":
            return tuple(nodes), not inside
        elif text.startswith("range "):
            inner, _ = _nodes(parts, inside=True)
            nodes.append(_Range(_steps(text.removeprefix("range ").strip()), inner))
        elif literal := _LITERAL.fullmatch(text):
            nodes.append(_Text(_unescaped(literal[1] if literal[1] is not None else literal[2])))
        else:
            nodes.append(_Path(_steps(text)))
    return tuple(nodes), False


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)


def _steps(path: str) -> tuple[Step, ...]:
    rest = path.strip().removeprefix("$").removeprefix("@")
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    steps: list[Step] = []
    position = 0
    while position < len(rest):
        if rest[position:] == ".":  # {.}: the thing itself
            break
        token = _TOKEN.match(rest, position)
        if token is None:
            raise ValueError(f"{path!r} cannot be read from {rest[position:]!r} on")
        position = token.end()
        if token["deep"]:
            steps.append(_deep)
            if position < len(rest) and rest[position] not in ".[":
                rest = f"{rest[:position]}.{rest[position:]}"
        else:
            steps.append(_step(token))
    return tuple(steps)


def _step(token: re.Match[str]) -> Step:
    name = next((token[group] for group in ("name", "quoted", "quoted2") if token[group] is not None), None)
    if name is not None:
        return _named(re.sub(r"\\(.)", r"\1", name))
    if token["all"] or token["wild"]:
        return _every
    if token["slice"] is not None:
        numbers = [int(part) if part.strip() else None for part in token["slice"].split(":")]
        return lambda found: [value for each in found if isinstance(each, list) for value in each[slice(*numbers)]]
    if token["union"] is not None:
        return _numbered([int(part) for part in token["union"].split(",")])
    return _filtered(token["filter"])


def _named(name: str) -> Step:
    return lambda found: [each[name] for each in found if isinstance(each, dict) and name in each]


def _numbered(numbers: list[int]) -> Step:
    def step(found: Iterable[Any]) -> list[Any]:
        lists = [each for each in found if isinstance(each, list)]
        return [_at(each, number) for each in lists for number in numbers]

    return step


def _at(values: list[Any], number: int) -> Any:
    if not -len(values) <= number < len(values):
        raise OutOfBounds(number, len(values))
    return values[number]


def _every(found: Iterable[Any]) -> list[Any]:
    values: list[Any] = []
    for each in found:
        values += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return values


def _deep(found: Iterable[Any]) -> list[Any]:
    values: list[Any] = []
    for each in found:
        values.append(each)
        values += _deep(_every([each]))
    return values


def _filtered(text: str) -> Step:
    parsed = _FILTER.fullmatch(text)
    if parsed is None:
        raise ValueError(f"the filter {text!r} cannot be read: it is @.field, or @.field == value")
    path = _steps(parsed["left"])
    if parsed["operator"] is None:
        return lambda found: [value for value in _every(found) if _walk(path, value)]
    wanted, compare = _value(parsed["right"]), _COMPARE[parsed["operator"]]

    def holds(value: Any) -> bool:
        try:
            return any(compare(each, wanted) for each in _walk(path, value))
        except TypeError:  # a text is neither more nor less than a number
            return False

    return lambda found: [value for value in _every(found) if holds(value)]


def _value(text: str) -> Any:
    literal = _LITERAL.fullmatch(text)
    if literal:
        return _unescaped(literal[1] if literal[1] is not None else literal[2])
    try:
        return msgspec.json.decode(text.strip())
    except msgspec.DecodeError:
        raise ValueError(f"{text!r} is neither a text in quotes nor a number, true, false or null") from None
