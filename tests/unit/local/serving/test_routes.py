"""What a method asks for at a path, of built-in kinds and of custom ones, which are read more loosely."""

from __future__ import annotations

import pytest

from edgewright.local import builtin, custom
from edgewright.local.errors import Refusal
from edgewright.local.served import Served
from edgewright.local.serving import routes, target
from tests.unit.local.custom.samples import GROUP, widgets

BUILTIN = {each.kind.plural: each for each in builtin.served()}
WIDGET = custom.served(widgets())[0]
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
MAPS = "/api/v1/namespaces/default/configmaps"


def asked(method: str, path: str) -> str:
    """The verb, or the code and the message of the refusal."""
    where = target.parse(path)
    assert where is not None
    served: Served = WIDGET if where.plural == "widgets" else BUILTIN[where.plural]
    try:
        return routes.verb(method, where, served)
    except Refusal as refusal:
        return f"{refusal.code} {refusal.message}"


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", MAPS, "list"),
        ("POST", MAPS, "create"),
        ("DELETE", MAPS, "deletecollection"),
        ("GET", f"{MAPS}/a", "get"),
        ("PUT", f"{MAPS}/a", "update"),
        ("PATCH", f"{MAPS}/a", "patch"),
        ("DELETE", f"{MAPS}/a", "delete"),
        ("GET", "/api/v1/configmaps", "list"),
        ("GET", "/api/v1/namespaces/default/pods/a/status", "get"),
        ("POST", "/api/v1/namespaces/default/pods/a/binding", "create"),
        ("GET", WIDGETS, "list"),
        ("POST", WIDGETS, "create"),
        ("POST", f"{WIDGETS}/a", "create"),
        ("PUT", f"{WIDGETS}/a", "update"),
        ("PATCH", f"{WIDGETS}/a/scale", "patch"),
        ("PUT", WIDGETS, "400 name must be provided"),
        ("PATCH", WIDGETS, "400 name must be provided"),
    ],
)
def test_a_method_and_a_path_make_a_verb(method: str, path: str, verb: str) -> None:
    assert asked(method, path) == verb


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", f"{MAPS}/a", 405),
        ("PUT", MAPS, 405),
        ("POST", "/api/v1/configmaps", 405),
        ("ODD", MAPS, 405),
        ("GET", "/api/v1/configmaps/a", 404),
        ("GET", f"{MAPS}/a/odd", 404),
        ("GET", f"{MAPS}/a/b/c/d", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/pods/a/status", 404),
        ("DELETE", "/api/v1/namespaces/default/pods/a/status", 405),
        ("DELETE", f"{WIDGETS}/a/status", 405),
        ("ODD", f"{WIDGETS}/a", 405),
        ("GET", f"{WIDGETS}/a/odd", 404),
    ],
)
def test_what_is_not_offered_is_refused(method: str, path: str, code: int) -> None:
    assert asked(method, path).startswith(f"{code} ")


def test_a_refusal_about_a_custom_kind_names_it() -> None:
    assert asked("GET", f"{WIDGETS}/a/odd") == f'404 widgets.{GROUP} "a" not found'
    assert asked("POST", f"{WIDGETS}/a/status") == f'405 create is not supported on resources of kind "widgets.{GROUP}"'


@pytest.mark.parametrize(
    ("method", "path", "reaches"),
    [
        ("GET", WIDGETS, True),
        ("GET", f"/apis/{GROUP}/v1/widgets", True),
        ("POST", f"/apis/{GROUP}/v1/widgets", False),
        ("DELETE", f"/apis/{GROUP}/v1/widgets", False),
        ("GET", f"/apis/{GROUP}/v1/widgets/a", False),
    ],
)
def test_a_custom_kind_has_no_paths_outside_its_scope(method: str, path: str, *, reaches: bool) -> None:
    where = target.parse(path)
    assert where is not None
    assert routes.reaches(method, where, WIDGET) is reaches


def test_a_built_in_kind_refuses_what_is_outside_its_scope_itself() -> None:
    where = target.parse("/api/v1/namespaces/default/nodes")
    assert where is not None
    assert routes.reaches("GET", where, BUILTIN["nodes"])
