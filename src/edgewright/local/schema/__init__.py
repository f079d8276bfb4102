"""What the structural schema of a kind does to an object: unknown fields go, defaults come in, wrong values are named.

The rules of a kind compile its schema once, when the kind is served, and call `default`, `prune` and `validate` for
each body. No object that is given is ever changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

from edgewright.local.errors import bad_request
from edgewright.local.schema import defaults, embedded, listtypes, rules, value_errors, values
from edgewright.local.schema.correlation import Pair
from edgewright.local.schema.nodes import Definitions, Node
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

__all__ = ["Compiled", "compile", "rules_faults"]

_UNASKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


@contextmanager
def _not_too_deep() -> Iterator[None]:
    """An object that is nested deeper than Python goes is a bad request and no failure of the server."""
    try:
        yield
    except RecursionError:
        raise bad_request("the object is nested too deeply") from None


class Compiled:
    """A schema that is ready to be applied to objects."""

    def __init__(self, root: Node) -> None:
        self._root = root

    def prune(self, obj: RawObject) -> tuple[RawObject, list[str]]:
        """The object without the fields that the schema does not know, and the sorted paths of those."""
        dropped: list[str] = []
        with _not_too_deep():
            pruned: RawObject = defaults.prune(obj, self._root, "", dropped)
        return pruned, sorted(dropped)

    def default(self, obj: RawObject) -> RawObject:
        """The object with defaults in; a null where none is allowed gives way to the default, or goes."""
        with _not_too_deep():
            filled: RawObject = defaults.clone(obj)
            defaults.drop_nulls(filled, self._root)
            defaults.fill(filled, self._root)
        return filled

    def fill(self, obj: RawObject) -> RawObject:
        """The object with defaults in; nulls stay, as they do in what server-side apply leaves."""
        with _not_too_deep():
            filled: RawObject = defaults.clone(obj)
            defaults.fill(filled, self._root)
        return filled

    def validate(
        self,
        obj: RawObject,
        old: RawObject | None = None,
        *,
        subresource: str = "",
        warnings: list[str] | None = None,
        further: Sequence[Cause] = (),
        blocked: bool = False,
    ) -> list[Cause]:
        """What is wrong with the values of an object; of an update only what it changes is held against it.

        For a write of the status only that is compared with the schema, though rules see the whole. A rule that an
        unchanged part breaks is added to `warnings`. What else was found wrong with values is told together with the
        rest, and an object that is `blocked`, by something that is told elsewhere, is not shown to rules.
        """
        with _not_too_deep():
            pair = None if old is None else Pair(obj, old, self._root)
            if subresource == "status":
                found = [*self._status_faults(obj, old), *further]
            else:
                found = [*values.check(obj, self._root, pair), *further, *embedded.embedded_faults(obj, self._root)]
            # A list that had duplicates before may keep them.
            twice = listtypes.duplicates(obj, self._root)
            if twice and not (old is not None and listtypes.duplicates(old, self._root)):
                found += twice
            if self._rules is None:
                return found
            if blocked or any(cause.reason in value_errors.BLOCKING for cause in found):
                return [*found, value_errors.invalid(value_errors.NOWHERE, None, _UNASKED)]
            return found + self._rules.broken(obj, old, pair, [] if warnings is None else warnings)

    @cached_property
    def _rules(self) -> rules.Tree | None:
        return rules.tree(self._root)

    def _status_faults(self, obj: RawObject, old: RawObject | None) -> list[Cause]:
        status = self._root.properties.get("status")
        if status is None or "status" not in obj:
            return []
        pair = Pair(obj["status"], (old or {}).get("status"), status)
        return values.check(obj["status"], status, pair, within="status")


def compile(schema: RawObject, definitions: Mapping[str, RawObject] | None = None) -> Compiled:  # noqa: A001  as re.compile()
    """Takes the schema of a version, which must be structural, and the schemas that it refers to."""
    return Compiled(Node(schema, Definitions(definitions or {}), root=True))


def rules_faults(schema: RawObject, path: str) -> list[Cause]:
    """The CEL rules in a schema that cannot be used, with their fields below `path`."""
    return rules.faulty(Node(schema, Definitions({}), root=True), path)
