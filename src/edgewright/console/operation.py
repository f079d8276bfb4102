"""What an operation of the REST API is: method, path, parameters, body, answers, handler.

`operations` lists them; from that one list come the routes, the OpenAPI document and the reference page. Reading a
request's parameters by their description is here too, and is pure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from edgewright.console.problems import FieldError, Refusal

if TYPE_CHECKING:
    from aiohttp import web

    from edgewright.console.call import Call

Handler: TypeAlias = "Callable[[Call], Awaitable[web.StreamResponse]]"
Scope: TypeAlias = Literal["", "namespaced", "cluster", "any"]
"""Which kinds an operation is for: none in particular, those with a namespace, those without, or all."""

OBJECT: Final = "{object}"
"""The schema of a body that is the custom resource itself."""
LIST: Final = "{list}"
"""The schema of a list of them."""
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
EVENT_STREAM: Final = "text/event-stream"


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One thing that a caller says in the path, the query or a header."""

    name: str
    where: Literal["path", "query", "header"] = "query"
    about: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False

    def __post_init__(self) -> None:
        """What is in a path is always there."""
        if self.where == "path":
            object.__setattr__(self, "required", True)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One way in which an operation can end well; problems are the same for all."""

    status: int
    about: str
    schema: str = ""
    """The name of a schema, OBJECT, LIST, or nothing."""
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One line of the table."""

    name: str
    method: str
    path: str
    summary: str
    parameters: tuple[Parameter, ...] = ()
    body: Mapping[str, str] = field(default_factory=dict)
    """The schema of the body by its media type; empty where there is none."""
    answers: tuple[Answer, ...]
    problems: tuple[str, ...] = ()
    """The sorts of problems that can come, besides those that any request can meet."""
    handler: Handler
    scope: Scope = ""
    public: bool = False
    """Whether it answers also who is not known."""
    endless: bool = False
    """Whether its answer goes on until one side ends it."""

    @property
    def writes(self) -> bool:
        """Whether it can change something."""
        return self.method != "GET"


def read_query(parameters: Iterable[Parameter], given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What the query says, by the description of its parameters; a Refusal names the one that does not fit."""
    known = {each.name: each for each in parameters if each.where == "query"}
    found: dict[str, str] = {}
    for name, value in given:
        if name not in known:
            there_are = f"this operation has {', '.join(sorted(known))}" if known else "this operation has none"
            raise Refusal("bad-request", f"there is no parameter {_shown(name)}: {there_are}")
        if name in found:
            raise Refusal("bad-request", f"the parameter {name} is given twice")
        check(known[name], value)
        found[name] = value
    for name, parameter in known.items():
        if parameter.required and name not in found:
            raise Refusal("bad-request", f"the parameter {name} is missing: {parameter.about}")
    return found


def check(parameter: Parameter, value: str) -> None:
    """Refuses a value that the parameter's schema does not allow."""
    schema = parameter.schema
    if "enum" in schema and value not in schema["enum"]:
        raise Refusal("bad-request", f"the parameter {parameter.name} must be one of {', '.join(schema['enum'])}")
    if schema["type"] == "boolean" and value not in {"true", "false"}:
        raise Refusal("bad-request", f"the parameter {parameter.name} must be true or false")
    if schema["type"] == "integer":
        low, high = schema["minimum"], schema["maximum"]
        if not (value.isascii() and value.isdecimal() and len(value) < 12 and low <= int(value) <= high):
            raise Refusal("bad-request", f"the parameter {parameter.name} must be a number from {low} to {high}")
    if len(value) > schema.get("maxLength", 4096):
        raise Refusal("bad-request", f"the parameter {parameter.name} is too long")


def _shown(name: str) -> str:
    """A name that a stranger made up, short enough to repeat; its value never is, for it may be a secret."""
    return repr(name[:40])


def field_error(pointer: str, detail: str, *, code: str = "FieldValueInvalid") -> FieldError:
    """What is wrong with a field of the body, found before the API server was asked."""
    return FieldError(pointer=pointer, detail=detail, code=code)
