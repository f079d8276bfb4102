"""The CEL library, loaded when it is first needed, and its errors in the words of the one that kube-apiserver uses.

Rules compile and evaluate through it, and patterns borrow its regular expressions. It knows nothing of schemas and
objects; a process that never meets a rule never loads the library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module, util
from typing import Any, Final

_LIBRARY: Final = "cel_expr_python.cel"
EXTENSIONS: Final = ("lists", "optional", "sets", "strings", "two-var-comprehensions")
"""What Kubernetes has of the library's extensions."""


class Faulty(Exception):
    """An expression does not compile; the message says where and why."""


class Failed(Exception):
    """An expression gave no value: the message is the one that the real server has for it."""

    def __init__(self, message: str, *, ran_away: bool = False) -> None:
        super().__init__(message)
        self.ran_away = ran_away


@dataclass(frozen=True, kw_only=True)
class Overload:
    """A function that expressions may call: the types of its parameters and of its result by their CEL names."""

    name: str
    parameters: Sequence[str]
    result: str
    call: Callable[..., Any]
    member: bool = True


@cache
def missing() -> bool:
    """Whether the library is not installed."""
    return util.find_spec("cel_expr_python") is None


@cache
def _library() -> Any:
    try:
        return import_module(_LIBRARY)
    except ImportError:
        raise RuntimeError("CEL rules need the package cel-expr-python: install edgewright[local]") from None


def _type(name: str) -> Any:
    """A type by its name: `int`, `list`, `map`, `dyn` …"""
    types = _library().Type
    if name == "list":
        return types.List(types.DYN)
    if name == "map":
        return types.Map(types.DYN, types.DYN)
    return getattr(types, name.upper())


class Environment:
    """Where expressions are compiled: the variables they may name, all of them untyped, and the functions."""

    def __init__(
        self, variables: Sequence[str], overloads: Sequence[Overload] = (), *, extensions: Sequence[str] = EXTENSIONS
    ) -> None:
        self._variables = variables
        self._overloads = overloads
        self._extensions = extensions

    def compile(self, expression: str) -> Program:
        """The expression, ready to be evaluated."""
        environment = self._environment
        try:
            return Program(environment.compile(expression))
        except RuntimeError as error:
            text = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
            raise Faulty(text) from None

    @cached_property
    def _environment(self) -> Any:
        library = _library()
        config = "".join(f"  - name: {name}\n" for name in self._extensions)
        named: dict[str, list[Any]] = {}
        for index, each in enumerate(self._overloads):
            parameters = [_type(name) for name in each.parameters]
            overload = library.Overload(f"overload_{index}", _type(each.result), parameters, each.member, each.call)
            named.setdefault(each.name, []).append(overload)
        return library.NewEnv(
            config=library.NewEnvConfigFromYaml(f"name: kubernetes\nextensions:\n{config}"),
            variables=dict.fromkeys(self._variables, library.Type.DYN),
            extensions=[
                library.CelExtension("kubernetes", [library.FunctionDecl(*function) for function in named.items()])
            ],
        )


class Program:
    """An expression that compiled."""

    def __init__(self, expression: Any) -> None:
        self._expression = expression

    def syntax(self) -> bytes:
        """The checked expression as a protocol buffer."""
        return bytes(self._expression.serialize())

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value for these variables; what runs for too long is given up."""
        try:
            result = self._expression.eval(data=values)
        except RuntimeError as error:
            if "Iteration budget exceeded" in str(error):
                raise Failed("operation cancelled: actual cost limit exceeded", ran_away=True) from None
            raise Failed(_reworded(str(error))) from None
        if result.type().name() == "ERROR":
            raise Failed(_reworded(str(result.value())))
        return result.plain_value()


_REWORDED: Final = (
    (r'Key not found in map : "(.*)"', r"no such key: \1"),
    (r"Key not found in map : (.*)", r"no such key: \1"),
    (r"Index error: index=(-?\d+) .*", r"index out of bounds: \1"),
    (r"divide by zero", "division by zero"),
    (r"No matching overloads found.*|Applying SELECT to non-message type", "no such overload"),
    (r"cannot convert string to (\w+)", r"type conversion error from 'string' to '\1'"),
    (r"String to (\w+) conversion failed", r"type conversion error from 'string' to 'google.protobuf.\1'"),
    (r"Type conversion error (.*)", r"type conversion error \1"),
    (r"invalid regular expression: missing ([)\]]): (.*)", r"error parsing regexp: missing closing \1: `\2`"),
    (r"invalid regular expression: no argument for (.*): (.*)", r"error parsing regexp: missing argument to \1: `\2`"),
    (r"invalid regular expression: (.*): (.*)", r"error parsing regexp: \1: `\2`"),
)
"""What the library says, and what the real server says for it."""


def _reworded(text: str) -> str:
    """An error of the library as the real server says it, without the codes around it."""
    text = re.sub(r"^[A-Z_]+: ", "", re.sub(r" \[[A-Z_]+\]$", "", text))
    for theirs, ours in _REWORDED:
        if found := re.fullmatch(theirs, text, re.DOTALL):
            return found.expand(ours)
    return text


@cache
def _regular_expressions() -> tuple[Program, Program]:
    environment = Environment(("text", "pattern"), extensions=("optional", "regex"))
    return environment.compile("text.matches(pattern)"), environment.compile("regex.extractAll(text, pattern)")


def matches(text: str, pattern: str) -> bool:
    """Whether a pattern is found in a text, in linear time; False if it is none."""
    try:
        return bool(_regular_expressions()[0].evaluate({"text": text, "pattern": pattern}))
    except Failed:
        return False


def pattern_fault(pattern: str) -> str:
    """Why a text is no pattern, or nothing if it is one."""
    try:
        _regular_expressions()[0].evaluate({"text": "", "pattern": pattern})
    except Failed as failed:
        return str(failed)
    return ""


def find_all(text: str, pattern: str) -> list[str]:
    """The parts of a text that a pattern without groups fits."""
    return list(_regular_expressions()[1].evaluate({"text": text, "pattern": pattern}))
