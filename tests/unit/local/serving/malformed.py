"""Bodies that are wrong, or nearly right: whole objects of every kind made from its schema, and what is put into them.

The fuzz tests of the request path draw from these. Nothing here knows a rule of a kind but those that keep the most
plain object of it from being refused.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from edgewright.local import builtin

Json = Any
Path = tuple[str | int, ...]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_CORE = "io.k8s.api.core.v1"
_DEEPEST = 7
_REFERENCE = "#/components/schemas/"

KINDS: Mapping[str, tuple[str, str]] = {
    "/api/v1/namespaces/default/configmaps": ("v1", f"{_CORE}.ConfigMap"),
    "/api/v1/namespaces/default/secrets": ("v1", f"{_CORE}.Secret"),
    "/api/v1/namespaces/default/services": ("v1", f"{_CORE}.Service"),
    "/api/v1/namespaces/default/pods": ("v1", f"{_CORE}.Pod"),
    "/api/v1/namespaces/default/podtemplates": ("v1", f"{_CORE}.PodTemplate"),
    "/api/v1/namespaces/default/serviceaccounts": ("v1", f"{_CORE}.ServiceAccount"),
    "/api/v1/namespaces/default/events": ("v1", f"{_CORE}.Event"),
    "/api/v1/namespaces/default/bindings": ("v1", f"{_CORE}.Binding"),
    "/api/v1/namespaces": ("v1", f"{_CORE}.Namespace"),
    "/api/v1/nodes": ("v1", f"{_CORE}.Node"),
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": (
        "coordination.k8s.io/v1",
        "io.k8s.api.coordination.v1.Lease",
    ),
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": (
        "discovery.k8s.io/v1",
        "io.k8s.api.discovery.v1.EndpointSlice",
    ),
    "/apis/events.k8s.io/v1/namespaces/default/events": ("events.k8s.io/v1", "io.k8s.api.events.v1.Event"),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": (
        "apiextensions.k8s.io/v1",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    ),
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": (
        "authentication.k8s.io/v1",
        "io.k8s.api.authentication.v1.SelfSubjectReview",
    ),
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": (
        "authorization.k8s.io/v1",
        "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    ),
}
"""The collections of all built-in kinds, with the apiVersion and the definition of each."""

_PLAIN: Mapping[str, dict[str, Json]] = {
    "Secret": {"data": {"k": "djE="}},
    "Service": {"spec": {"ports": [{"name": "a", "port": 80}], "selector": {"a": "b"}}},
    "Pod": {"spec": {"containers": [{"name": "a", "image": "x:1"}]}},
    "PodTemplate": {
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "x:1"}]}}
    },
    "Event": {
        "involvedObject": {"namespace": "default", "kind": "Pod", "name": "x"},
        "regarding": {"namespace": "default", "kind": "Pod", "name": "x"},
        "reason": "Tested",
        "action": "Testing",
        "type": "Normal",
        "eventTime": "2020-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c",
        "reportingInstance": "c-1",
    },
    "Binding": {"target": {"kind": "Node", "name": "n"}},
    "Lease": {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 10}},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 1}]},
    "CustomResourceDefinition": {
        "spec": {
            "group": "fuzz.example.com",
            "scope": "Namespaced",
            "names": {"plural": "", "kind": "Plain"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
                }
            ],
        }
    },
    "SelfSubjectAccessReview": {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}},
}


def name_in(path: str, word: str) -> str:
    """A name that an object of the kind of a collection can have."""
    if path.endswith("definitions"):
        return f"{word}.fuzz.example.com"
    return f"{word}-v1" if "events.k8s.io" in path else word  # both kinds of events are the same objects


def plain(path: str, word: str) -> dict[str, Json]:
    """The most plain object of the kind of a collection that is accepted, with a name made of a word."""
    (api_version, definition), name = KINDS[path], name_in(path, word)
    kind = definition.rpartition(".")[2]
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **copy.deepcopy(_PLAIN.get(kind, {}))}
    if kind == "CustomResourceDefinition":
        obj["spec"]["names"]["plural"] = word
    for field in _ONLY_OLD if api_version != "v1" else _ONLY_NEW:
        if kind == "Event":
            del obj[field]
    return obj


_ONLY_OLD = ("involvedObject",)
_ONLY_NEW = ("regarding", "reportingController", "reportingInstance", "eventTime", "action")


def complete(api_version: str, definition: str, name: str) -> dict[str, Json]:
    """An object in which every field that the kind knows has a value of its type, to a depth; seldom a valid one."""
    made: dict[str, Json] = _made({"$ref": f"{_REFERENCE}{definition}"}, 0)
    made |= {"apiVersion": api_version, "kind": definition.rpartition(".")[2]}
    made["metadata"]["name"] = name
    return made


@functools.cache
def whole(path: str) -> dict[str, Json]:
    """The object with every field, of the kind of a collection."""
    return complete(*KINDS[path], "whole")


@st.composite
def changed(draw: st.DrawFn, obj: dict[str, Json], everything: dict[str, Json]) -> dict[str, Json]:
    """The object with one value changed: one that it has, or one that its kind knows, to junk or to an odd value."""
    field = draw(st.sampled_from(_places_of(_Held(everything))))
    field = field[: draw(st.integers(1, len(field)))]
    how = draw(st.integers(0, 3))
    if how == 0:
        field = draw(st.sampled_from(list(places(obj)) or [("spec",)]))
        changed: dict[str, Json] = put(obj, field, draw(junk))
        return changed
    value = draw(junk) if how == 1 else draw(odd(at(everything, field)))
    return grafted(obj, field, value)


@st.composite
def odd(draw: st.DrawFn, value: Json) -> Json:
    """A value of the same types with other texts and numbers in it, and parts of it left out or repeated."""
    if isinstance(value, dict):
        kept = draw(st.sets(st.sampled_from(sorted(value)), max_size=6)) if value else ()
        return {name: draw(odd(value[name])) for name in sorted(kept)}
    if isinstance(value, list):
        return [draw(odd(value[0])) for _ in range(draw(st.integers(0, 2)))] if value else []
    if isinstance(value, bool):
        return draw(st.booleans())
    if isinstance(value, int | float):
        return draw(st.sampled_from(NUMBERS))
    return draw(st.sampled_from(WORDS))


def renamed(obj: Json, name: str, version: str) -> Json:
    """The object with another name, where it can have one, and with the version of what is to be replaced."""
    about = obj.get("metadata")
    if not isinstance(about, dict):
        return obj
    given = {"resourceVersion": version, **about, "name": name}
    return {**obj, "metadata": given}


class _Held:
    """A value that is known by its identity, so that its places are found once."""

    def __init__(self, value: Json) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.value is self.value


@functools.cache
def _places_of(held: _Held) -> list[Path]:
    return list(places(held.value))


def _made(schema: Mapping[str, Json], depth: int) -> Json:
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), None)
    if reference:
        name = reference.removeprefix(_REFERENCE)
        if name.endswith(("Time",)):
            return "2020-01-01T00:00:00.000000Z" if name.endswith("MicroTime") else "2020-01-01T00:00:00Z"
        return _made(builtin.definitions()[name], depth)
    properties = schema.get("properties")
    if properties and depth > _DEEPEST:
        return {}
    if properties:
        return {name: _made(child, depth + 1) for name, child in properties.items()}
    match schema.get("type"):
        case "array":
            return [_made(schema["items"], depth + 1)]
        case "object":
            inner = schema.get("additionalProperties")
            return {"a": _made(inner, depth + 1)} if isinstance(inner, dict) else {}
        case "integer":
            return 1
        case "number":
            return 1.5
        case "boolean":
            return True
    return "1" if "Quantity" in str(schema) else {"byte": "djE="}.get(schema.get("format", ""), "a")


def grafted(obj: dict[str, Json], path: Path, value: Json) -> dict[str, Json]:
    """A copy with a value at a path that need not be there yet; lists on the way get an item."""
    changed = copy.deepcopy(obj)
    holder: Any = changed
    for step, following in itertools.pairwise(path):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(holder, list):
            if not holder:
                holder.append(empty)
            below = holder[0]
        else:
            below = holder.setdefault(step, empty)
        if not isinstance(below, type(empty)):
            return changed  # something else stands there by now
        holder = below
    if isinstance(holder, list):
        holder[:] = [value, *holder[1:]]
    else:
        holder[path[-1]] = value
    return changed


def places(value: Json, at: Path = ()) -> Iterator[Path]:
    """The paths of all values in a value, without its own."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        yield (*at, step)
        yield from places(child, (*at, step))


def at(value: Json, path: Path) -> Json:
    """What is at a path."""
    for step in path:
        value = value[step]
    return value


def put(value: Json, path: Path, new: Json) -> Json:
    """A copy with something else at a path."""
    changed = copy.deepcopy(value)
    holder = at(changed, path[:-1])
    holder[path[-1]] = new
    return changed


JUNK: tuple[Json, ...] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**63 - 1,
    -(2**63),
    1.5,
    1e300,
    "",
    "x",
    "-1",
    "99999999999999999999",
    "\u0000",
    "\u202eü\U0001f600",
    "a/b/c",
    "." * 70,
    "a" * 300,
    "1e400",
    "10.0.0.1",
    "::ffff:1.2.3.4%eth0",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:59",
    "x" * 5000,
    "1" * 5000,
    "1" * 5000 + "h",
    [],
    [None],
    [1, "a", {}],
    [[]],
    [{}],
    [{}, {}],
    {},
    {"": None},
    {"a": {}},
    {"name": 1},
    {"a": "b", "c": None},
)
"""Values that are of a wrong type, out of range or empty nearly everywhere."""
junk = st.sampled_from(JUNK).map(copy.deepcopy)
NUMBERS = (0, 1, -1, 5, 80, 1000, 30000, 65535, 65536, 2**31 - 1, -(2**31), 2**31, 2**63 - 1)
WORDS = (
    "",
    "a",
    "base",
    "x/y",
    "-1",
    "A_b",
    "a" * 64,
    "a" * 300,
    "\x00",
    "10.0.0.1",
    "::1",
    "fe80::1%1",
    "1.2.3.4/33",
    "0.0.0.0/0",
    "100%",
    "1e3",
    "1Gi",
    "99999999999999999999999",
    "1" * 5000 + "x",
    "v1." + "0" * 5000,
    "TCP",
    "IPv4",
    "Always",
    "Never",
    "None",
    "string",
    "object",
    "/a/../b",
    "..",
    "$(x)",
    "{.a[0]}",
    ".spec[?(@.a==",
    "[",
    "(a+)+$",
    "self.x",
    "self.all(x, x.all(y, y))",
    "2020-01-01T00:00:00Z",
    "djE=",
    "true",
    "ü",
    "a=b,c",
)
"""Texts that mean something to one field or another."""
TEXTS: tuple[bytes, ...] = (
    b"",
    b"null",
    b"[]",
    b"{",
    b"{}",
    b"NaN",
    b'{"a": NaN, "b": -Infinity}',
    b'{"metadata": {"name": "a"}, "metadata": {"name": "b"}}',
    b'{"spec": {"containers": [{"name": "a", "name": "b"}]}}',
    b'{"metadata": {"name": "\\ud800"}}',
    b'{"metadata": {"labels": {"\\udfff": "\\ud800"}}}',
    b'{"metadata": {"name": 1e999}}',
    b'{"metadata": {"generation": ' + b"9" * 5000 + b"}}",
    b'{"a": ' * 5000,
    b'{"a": ' * 5000 + b"1" + b"}" * 5000,
    b"[" * 100_000,
    b'{"metadata": ' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"data": ' + b'{"a":' * 300 + b"1" + b"}" * 301,
    b'\xef\xbb\xbf{"metadata": {"name": "bom"}}',
    b'{"metadata": {"name": "a"}}{"metadata": {"name": "b"}}',
    b"\xff\xfe{\x00}\x00",
    b"--- !!python/object/apply:os.system [ls]",
    b"a: &a [*a, *a]",
    b"a: &a {b: *a}",
    b"? {a: b}\n: c",
    b"? [a]\n: c",
    b"%YAML 9.9\n---\na: b",
    b"a: b\n---\nc: d",
    b"{a: 2020-13-99, b: 0x_, c: .inf, d: !!binary ~, e: !!int x, f: 190:20:30}",
    b"".join(b"k%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1) if n else b"1"] * 9)) for n in range(9)),
    b"k8s\x00",
    b"k8s\x00\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x02\x0a\x00",
)
"""Bodies that have broken servers."""


def protobuf(api_version: str, kind: str, raw: bytes) -> bytes:
    """An object in the envelope in which Kubernetes sends protobuf."""

    def field(number: int, content: bytes) -> bytes:
        assert len(content) < 128
        return bytes([number << 3 | 2, len(content)]) + content

    about = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\x00" + field(1, about) + field(2, raw)
