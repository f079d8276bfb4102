"""Kubeconfig files as people have them: parsed, merged as kubectl merges them, and read field by field.

`config` calls it to find a context and the cluster and user that it names. It knows where each field stands, so that
whatever is wrong is said with file and field; it never decides what a field means, and never shows a field's value.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from edgewright.runtime.tls import ConfigError, Pem, PemFile, PemSource, read_bytes
from edgewright.runtime.yaml_loader import Loader

_DEEPEST = 100


@dataclass(frozen=True)
class Fields:
    """One mapping of a kubeconfig file, and where it stands. A field that is null counts as absent, as for kubectl."""

    file: Path
    place: str
    values: Mapping[object, object] = field(repr=False)

    def at(self, name: str) -> str:
        """The name of a field as messages give it: `/home/me/.kube/config: clusters[kind].cluster.server`."""
        return f"{self.file}: {self.place}.{name}" if self.place else f"{self.file}: {name}"

    def has(self, name: str) -> bool:
        """Whether the field is there and not empty."""
        return self.values.get(name) not in (None, "", [], {})

    def text(self, name: str) -> str:
        """A field that is a string; empty where it is absent."""
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError(f"{self.at(name)}: is {_type_of(value)}, must be a string")
        return value

    def header(self, name: str) -> str:
        """A field that is a string without control characters, which can stand in a header."""
        return _for_header(self.text(name), self.at(name))

    def flag(self, name: str) -> bool:
        """A field that is true or false; false where it is absent."""
        value = self.values.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise ConfigError(f"{self.at(name)}: is {_type_of(value)}, must be true or false")
        return value

    def items(self, name: str) -> list[object]:
        """A field that is a list; empty where it is absent."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ConfigError(f"{self.at(name)}: is {_type_of(value)}, must be a list")
        return value

    def texts(self, name: str) -> list[str]:
        """A field that is a list of strings."""
        found = []
        for number, value in enumerate(self.items(name)):
            if not isinstance(value, str):
                raise ConfigError(f"{self.at(name)}[{number}]: is {_type_of(value)}, must be a string")
            found.append(value)
        return found

    def headers(self, name: str) -> list[str]:
        """A field that is a list of strings which can stand in headers."""
        return [_for_header(value, f"{self.at(name)}[{number}]") for number, value in enumerate(self.texts(name))]

    def mapping(self, name: str) -> Fields:
        """A field that is a mapping; an empty one where it is absent."""
        return self._inner(name, self.values.get(name))

    def mappings(self, name: str) -> list[Fields]:
        """A field that is a list of mappings."""
        return [self._inner(f"{name}[{number}]", value) for number, value in enumerate(self.items(name))]

    def path(self, name: str) -> Path | None:
        """A field that names a file; a relative name counts from the folder of the kubeconfig file."""
        name_of_file = self.text(name)
        return self.file.parent / name_of_file if name_of_file else None

    def pem(self, name: str) -> PemSource | None:
        """Certificates or a key: from the field `name`-data, where they stand as base64, else from the file `name`."""
        encoded = self.text(f"{name}-data")
        if encoded:
            return Pem(origin=self.at(f"{name}-data"), data=_decoded(encoded, self.at(f"{name}-data")))
        path = self.path(name)
        return PemFile(origin=self.at(name), path=path) if path else None

    def _inner(self, name: str, value: object) -> Fields:
        if value is not None and not isinstance(value, dict):
            raise ConfigError(f"{self.at(name)}: is {_type_of(value)}, must be a mapping")
        return Fields(self.file, f"{self.place}.{name}" if self.place else name, value or {})


def _for_header(value: str, origin: str) -> str:
    if not value.isprintable():
        raise ConfigError(f"{origin}: has characters that cannot stand in a header")
    return value


def _decoded(encoded: str, origin: str) -> bytes:
    try:
        return base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ConfigError(f"{origin}: is not base64") from error


def _type_of(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return f"of type {type(value).__name__}"


@dataclass(frozen=True, kw_only=True)
class Kubeconfig:
    """One or several files, merged: the entries by name, and the context that is chosen unless another is named."""

    files: tuple[Path, ...]
    clusters: Mapping[str, Fields]
    users: Mapping[str, Fields]
    contexts: Mapping[str, Fields]
    current_context: str
    chosen_by: str
    """Where current_context stands, for messages."""


def parse(file: Path, content: bytes) -> Fields:
    """The top of a kubeconfig file; one that is empty counts as an empty mapping, as for kubectl."""
    try:
        if _depth(content) > _DEEPEST:
            raise ConfigError(f"{file}: is nested more deeply than a kubeconfig can be")
        document = yaml.load(content, Loader=Loader)  # noqa: S506 - a safe loader, the C one where there is one
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{file}: is not YAML{where}: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, LookupError, TypeError, RecursionError):
        # PyYAML lets errors of Python through for scalars such as `2026-99-99`; their text may show a value.
        raise ConfigError(f"{file}: is not YAML") from None
    if document is not None and not isinstance(document, dict):
        raise ConfigError(f"{file}: is {_type_of(document)}, must be a mapping with clusters, users and contexts")
    return Fields(file, "", document or {})


def _depth(content: bytes) -> int:
    """How deeply a YAML text is nested. PyYAML's C loader recurses without a limit and would end the process."""
    depth = deepest = 0
    for event in yaml.parse(content, Loader=Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            deepest = max(depth, deepest)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if deepest > _DEEPEST:
            break
    return deepest


def read(files: Iterable[Path]) -> Kubeconfig:
    """Read and merge the files; the first that has an entry of a name, or a current context, wins."""
    return merge([parse(file, read_bytes(file)) for file in files])


def merge(tops: list[Fields]) -> Kubeconfig:
    """What the files say together. Entries are not mixed: the whole entry comes from the first file that has it."""
    current = next((top for top in tops if top.text("current-context")), tops[0])
    return Kubeconfig(
        files=tuple(top.file for top in tops),
        clusters=_entries(tops, "clusters", "cluster"),
        users=_entries(tops, "users", "user"),
        contexts=_entries(tops, "contexts", "context"),
        current_context=current.text("current-context"),
        chosen_by=current.at("current-context"),
    )


def _entries(tops: list[Fields], plural: str, singular: str) -> dict[str, Fields]:
    found: dict[str, Fields] = {}
    for top in tops:
        here: dict[str, Fields] = {}
        for entry in top.mappings(plural):
            name = entry.text("name")
            if not name:
                raise ConfigError(f"{entry.at('name')}: is missing")
            named = Fields(entry.file, f"{plural}[{name}]", entry.values)
            if name in here:
                raise ConfigError(f"{top.file}: {plural}[{name}]: is there more than once")
            here[name] = named.mapping(singular)
        found = here | found
    return found
