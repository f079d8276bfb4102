"""What two servers cannot have in common, replaced by names: uids, times, versions, addresses, generated names.

`test_differential` calls `Normaliser` once for all answers of one server to one exchange, so that the same uid or
version is the same name everywhere in it, and what is the same in one server's answers must be so in the other's.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.cluster.differential.exchange import Answer

_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)")
_CLUSTER_IP = re.compile(r"\b(10|127)\.96\.\d+\.\d+\b")
_AGE = re.compile(r"^(\d+[smh])+( ago)?$")
_RECORD = re.compile(r"(?<=ResourceVersion in record \()(\d+)|(?<=ResourceVersion in object meta: )(\d+)$")
_CONTROLLERS = re.compile(r"^(kube-controller-manager|edgewright)$")
_CONDITION = 'k:{"type":'
_NEAR = timedelta(hours=1)
_MADE_UP = 5
_NODE_PORTS = range(30000, 33000)  # a dry run may show one a little beyond those that are given out
_TOO_OLD = re.compile(r"too old resource version: \d+ \(\d+\)")
_TAKEN_PORT = re.compile(r"(?<=Invalid value: )3\d{4}(?=: provided port is already allocated)")


class Normaliser:
    """Makes the answers of one server comparable."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._uids: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._versions = self._ranked(answers)
        for answer in answers:
            self._note_names(answer.body)

    def normalise(self, answer: Answer) -> Answer:
        """An answer in the form in which it is compared."""
        return replace(
            answer,
            title=self._text(answer.title),
            body=self._value(answer.body),
            warnings=tuple(map(self._text, answer.warnings)),
            headers={name: self._text(value) for name, value in answer.headers.items()},
        )

    def _ranked(self, answers: Sequence[Answer]) -> dict[str, str]:
        """The versions of objects by their order; those of lists say nothing, as others write at the same time."""
        found: set[str] = set()

        def visit(value: Any) -> None:
            if isinstance(value, dict):
                about = value.get("metadata")
                version = about.get("resourceVersion") if isinstance(about, dict) else None
                if isinstance(version, str) and version.isdigit() and not _passing(value):
                    found.add(version)
                for child in value.values():
                    visit(child)
            elif isinstance(value, list):
                for child in value:
                    visit(child)

        for answer in answers:
            visit(answer.body)
        return {version: f"<version {rank}>" for rank, version in enumerate(sorted(found, key=int), 1)}

    def _note_names(self, value: Any) -> None:
        if isinstance(value, dict):
            if value.get("kind") == "Status":
                self._note_refused(value)
            prefix, name = value.get("generateName"), value.get("name")
            if isinstance(prefix, str) and isinstance(name, str) and prefix.startswith(name[:-_MADE_UP]):
                self._note_name(name)
            for child in value.values():
                self._note_names(child)
        elif isinstance(value, list):
            for child in value:
                self._note_names(child)

    def _note_refused(self, status: Mapping[str, Any]) -> None:
        """The name that was generated for an object that was refused."""
        fields = {each.get("field") for each in status.get("details", {}).get("causes", [])}
        if "metadata.generateName" in fields:
            self._note_name(status["details"]["name"])

    def _note_name(self, name: str) -> None:
        if len(name) > _MADE_UP:
            self._names.setdefault(name, f"{name[:-_MADE_UP]}<generated {len(self._names) + 1}>")

    def _value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            passing = _passing(value)
            return {
                self._text(name): self._about(child) if name == "metadata" and passing else self._value(child, name)
                for name, child in sorted(value.items())
            }
        if isinstance(value, list):
            shown = [self._value(child, key) for child in value]
            # They are in the order of their times, and two writes may or may not be made in the same second.
            return sorted(_without_shared_times(shown), key=json.dumps) if key == "managedFields" else shown
        if isinstance(value, str):
            return self._keyed(value, key)
        if key == "nodePort" and value in _NODE_PORTS:
            return "<node port>"
        return value

    def _about(self, about: Any) -> Any:
        """The metadata of a list or a bookmark: that there is a version is all that can be compared."""
        if not isinstance(about, dict):
            return about
        shown = {name: self._value(child, name) for name, child in about.items()}
        if about.get("resourceVersion"):
            shown["resourceVersion"] = "<version of a list>"
        return shown

    def _keyed(self, text: str, key: str) -> str:
        if key == "resourceVersion" and text in self._versions:
            return self._versions[text]
        if key == "continue" and (start := _continued(text)):
            return f"<continue {self._text(start)}>"
        if key == "cells" and _AGE.match(text):
            return "<age>"
        return self._text(text)

    def _text(self, text: str) -> str:
        for name, shown in self._names.items():
            text = text.replace(name, shown)
        text = _RECORD.sub(lambda found: self._versions.get(found[0], found[0]), text)
        text = _TOO_OLD.sub("too old resource version: <asked> (<oldest>)", text)
        text = _TAKEN_PORT.sub("<node port>", text)
        text = _CONTROLLERS.sub("<controller>", text)
        text = _UID.sub(lambda found: _numbered(self._uids, found[0], "uid"), text)
        text = _CLUSTER_IP.sub(lambda found: _numbered(self._addresses, found[0], "cluster address"), text)
        return _TIME.sub(_time, text)


def _without_shared_times(entries: list[Any]) -> list[Any]:
    """The managers of fields, without who owns the transition time of a condition that not its maker has changed.

    Whoever changes a condition owns what differs afterwards, and the time does not where both are in the same second.
    """
    shared: set[str] = set()

    def note(value: Any) -> None:
        for name, child in value.items() if isinstance(value, dict) else ():
            if name.startswith(_CONDITION) and isinstance(child, dict) and "." not in child:
                shared.add(name)
            note(child)

    def cut(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: {inner: each for inner, each in child.items() if inner != "f:lastTransitionTime"}
            if name in shared and isinstance(child, dict)
            else cut(child)
            for name, child in value.items()
        }

    for entry in entries:
        note(entry)
    return [cut(entry) for entry in entries]


def _passing(value: Mapping[str, Any]) -> bool:
    """Whether a value is a list or a bookmark, whose version tells when it was made and not what it holds."""
    about = value.get("metadata")
    bookmark = isinstance(about, dict) and "resourceVersion" in about and "name" not in about
    return "items" in value or "rows" in value or bookmark


def _numbered(known: dict[str, str], text: str, what: str) -> str:
    return known.setdefault(text, f"<{what} {len(known) + 1}>")


def _time(found: re.Match[str]) -> str:
    """A time that is about now, by its form; others were sent by us and stay."""
    try:
        then = datetime.fromisoformat(found[1] + ("+00:00" if found[3] == "Z" else found[3]))
    except ValueError:
        return found[0]
    if abs(then - datetime.now(UTC)) > _NEAR:
        return found[0]
    return f"<time{'.' + '0' * (len(found[2]) - 1) if found[2] else ''}{'Z' if found[3] == 'Z' else ' with zone'}>"


def _continued(token: str) -> str:
    """Where a list goes on; empty for a text that is no token."""
    try:
        given = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return f"{given['v']} {'old' if given['rv'] < 0 else 'at a version'} {given['start']!r}"
    except (binascii.Error, ValueError, KeyError, TypeError):
        return ""


Change = Callable[[Any], Any]


def everywhere(value: Any, change: Change) -> Any:
    """A value with `change` made to every dict in it, the inner ones first."""
    if isinstance(value, dict):
        return change({name: everywhere(child, change) for name, child in value.items()})
    if isinstance(value, list):
        return [everywhere(child, change) for child in value]
    return value
