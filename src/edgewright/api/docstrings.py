"""Descriptions for published schemas, read from the docstrings of structs and the string under each field.

Called by `schema` while CRDs are generated; a running operator never comes here. A string below a field has no effect
when Python runs, so it is read from the module's source, which an installed wheel has too.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache

_Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def class_description(struct: type) -> str:
    """The docstring of a class as paragraphs on one line each; empty where it has none of its own."""
    return as_paragraphs(vars(struct).get("__doc__") or "")


def field_descriptions(struct: type) -> dict[str, str]:
    """The description of each field by its Python name; a subclass may describe an inherited field again."""
    found: dict[str, str] = {}
    for ancestor in reversed(struct.__mro__):
        found.update(_classes_in(ancestor.__module__).get(ancestor.__qualname__, {}))
    return found


def as_paragraphs(docstring: str) -> str:
    """Docstring text without its indentation and line breaks; a blank line stays a break between paragraphs."""
    return "\n".join(" ".join(part.split()) for part in inspect.cleandoc(docstring).split("\n\n") if part.strip())


@cache
def _classes_in(module_name: str) -> dict[str, dict[str, str]]:
    """Field descriptions by class, for every class in a module's source; none for modules not written in Python."""
    module = sys.modules.get(module_name)
    if module is None:
        return {}
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):
        return {}
    return {name: dict(_described_fields(body)) for name, body in _walk(ast.parse(source), "")}


def _walk(scope: _Scope, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Every class with its qualified name, written as Python writes `__qualname__`."""
    for node in scope.body:
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, node
            yield from _walk(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _walk(node, f"{prefix}{node.name}.<locals>.")


def _described_fields(body: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for node, below in zip(body.body, body.body[1:], strict=False):
        match node, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, as_paragraphs(text)
