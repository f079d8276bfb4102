"""Which old value belongs to which new one, so that an update is not refused for what it leaves as it was.

Validation and rules walk down both objects with it. It only compares; what is done with a fault in a value that is
unchanged is decided by the callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewright.local.schema.nodes import Node
from edgewright.local.schema.value_errors import same


class Pair:
    """A new value and the old one in its place."""

    def __init__(self, new: Any, old: Any, node: Node) -> None:
        self.new = new
        self.old = old
        self._node = node
        self._children: dict[str | int, Pair] = {}
        self._unchanged: bool | None = None
        self._keyed: Keyed | None = None

    def field(self, name: str) -> Pair | None:
        """The pair of a field that is in both values and in the schema."""
        if name in self._children:
            return self._children[name]
        if not isinstance(self.new, dict) or not isinstance(self.old, dict):
            return None
        node = self._node.child(name)
        if name not in self.new or name not in self.old or node is None:
            return None
        self._children[name] = child = Pair(self.new[name], self.old[name], node)
        return child

    def item(self, index: int) -> Pair | None:
        """The pair of a list's item, which only a list with keys has."""
        if index in self._children:
            return self._children[index]
        items = self._node.items
        if items is None or not self._correlatable():
            return None
        if self._keyed is None:
            self._keyed = Keyed(self._node.list_keys, self.old)
        old = self._keyed.find(self.new[index])
        if old is None:
            return None
        self._children[index] = child = Pair(self.new[index], old, items)
        return child

    def unchanged(self) -> bool:
        """Whether the new value is the old one; the order of a list with keys does not count."""
        if self._unchanged is None:
            self._unchanged = self._compare()
        return self._unchanged

    def _compare(self) -> bool:
        if isinstance(self.new, dict) and isinstance(self.old, dict):
            fields = [self.field(name) for name in self.new]
            return len(self.new) == len(self.old) and all(pair is not None and pair.unchanged() for pair in fields)
        if self._correlatable() and self._node.items is not None:
            if len(self.new) != len(self.old):
                return False
            items = [self.item(index) for index in range(len(self.new))]
            return all(pair is not None and pair.unchanged() for pair in items)
        return same(self.new, self.old)

    def _correlatable(self) -> bool:
        return isinstance(self.new, list) and isinstance(self.old, list) and self._node.list_type == "map"


class Keyed:
    """The items of a list by their keys; of several with the same key the first counts."""

    def __init__(self, keys: Sequence[str], items: Any) -> None:
        self._keys = keys
        self._items: dict[tuple[Any, ...], Any] = {}
        for item in items if isinstance(items, list) and keys else ():
            key = self._key(item)
            if key is not None:
                self._items.setdefault(key, item)

    def find(self, item: Any) -> Any:
        """The item with the keys of the given one, or None."""
        key = self._key(item)
        return None if key is None else self._items.get(key)

    def _key(self, item: Any) -> tuple[Any, ...] | None:
        if not isinstance(item, dict):
            return None
        values = [item.get(key) for key in self._keys]
        if any(value is None or isinstance(value, dict | list) for value in values):
            return None
        # The type is part of the key, since 1, 1.0 and true are equal in Python and not in JSON.
        return tuple((type(value), value) for value in values)
