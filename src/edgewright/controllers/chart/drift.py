"""Whether an object is still what was applied: pure functions on an object, a dry run's answer and the rules to ignore.

`dependents` asks the API server for the dry run and acts on what is found here; the command line shows it. Only fields
that the chart sets can drift: what others add is theirs.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from edgewright.controllers.chart.policy import DRIFT, Ignored
from edgewright.runtime.objects import RawObject

_SERVER_SET: Final = (
    "managedFields",
    "resourceVersion",
    "generation",
    "ownerReferences",
    "creationTimestamp",
    "uid",
    "selfLink",
)
_SCALERS: Final = frozenset({"kube-controller-manager"})
REPLICAS: Final = "/spec/replicas"
MAX_PATHS: Final = 20


def with_ignored(wanted: RawObject, live: RawObject, rules: Iterable[Ignored]) -> RawObject:
    """What is to be applied, with the fields that are somebody else's business as they are."""
    metadata = wanted["metadata"]
    paths = [path for rule in rules if rule.fits(wanted["kind"], metadata["name"]) for path in rule.paths]
    if scaled_by_others(live):
        paths.append(REPLICAS)
    if not paths:
        return wanted
    result = copy.deepcopy(wanted)
    for path in paths:
        _take_over(result, live, [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]])
    return result


def _take_over(wanted: Any, live: Any, path: list[str]) -> None:
    """Makes one field what it is; where only one of the two has it, what is wanted does without."""
    *folders, last = path
    for step in folders:
        wanted, live = _inside(wanted, step), _inside(live, step)
    if isinstance(wanted, list):
        if last.isdecimal() and int(last) < len(wanted) and isinstance(live, list) and int(last) < len(live):
            wanted[int(last)] = live[int(last)]
    elif isinstance(wanted, dict):
        if isinstance(live, Mapping) and last in live:
            if last in wanted:
                wanted[last] = live[last]
        else:
            wanted.pop(last, None)


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, list):
        return value[int(step)] if step.isdecimal() and int(step) < len(value) else None
    return value.get(step) if isinstance(value, Mapping) else None


def left_alone(live: RawObject) -> bool:
    """Whether somebody has marked the object: it is not to be put right."""
    return (live["metadata"].get("annotations") or {}).get(DRIFT) == "off"


def scaled_by_others(live: RawObject) -> bool:
    """Whether the number of replicas is an autoscaler's business."""
    return any(
        each.get("subresource") == "scale"
        and each.get("manager") in _SCALERS
        and "f:replicas" in (each.get("fieldsV1") or {}).get("f:spec", {})
        for each in live["metadata"].get("managedFields") or ()
    )


def changed_paths(live: RawObject, applied: RawObject) -> tuple[str, ...]:
    """The fields that applying would change, as JSON pointers; none where the object is what was applied."""
    found = []
    for path in differences(content(live), content(applied)):
        found.append(path)
        if len(found) == MAX_PATHS:
            break
    return tuple(found)


def surely_same(wanted: RawObject, live: RawObject, *, manager: str) -> bool:
    """Whether applying would change nothing for certain; where this says no, only a dry run can tell.

    All that is wanted is there as it is written, and what the manager applied last holds nothing else: so nothing would
    be changed, and nothing taken away. A value that the server writes in another way is not found the same here.
    """
    applied = [
        each.get("fieldsV1") or {}
        for each in live["metadata"].get("managedFields") or ()
        if each.get("manager") == manager and each.get("operation") == "Apply" and not each.get("subresource")
    ]
    return bool(applied) and _holds(live, wanted) and all(_covers(wanted, each) for each in applied)


def _holds(live: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            key in live and _holds(live[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_holds, live, wanted))
    return wanted is not None and type(live) is type(wanted) and bool(live == wanted)


def _covers(wanted: Any, fields: Mapping[str, Any]) -> bool:
    """Whether every field of a set, as the server writes them, is in what is wanted."""
    for step, below in fields.items():
        if step == ".":
            continue
        found = _at(wanted, step)
        if len(found) != 1 or not _covers(found[0], below):
            return False
    return True


def _at(wanted: Any, step: str) -> list[Any]:
    """What a step of the server's leads to: a field by its name, or an item of a list by its keys or its value."""
    how, _, name = step.partition(":")
    if how == "f":
        return [wanted[name]] if isinstance(wanted, Mapping) and name in wanted else []
    items = wanted if isinstance(wanted, list) else []
    if how == "v":
        return [each for each in items if each == json.loads(name)][:1]
    if how == "k":  # a key that is not written has its default
        keys = json.loads(name).items()
        return [each for each in items if isinstance(each, Mapping) and all(each.get(k, v) == v for k, v in keys)]
    return []


def content(obj: RawObject) -> RawObject:
    """An object without what the server sets and without its status."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_SET}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Where two documents differ, as JSON pointers."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}, key=str):
            step = str(key).replace("~", "~0").replace("/", "~1")
            if key in old and key in new:
                yield from differences(old[key], new[key], f"{path}/{step}")
            else:
                yield f"{path}/{step}"
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{path}/{number}")
    else:
        yield path
