"""The differences between the two servers that are meant to be, each with its reason.

`test_differential` lets them settle a pair of answers that differ. Each changes only what it is about, never a status
code, a reason, or an object as it is stored; docs/reference lists them. There are at most fifteen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.cluster.differential.exchange import Answer
from tests.cluster.differential.normalise import everywhere

MAX = 15


@dataclass(frozen=True, kw_only=True)
class Known:
    """One difference: `settle` makes of both bodies what they have in common, and may not hide more."""

    id: str
    reason: str
    settle: Callable[[Answer, Answer], tuple[Any, Any]]
    """The bodies of the real and the local answer, equal in what the difference is about."""


def settled(real: Answer, local: Answer) -> tuple[Answer, Answer, list[str]]:
    """Both answers without the known differences, and which ones there were."""
    used: list[str] = []
    if real.stored or local.stored or real.code != local.code:
        return real, local, used
    for each in KNOWN:
        if real.body == local.body:
            break
        theirs, ours = each.settle(real, local)
        if (theirs, ours) != (real.body, local.body):
            assert _reason(theirs) == _reason(real.body)
            assert _reason(ours) == _reason(local.body)
            real, local = replace(real, body=theirs), replace(local, body=ours)
            used.append(each.id)
    return real, local, used


def _reason(body: Any) -> Any:
    return body.get("reason") if isinstance(body, dict) else None


def both(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Answer, Answer], tuple[Any, Any]]:
    """A settlement that makes the same change to every dict of both bodies."""
    return lambda real, local: (everywhere(real.body, change), everywhere(local.body, change))


def _without_column_descriptions(value: dict[str, Any]) -> dict[str, Any]:
    if {"name", "type", "format", "priority"} <= value.keys():
        return {**value, "description": "<description>"}
    return value


def _causes_once(value: dict[str, Any]) -> dict[str, Any]:
    causes = value.get("causes")
    if not isinstance(causes, list):
        return value
    return {**value, "causes": [each for index, each in enumerate(causes) if each not in causes[:index]]}


_COMPILER = re.compile(r"(?:error parsing regexp|compilation failed): .*", re.DOTALL)


def _without_words_of_compilers(value: dict[str, Any]) -> dict[str, Any]:
    message = value.get("message")
    return {**value, "message": _COMPILER.sub("<why>", message)} if isinstance(message, str) else value


def _without_patched_text(value: dict[str, Any]) -> dict[str, Any]:
    message = value.get("message")
    if not isinstance(message, str) or (value.get("field") != "patch" and ' "" is invalid: patch: ' not in message):
        return value
    return {**value, "message": _QUOTED_OBJECT.sub('"<result>"', message)}


def _without_comparison(value: dict[str, Any]) -> dict[str, Any]:
    message = value.get("message")
    if not isinstance(message, str) or "pod updates may not change fields other than" not in message:
        return value
    return {**value, "message": message.partition("\n")[0]}


def _only_formats_of_both(value: dict[str, Any]) -> dict[str, Any]:
    message = value.get("message")
    if not isinstance(message, str) or not message.startswith("only the following media types are accepted: "):
        return value
    return {**value, "message": _PROTOBUF.sub("", message)}


def _without_groups_of_others(real: Answer, local: Answer) -> tuple[Any, Any]:
    """The real server's groups, versions and kinds that are also ours; all of ours must be there."""
    if not isinstance(real.body, dict) or real.body.get("kind") not in _DOCUMENTS:
        return real.body, local.body
    return _common(real.body, local.body), local.body


def _common(real: Any, local: Any) -> Any:
    if isinstance(real, dict) and isinstance(local, dict):
        shared = {name: child for name, child in real.items() if name in local or name != "subresources"}
        return {name: _common(child, local.get(name)) for name, child in shared.items()}
    if isinstance(real, list) and isinstance(local, list):
        ours = {_identity(each): each for each in local if isinstance(each, dict)}
        found = [each for each in real if _identity(each) in ours]
        return [_common(each, ours[_identity(each)]) for each in found] if ours else real
    return real


def _identity(value: Any) -> str:
    """What tells a group, version or kind in a document of discovery from others."""
    if not isinstance(value, dict):
        return ""
    about = value.get("metadata")
    name = about.get("name") if isinstance(about, dict) else None
    found = (value.get(field) for field in ("groupVersion", "name", "subresource", "resource", "version"))
    return str(name or next(filter(None, found), ""))


_DOCUMENTS = ("APIGroupList", "APIResourceList", "APIGroupDiscoveryList")
_QUOTED_OBJECT = re.compile(r'"\{.*\}"(?=: )', re.DOTALL)
_PROTOBUF = re.compile(r", application/vnd\.kubernetes\.protobuf(;stream=watch)?")


def _without_openapi_descriptions(real: Answer, local: Answer) -> tuple[Any, Any]:
    both_openapi = all(isinstance(each.body, dict) and "openapi" in each.body for each in (real, local))
    if not both_openapi:
        return real.body, local.body
    return tuple(everywhere(each.body, _without_description) for each in (real, local))


def _without_description(value: dict[str, Any]) -> dict[str, Any]:
    described = isinstance(value.get("description"), str)
    return {name: child for name, child in value.items() if name != "description"} if described else value


KNOWN: tuple[Known, ...] = (
    Known(
        id="openapi-descriptions",
        reason="The descriptions of types and fields that all kinds share are the words of the Kubernetes project.",
        settle=_without_openapi_descriptions,
    ),
    Known(
        id="result-of-a-patch",
        reason="A patch whose result is refused is told with that result as text; the order of its fields is another.",
        settle=both(_without_patched_text),
    ),
    Known(
        id="comparison-of-pods",
        reason="After what may change in a Pod the real server prints a comparison in the words of its Go structs.",
        settle=both(_without_comparison),
    ),
    Known(
        id="no-protobuf-answers",
        reason="Answers are JSON or YAML; a client that takes neither is told so, and the list of formats is shorter.",
        settle=both(_only_formats_of_both),
    ),
    Known(
        id="kinds-not-served",
        reason="Kinds that need a controller that is not here are not served, so discovery does not list them.",
        settle=_without_groups_of_others,
    ),
    Known(
        id="repeated-causes",
        reason="The real server looks at the metadata of an update up to four times and tells of each fault as often.",
        settle=both(_causes_once),
    ),
    Known(
        id="words-of-compilers",
        reason="Why a rule or a pattern of a definition cannot be compiled is said by another compiler, in its words.",
        settle=both(_without_words_of_compilers),
    ),
    Known(
        id="column-descriptions",
        reason="The descriptions of table columns are the words of the Kubernetes project; clients do not show them.",
        settle=both(_without_column_descriptions),
    ),
)
