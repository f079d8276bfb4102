"""Lets a package be the public face of its modules without importing them all.

A package's `__init__` creates its `__getattr__` with it; the first use of a name imports the module that has it. It
depends on nothing, so that a process that needs one small module of a room starts quickly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def fetching(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a package that shows names of other modules, which are given by module."""
    home = {name: module for module, names in homes.items() for name in names}

    def fetch(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)  # the next use finds it without us
        return value

    return fetch
