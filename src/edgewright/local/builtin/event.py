"""The rules of Events, which are served in two groups and stored once, in the form of core/v1.

The newer group (`events.k8s.io`) has other names for some fields and is strict; the older one takes nearly anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from edgewright.local.builtin.checks import immutable, qualified_name
from edgewright.local.field_errors import invalid, required
from edgewright.local.names import subdomain
from edgewright.local.served import Write
from edgewright.local.structs.rules import CORE, BuiltinRules, text_at
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_NEW_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_NAMES: Final = {new: old for old, new in _NEW_NAMES.items()}
_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_MAX_LENGTH = 128
_MAX_MESSAGE = 1024


def _either(*names: str) -> Callable[[RawObject], str]:
    """Reads a field of the stored form, or of the newer form where an event is in that."""
    stored, new = text_at(*names), text_at(_NEW_NAMES.get(names[0], names[0]), *names[1:])
    return lambda obj: stored(obj) or new(obj)


_reporting = _either("reportingComponent")
_component = _either("source", "component")
SELECTABLE: Final[Mapping[str, Callable[[RawObject], str]]] = {
    **{f"involvedObject.{name}": _either("involvedObject", name) for name in _OBJECT_FIELDS},
    "reason": text_at("reason"),
    "reportingComponent": _reporting,
    "source": lambda obj: _component(obj) or _reporting(obj),
    "type": text_at("type"),
}
NEW_SELECTABLE: Final[Mapping[str, Callable[[RawObject], str]]] = {
    **{f"regarding.{name}": _either("involvedObject", name) for name in _OBJECT_FIELDS},
    "reason": text_at("reason"),
    "reportingController": _reporting,
    "type": text_at("type"),
}


class EventRules(BuiltinRules):
    """Events in core/v1, the form in which they are stored."""

    definition = f"{CORE}.Event"
    create_on_update = True
    has_dependents = False
    name_rule = "path"
    _reporting_field = "reportingComponent"

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """What has a time to the microsecond is a new Event and must say who reports it and why."""
        namespace, involved = obj["metadata"].get("namespace", ""), obj["involvedObject"].get("namespace", "")
        mismatch = invalid("involvedObject.namespace", involved, "does not match event.namespace")
        causes = []
        if obj.get("eventTime"):
            if not involved and namespace not in ("default", "kube-system"):
                causes.append(mismatch)
            causes += self._reported(obj)
        elif namespace != involved and (involved or namespace not in ("", "default")):
            causes.append(mismatch)
        return causes + [invalid("namespace", namespace, why) for why in subdomain(namespace)]

    def _reported(self, obj: RawObject) -> list[Cause]:
        causes = []
        if not obj["reportingComponent"]:
            causes.append(required(self._reporting_field))
        causes += qualified_name(self._reporting_field, obj["reportingComponent"])
        for name in ("reportingInstance", "action", "reason"):
            value = obj.get(name, "")
            if not value:
                causes.append(required(name))
            if len(value.encode("utf-8", "surrogatepass")) > _MAX_LENGTH:
                causes.append(invalid(name, "", f"can have at most {_MAX_LENGTH} characters"))
        if len(obj.get("message", "").encode("utf-8", "surrogatepass")) > _MAX_MESSAGE:
            causes.append(invalid("message", "", f"can have at most {_MAX_MESSAGE} characters"))
        return causes


class NewEventRules(EventRules):
    """Events in events.k8s.io/v1; what rules are asked about is in this form, what is stored in the other."""

    definition = "io.k8s.api.events.v1.Event"
    reads_as_stored = False
    name_rule = "subdomain"
    _reporting_field = "reportingController"

    def read(self, obj: RawObject) -> RawObject:
        """The newer form of a stored Event."""
        new = {_NEW_NAMES.get(name, name): value for name, value in obj.items()}
        for name in ("reportingController", "reportingInstance"):
            if new.get(name) == "":
                del new[name]
        return {**new, "apiVersion": "events.k8s.io/v1"}

    def to_store(self, obj: RawObject) -> RawObject:
        """The stored form of an Event."""
        stored = {_OLD_NAMES.get(name, name): value for name, value in obj.items()}
        return {"reportingComponent": "", "reportingInstance": "", **stored, "apiVersion": "v1"}

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """The rules of every Event, and those for new ones; after its creation only the series may change."""
        event = self.to_store(obj)
        causes = super().validate(event, None, write)
        if old is None:
            return causes + _series(event) + _new(event)
        before = self.to_store(old)
        if event.get("series") != before.get("series"):
            causes += _series(event)
        for name in ("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count"):
            causes += immutable(name, event.get(name), before.get(name))
        for name in ("reason", "type", "eventTime", "action", "related"):
            causes += immutable(name, event.get(name), before.get(name))
        causes += immutable("reportingController", event["reportingComponent"], before["reportingComponent"])
        return causes + immutable("reportingInstance", event["reportingInstance"], before["reportingInstance"])


def _series(event: RawObject) -> list[Cause]:
    series, causes = event.get("series"), []
    if series is not None and series.get("count", 0) < 2:
        causes.append(invalid("series.count", "", "should be at least 2"))
    if series is not None and not series.get("lastObservedTime"):
        causes.append(required("series.lastObservedTime"))
    return causes


def _new(event: RawObject) -> list[Cause]:
    causes = [] if event.get("eventTime") else [required("eventTime")]
    if event.get("type") not in ("Normal", "Warning"):
        causes.append(invalid("type", "", f"has invalid value: {event.get('type', '')}"))
    causes += [
        invalid(name, "", "needs to be unset")
        for name in ("firstTimestamp", "lastTimestamp", "count")
        if event.get(name)
    ]
    if event.get("source"):
        causes.append(invalid("source", "", "needs to be unset"))
    return causes
