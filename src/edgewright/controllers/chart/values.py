"""The values of a release: what its object says, over what ConfigMaps and Secrets hold, and the overrides on top.

`controller` calls `merged` in every pass; `Sources` reads and watches what `valuesFrom` names. Texts of Secrets go to
Helm and nowhere else: messages name the object and the key, never what they hold.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import yaml

from edgewright.controllers.chart.objects import Dependent, dependent_kind
from edgewright.controllers.chart.policy import Source, SourceKind
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, Kind, RawObject
from edgewright.runtime.yaml_loader import load

Values: TypeAlias = Mapping[str, Any]
Place: TypeAlias = tuple[SourceKind, Key]
Heard: TypeAlias = Callable[[Place], None]

KINDS: Final[Mapping[SourceKind, Kind]] = {
    "ConfigMap": Kind(group="", version="v1", kind="ConfigMap", plural="configmaps"),
    "Secret": Kind(group="", version="v1", kind="Secret", plural="secrets"),
}
_STEP: Final = re.compile(r"((?:\\.|[^.\[\]\\])+)((?:\[\d+\])*)(?:\.|$)")
_INDEX: Final = re.compile(r"\[(\d+)\]")
_MAX_INDEX: Final = 1000
_TEXT: Final = re.compile(r"((?:\\.|[^,\\]|\\$)*)(?:,|$)", re.DOTALL)
_LIST: Final = re.compile(r"\{((?:\\.|[^}\\])*)\}(?:,|$)", re.DOTALL)


class SourceError(Exception):
    """Values that are to come from a ConfigMap or Secret are not there, or are none."""


def merged(spec: Values, sources: Iterable[Values], overrides: Mapping[str, str]) -> dict[str, Any]:
    """The values of a release: sources in their order, the spec over them, overrides over all."""
    found: dict[str, Any] = {}
    for each in (*sources, spec):
        found = over(found, each)
    return with_overrides(found, overrides)


def over(base: Values, top: Values) -> dict[str, Any]:
    """Values with others put over them: mappings are joined, anything else is replaced."""
    result = dict(base)
    for key, value in top.items():
        known = result.get(key)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        result[key] = over(known, value) if both else value  # type: ignore[arg-type]
    return result


def with_overrides(values: Values, overrides: Mapping[str, str]) -> dict[str, Any]:
    """Values with texts put over them as `helm --set-string` does it; what is in the way is replaced."""
    result: Any = dict(values)
    for path, text in overrides.items():
        for place, value in _assignments(path, text):
            result = _placed(result, place, value)
    return dict(result)


def _assignments(path: str, text: str) -> Iterator[tuple[tuple[str | int, ...], str | list[str]]]:
    r"""What PATH=TEXT sets: {a,b} is a list, \, is a comma, and after a bare comma comes another PATH=TEXT."""
    while True:
        is_list = text.startswith("{")
        found = (_LIST if is_list else _TEXT).match(text)
        if found is None:
            raise ValueError(f"{text!r}: a list must end with }}")
        parts = re.split(r"(?<!\\),", found[1]) if found[1] else []
        yield steps(path), [_unescaped(each) for each in parts] if is_list else _unescaped(found[1])
        text = text[found.end() :]
        if not text:
            return
        path, equals, text = text.partition("=")
        if not equals:
            raise ValueError(f"{path!r} is not PATH=TEXT: a comma in a text is written \\,")


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def steps(path: str) -> tuple[str | int, ...]:
    r"""The keys and indexes of a path such as a.b\.c[0]; ValueError where it is none."""
    found: list[str | int] = []
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or (step.end() == len(path) and path.endswith(".") and not path.endswith("\\.")):
            raise ValueError(f"{path!r} is not a path such as image.tag or hosts[0].name")
        found.append(_unescaped(step[1]))
        numbers = [int(each) for each in _INDEX.findall(step[2])]
        if any(each > _MAX_INDEX for each in numbers):
            raise ValueError(f"{path!r}: an index is above {_MAX_INDEX}")
        found += numbers
        at = step.end()
    if not found:
        raise ValueError("a path is empty")
    return tuple(found)


def _placed(there: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(first, str):
        known = dict(there) if isinstance(there, Mapping) else {}
        known[first] = _placed(known.get(first), rest, value)
        return known
    items = list(there) if isinstance(there, list) else []
    items += [None] * (first + 1 - len(items))
    items[first] = _placed(items[first], rest, value)
    return items


class Sources:
    """The ConfigMaps and Secrets that releases take values from, in the namespaces in which any is named."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._caches: dict[tuple[SourceKind, str], Cache[Dependent]] = {}
        self._new: asyncio.Queue[Cache[Dependent]] = asyncio.Queue()
        self._hearers: list[Heard] = []

    async def run(self) -> None:
        """Keeps the watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                cache = await self._new.get()
                group.create_task(cache.run(), name=f"sources of values: {cache.kind}")

    def on_change(self, heard: Heard) -> None:
        """Has `heard` called for every change of an object in a namespace in which values are taken from one."""
        self._hearers.append(heard)

    async def read(self, namespace: str, sources: Iterable[Source]) -> list[Values]:
        """What each source holds now, in their order; those that are optional and not there are left out."""
        found = []
        for each in sources:
            self._watch(each.kind, namespace)
            try:
                obj = await self._client.raw(KINDS[each.kind]).get(Key(namespace, each.name))
            except NotFound:
                obj = None
            values = values_in(each, obj)
            found += [values] if values is not None else []
        return found

    def _watch(self, kind: SourceKind, namespace: str) -> None:
        if (kind, namespace) in self._caches:
            return
        resource = dependent_kind(KINDS[kind], Dependent)
        cache = Cache(self._client.of(resource), namespaces=(namespace,), optional=True, clock=self._clock)
        self._caches[kind, namespace] = cache

        def changed(change: Change[Dependent]) -> None:
            for heard in self._hearers:  # also of the first list: it may be newer than what was read
                heard((kind, change.latest.key))

        cache.subscribe(changed)
        self._new.put_nowait(cache)


def values_in(source: Source, obj: RawObject | None) -> Values | None:
    """The values that an object holds; None where it may be missing and is."""
    text = None if obj is None else _text(source, obj)
    where = f"{source.kind} {source.name}"
    if text is None:
        if source.optional:
            return None
        raise SourceError(f"{where} is not there" if obj is None else f"{where} has no key {source.key}")
    if source.path:
        try:
            placed: Values = _placed({}, steps(source.path), text)
        except ValueError as error:
            raise SourceError(f"{where}: targetPath: {error}") from error
        return placed
    try:
        values = load(text)
    except yaml.YAMLError:
        raise SourceError(f"{where}: {source.key} is not YAML") from None  # the cause would show the text
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SourceError(f"{where}: {source.key} holds no mapping of values")
    return values


def _text(source: Source, obj: RawObject) -> str | None:
    data = (obj.get("data") or {}).get(source.key)
    if data is None or source.kind == "ConfigMap":
        return None if data is None else str(data)
    try:
        return base64.b64decode(data, validate=True).decode()
    except ValueError:
        raise SourceError(f"Secret {source.name}: {source.key} is not a text") from None
