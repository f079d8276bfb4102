"""Bodies in and out: which formats a client sends and takes, and JSON or YAML to and from plain objects.

Called at both ends of every request. A body is decoded once, with the fields that it has twice noted, since the real
server tells of them; it is never looked at further here.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec
import yaml

from edgewright.local import size_limits
from edgewright.local.builtin import protobuf
from edgewright.local.errors import Refusal, bad_request, not_acceptable, too_large, unsupported_media_type
from edgewright.local.go_format import quote
from edgewright.local.serving import decode_errors
from edgewright.runtime.objects import RawObject
from edgewright.runtime.yaml_dumper import Dumper
from edgewright.runtime.yaml_loader import Loader

JSON = "application/json"
YAML = "application/yaml"
FORMATS = (JSON, YAML)
LARGEST_BODY = 3 * 1024 * 1024

_encoder = msgspec.json.Encoder()
_EACH_BYTE = "edgewright-each-byte"
_SURROGATES = re.compile("[\ud800-\udfff]")


def _each_byte(error: UnicodeError) -> tuple[str, int]:
    """A byte that is no part of a character becomes the sign for that, each for itself."""
    assert isinstance(error, UnicodeDecodeError)  # noqa: S101  it is asked of nothing else
    return "\ufffd", error.start + 1


codecs.register_error(_EACH_BYTE, _each_byte)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a client wants its answer: the format, and the shape where it asks for another than the object."""

    format: str = JSON
    shape: str = ""
    """Empty, or the kind that the object is to be shown as: a Table, a PartialObjectMetadata."""
    shape_version: str = ""
    pretty: bool = False


_PLAIN = Answer()


def negotiate(accept: str, shapes: Sequence[tuple[str, str, str]] = (), *, pretty: bool = False) -> Answer:
    """The first of the client's wishes that can be met; `shapes` are kind, group and version of what is on offer."""
    if accept in {"", "*/*", JSON} and not pretty:
        return _PLAIN
    for clause in _clauses(accept or "*/*"):
        media, parameters = clause
        if media in {"*/*", "application/*"}:
            media = JSON
        if media not in FORMATS:
            continue
        shape = parameters.get("as", "")
        if not shape:
            return Answer(format=media, pretty=pretty)
        group, version = parameters.get("g", ""), parameters.get("v", "")
        if (shape, group, version) in shapes:
            return Answer(format=media, shape=shape, shape_version=version, pretty=pretty)
    raise not_acceptable((JSON, YAML))


def check_accepted(accept: str, *, streams: bool = False) -> None:
    """Refuses a client that takes none of the formats of built-in kinds, before anything else is looked at.

    What can also be watched offers streams as well, as is said then.
    """
    if not accept or accept == JSON:
        return
    named = [clause.split(";", 1)[0].strip() for clause in accept.split(",")]
    known = [*FORMATS, protobuf.MEDIA]
    if streams:
        known += [f"{JSON};stream=watch", f"{protobuf.MEDIA};stream=watch"]
    if not any(each in {"*/*", *known} for each in named):
        message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(known)}"
        raise Refusal(406, "NotAcceptable", message, {})


def of_refusal(accept: str) -> Answer:
    """How a refusal is written: as the client wants its answers, or else in JSON."""
    try:
        return Answer(format=negotiate(accept).format)
    except Refusal:
        return _PLAIN


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The wishes of an Accept header, best first."""
    found: list[tuple[float, str, dict[str, str]]] = []
    for clause in accept.split(","):
        media, *rest = [part.strip() for part in clause.split(";")]
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        found.append((-quality if math.isfinite(quality) else 0.0, media.lower(), parameters))
    return [(media, parameters) for _, media, parameters in sorted(found, key=lambda each: each[0])]


def encode(value: Any, answer: Answer = _PLAIN) -> bytes:
    """The body of an answer."""
    if answer.format == YAML:
        text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)
        return text.encode()
    if answer.pretty:
        return msgspec.json.format(_encoder.encode(value), indent=2) + b"\n"
    return _encoder.encode(value)


def reencode(body: bytes, answer: Answer) -> bytes:
    """A JSON body in the format of the answer."""
    if answer == _PLAIN:
        return body
    return encode(msgspec.json.decode(body), answer)


def decode_stored(body: bytes) -> RawObject:
    """An object from the store, where it is known to be good."""
    obj: RawObject = msgspec.json.decode(body)
    return obj


def decode(
    body: bytes, content_type: str, protobuf_kinds: Mapping[tuple[str, str], str] | None = None
) -> tuple[Any, list[str]]:
    """What a client sent, and a sentence a field that it has twice; a body that cannot be read is refused.

    Of the kinds in `protobuf_kinds` (the definitions by apiVersion and kind) protobuf is taken as well.
    """
    media = content_type.split(";", 1)[0].strip().lower() or JSON
    if media == protobuf.MEDIA and protobuf_kinds:
        try:
            obj = protobuf.decode(body, protobuf_kinds)
            _encoder.encode(obj)  # there may be JSON inside, of which the same holds as of JSON
        except (protobuf.NotProtobuf, ValueError, RecursionError) as error:
            raise bad_request(str(error)) from None
        size_limits.check(obj)
        return obj, []
    if media not in FORMATS:
        raise unsupported_media_type((*FORMATS, protobuf.MEDIA) if protobuf_kinds else FORMATS)
    return decode_json(body) if media == JSON else _decode_yaml(body)


def decode_json(body: bytes) -> tuple[Any, list[str]]:
    """JSON from a client; numbers beyond 64 bits become floats, as they do in the real server."""
    if len(body) > LARGEST_BODY:
        raise too_large(f"limit is {LARGEST_BODY}")
    duplicates: list[_Twice] = []
    try:
        value = json.loads(
            body.decode(errors=_EACH_BYTE),
            object_pairs_hook=lambda pairs: _pairs(pairs, duplicates),
            parse_constant=_no_constant,
            parse_int=_integer,
            parse_float=_float,
        )
        try:
            _encoder.encode(value)
        except UnicodeEncodeError:
            value = _without_surrogates(value)
        # With fewer brackets than levels and fewer commas than values, the usual case, nothing has to be walked.
        if body.count(b"{") + body.count(b"[") > size_limits.DEEPEST or body.count(b",") > size_limits.MAX_VALUES:
            size_limits.check(value)
        return value, _paths(value, duplicates)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise Unreadable(decode_errors.json_words(error)) from None


def _without_surrogates(value: Any) -> Any:
    """JSON may say them one by one and UTF-8 may not: each becomes the sign for what cannot be shown."""
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(child) for child in value]
    return _SURROGATES.sub("\ufffd", value) if isinstance(value, str) else value


class Unreadable(Refusal):
    """A body that is no JSON or YAML; `words` say why."""

    def __init__(self, words: str, *, prefix: str = "couldn't get version/kind; json parse error: ") -> None:
        super().__init__(400, "BadRequest", f"{prefix}{words}")
        self.words = words


class _Twice(dict[str, Any]):
    """An object that named some fields more than once, and all that it named."""

    pairs: list[tuple[str, Any]]


def _pairs(pairs: list[tuple[str, Any]], duplicates: list[_Twice]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    twice = _Twice(plain)
    twice.pairs = pairs
    duplicates.append(twice)
    return twice


def _paths(value: Any, duplicates: list[_Twice]) -> list[str]:
    """A sentence for each field that comes again, in the order of the body; what the last one replaced counts too."""
    if not duplicates:
        return []
    found: dict[str, None] = {}

    def visit(value: Any, path: str) -> None:
        if isinstance(value, dict):
            seen = set()
            for name, child in value.pairs if isinstance(value, _Twice) else value.items():
                inner = f"{path}.{name}" if path else name
                if name in seen:
                    found[f"duplicate field {quote(inner)}"] = None
                seen.add(name)
                visit(child, inner)
        elif isinstance(value, list):
            for index, child in enumerate(value):
                visit(child, f"{path}[{index}]")

    visit(value, "")
    return list(found)


def _integer(text: str) -> int | float:
    value = int(text) if len(text) < 40 else float(text)
    return value if -(2**63) <= value < 2**63 else _float(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is not a number of 64 bits")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Loader(Loader):
    """YAML as JSON knows it: keys are texts, and a key that comes twice is noted."""

    duplicates: list[str]
    depth = nodes = 0

    def descend_resolver(self, _parent: Any, _index: Any) -> None:
        """Called for each node before those within it; the C parser would go on until the stack is used up."""
        self.depth += 1
        self.nodes += 1
        if self.depth > size_limits.DEEPEST:
            raise yaml.YAMLError("it is nested too deeply")
        if self.nodes > 2 * size_limits.MAX_VALUES:  # keys are nodes as well
            raise size_limits.too_many()

    def ascend_resolver(self) -> None:
        """Called for each node after those within it."""
        self.depth -= 1


def _mapping(loader: Any, node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in node.value:
        name = _key(loader.construct_object(key, deep=True))
        if name in found:
            loader.duplicates.append(f"line {key.start_mark.line + 1}: key {quote(name)} already set in map")
        found[name] = loader.construct_object(value, deep=True)
    return found


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise yaml.YAMLError(f"{key!r} cannot be the name of a field")


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def _decode_yaml(body: bytes) -> tuple[Any, list[str]]:
    if len(body) > LARGEST_BODY:
        raise too_large(f"limit is {LARGEST_BODY}")
    try:
        loader = _Loader(body)
        loader.duplicates = []
        try:
            value = loader.get_single_data()
        finally:
            loader.dispose()
        if _length(value, {}) > LARGEST_BODY:
            raise too_large(f"limit is {LARGEST_BODY}")
        return json.loads(json.dumps(value, allow_nan=False), parse_int=_integer), loader.duplicates
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise Unreadable(decode_errors.yaml_words(error), prefix="") from None


def _length(value: Any, known: dict[int, int]) -> int:
    """About how long a value is with each alias written out; an alias is the same object again, and looked at once."""
    if not isinstance(value, dict | list):
        return len(value) if isinstance(value, str) else 1
    if id(value) not in known:
        parts = value.items() if isinstance(value, dict) else (("", each) for each in value)
        known[id(value)] = 2 + sum(len(name) + _length(part, known) for name, part in parts)
    return known[id(value)]
