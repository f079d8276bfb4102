"""What is wrong with a body that cannot be read as an object of a built-in kind, in the words of the real server.

`bodies` asks for the words about JSON and YAML, `server` lets `recognised` look at every body that is to be an object
of a built-in kind. Nothing is decoded here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from edgewright.local.errors import Refusal, bad_request
from edgewright.local.go_format import quote
from edgewright.local.kinds import Kinds
from edgewright.runtime.objects import Kind

_SUMMARY: Final = 30
_WRONG_TYPE: Final = re.compile(r"json: cannot unmarshal (\w+) into Go (?:value|struct field \S+) of type (.+)")
_HEADER: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_NAMES: Final = {str: "string", int: "number", float: "number", bool: "bool", list: "array", dict: "object"}
_AFTER: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Extra data": "after top-level value",
    "Expecting ':' delimiter": "after object key",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}
# What holds the versions of a group that the server itself works with.
_INTERNAL: Final = {
    "": "core",
    "events.k8s.io": "core",
    "coordination.k8s.io": "coordination",
    "discovery.k8s.io": "discovery",
    "apiextensions.k8s.io": "apiextensions",
    "authentication.k8s.io": "authentication",
    "authorization.k8s.io": "authorization",
}


def json_words(error: Exception) -> str:
    """Why a text is no JSON."""
    if isinstance(error, RecursionError):
        return "invalid character '{' exceeded max depth"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    rest = error.doc[error.pos :]
    if not error.msg.startswith("Invalid control character"):  # which may be white space
        rest = rest.lstrip()
    if not rest or error.msg.startswith("Unterminated string"):
        return "unexpected end of JSON input"
    if error.msg == "Expecting ',' delimiter":
        inside = _inside(error.doc[: error.pos])
        where = "after array element" if inside == "[" else "after object key:value pair"
    else:
        where = next((words for msg, words in _AFTER.items() if error.msg.startswith(msg)), error.msg)
    return f"invalid character {_character(rest[0])} {where}"


def _inside(text: str) -> str:
    """Which bracket a text ends within, the text being good JSON so far."""
    open_brackets = []
    quoted = escaped = False
    for each in text:
        if quoted:
            quoted = escaped or each != '"'
            escaped = each == "\\" and not escaped
        elif each == '"':
            quoted = True
        elif each in "[{":
            open_brackets.append(each)
        elif each in "]}" and open_brackets:
            open_brackets.pop()
    return open_brackets[-1] if open_brackets else ""


def _character(each: str) -> str:
    first = chr(each.encode(errors="surrogateescape")[0])
    return {"'": "'\\''", '"': "'\"'"}.get(first) or f"'{quote(first)[1:-1]}'"


def yaml_words(error: Exception) -> str:
    """Why a text is no YAML."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"yaml: {json_words(error) if isinstance(error, RecursionError) else error}"
    line = error.problem_mark.line + isinstance(error, yaml.scanner.ScannerError)
    return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"


def unconvertible(words: str) -> str:
    """What a strategic merge patch says of a value of a wrong type, from what JSON says of it."""
    if (found := _WRONG_TYPE.fullmatch(words)) is None:
        return words
    source = {"array": "slice", "object": "map", "number": "int64"}.get(found[1], found[1])
    target = found[2]
    if target.startswith("[]"):
        return f"cannot restore slice from {source}"
    if target.startswith("map["):
        return f"cannot restore map from {source}"
    if "." in target and source in {"string", "slice", "bool"}:
        return f"cannot restore struct from: {source}"
    return f"cannot convert {source} to {target}"


def unrecognised(kind: Kind, why: str, body: bytes) -> Refusal:
    """A body of which not even the kind can be told."""
    said = f"the object provided is unrecognized (must be of type {kind.kind}): {why} ({_summary(body)})"
    return bad_request(said)


def _summary(body: bytes) -> str:
    """The beginning of a body: JSON as it is, anything else as the numbers of its bytes."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SUMMARY else ""
    begin = body[:_SUMMARY]
    return (begin.decode(errors="replace") if body.startswith(b"{") else begin.hex()) + more


def recognised(value: Any, body: bytes, kind: Kind, kinds: Kinds) -> Mapping[str, Any]:
    """The value of a body, which must be an object of this kind, or not say of which it is; null is an empty one."""
    if value is None:
        return {}
    if why := _header_fault(value):
        raise unrecognised(kind, why, body)
    assert isinstance(value, dict)  # noqa: S101  nothing else has a header
    api_version, said = value.get("apiVersion") or kind.api_version, value.get("kind") or kind.kind
    if api_version.count("/") > 1:
        raise unrecognised(kind, f"unexpected GroupVersion string: {api_version}", body)
    if (api_version, said) != (kind.api_version, kind.kind):
        raise _another(api_version, said, kind, kinds)
    if not isinstance(value.get("metadata"), dict | None):
        why = f"json: cannot unmarshal {_NAMES[type(value['metadata'])]} into Go struct field"
        raise _unhandled(api_version, said, kind, f"{why} {kind.kind}.metadata of type v1.ObjectMeta")
    return value


def recognised_custom(value: Any, body: bytes, kind: Kind) -> Any:
    """The value of a body that is to be a custom object, which must say its kind, whatever that is."""
    why = _header_fault(value) if value is not None else ""
    if not why and not (value or {}).get("kind"):
        why = f"Object 'Kind' is missing in '{body.decode(errors='replace')}'"
    if why:
        raise unrecognised(kind, why, body)
    return value


def check_header(value: Any) -> None:
    """Refuses a value that has no kind and version to be looked for."""
    if why := _header_fault(value):
        raise bad_request(why)


def _header_fault(value: Any) -> str:
    prefix = "couldn't get version/kind; json parse error: json: cannot unmarshal"
    if not isinstance(value, dict):
        return f"{prefix} {_NAMES[type(value)]} into Go value of type {_HEADER}"
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name), str | None):
            return f"{prefix} {_NAMES[type(value[name])]} into Go struct field .{name} of type string"
    return ""


def unregistered(api_version: str, kind: str) -> str:
    """That there is no such kind."""
    return f'no kind {quote(kind)} is registered for version {quote(api_version)} in scheme "pkg/runtime/scheme.go:111"'


def _another(api_version: str, said: str, kind: Kind, kinds: Kinds) -> Refusal:
    version = api_version.rpartition("/")[2]
    known = {(each.kind.api_version, name) for each in kinds.builtin() for name in (each.kind.kind, each.list_kind)}
    if (api_version, said) in known:
        why = f"converting ({version}.{said}) to ({internal_type(kind)}): unknown conversion"
    else:
        why = unregistered(api_version, said)
    return _unhandled(api_version, said, kind, why)


def _unhandled(api_version: str, said: str, kind: Kind, why: str) -> Refusal:
    version = quote(api_version.rpartition("/")[2])
    return bad_request(f"{said} in version {version} cannot be handled as a {kind.kind}: {why}")


def internal_type(kind: Kind) -> str:
    """What the real server calls the type of a built-in kind, which it shows to people."""
    return f"{_INTERNAL.get(kind.group, 'core')}.{kind.kind}"
