"""What the rules of all built-in kinds have in common: bodies are read as Go's structs, and empty fields are read back.

There is a subclass a kind, in the module of that kind. Like all rules these are functions of what they are given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgewright.local.errors import bad_request
from edgewright.local.served import Rules
from edgewright.local.structs.go_structs import Struct, WrongType, form
from edgewright.runtime.objects import RawObject

CORE = "io.k8s.api.core.v1"


class BuiltinRules(Rules):
    """Rules of a kind whose fields are in the generated tables."""

    definition = ""
    """The kind's name among the definitions."""
    generations = False

    def __init__(self) -> None:
        self._form = form(self.definition)
        _, self._version, self._kind = self.definition.rsplit(".", 2)

    def decode(self, obj: RawObject) -> tuple[RawObject, list[str]]:
        """The object as Go's struct holds it, and the paths of the fields that are not in the struct."""
        unknown: list[str] = []
        try:
            read: RawObject = self._form.read(obj, None, unknown)
        except WrongType as wrong:
            what = f'{self._kind} in version "{self._version}" cannot be handled as a {self._kind}'
            raise bad_request(f"{what}: {wrong}") from None
        return read, unknown

    def unset(self, field: str) -> Any:
        """What a field of the object is while nothing is set in it."""
        assert isinstance(self._form, Struct)  # noqa: S101  the definition of a kind has fields
        return self._form.fields[field].form.unset()


def text_at(*names: str) -> Callable[[RawObject], str]:
    """Reads a text field for a field selector; what is not there is empty."""

    def read(obj: RawObject) -> str:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value if isinstance(value, str) else ""

    return read


def flag_at(*names: str) -> Callable[[RawObject], str]:
    """Reads a yes-or-no field for a field selector."""

    def read(obj: RawObject) -> str:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return "true" if value is True else "false"

    return read
