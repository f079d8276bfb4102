"""Random sequences of operations leave the same objects on the real kube-apiserver and on `edgewright up`.

Each step has the same code and reason on both. `make soak` runs thousands of sequences.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cluster import random_kinds, random_operations
from tests.cluster.differential.exchange import Answer, Asker, Exchange, Step
from tests.cluster.differential.normalise import Normaliser
from tests.harness import ApiServer, ControlPlane, LocalPlane, wait_until

_TITLE = "random"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = itertools.count()


class Both:
    """Both servers, asked at the same time."""

    def __init__(self, *servers: ApiServer) -> None:
        self._askers = [Asker(server) for server in servers]
        self._threads = ThreadPoolExecutor(max_workers=len(servers))

    def hold(self, steps: list[Step]) -> list[list[Answer]]:
        """The comparable answers of each server to the same steps."""
        exchange = Exchange(steps=steps, stored=False)
        asked = [self._threads.submit(asker.hold, _TITLE, exchange) for asker in self._askers]
        return [_comparable(each.result()) for each in asked]

    def close(self) -> None:
        self._threads.shutdown()
        for asker in self._askers:
            asker.close()


@pytest.fixture(scope="module")
def both(counterpart: ControlPlane, compared_plane: LocalPlane) -> Iterator[Both]:
    """Both servers, with the custom kinds."""
    for server in (counterpart, compared_plane):
        for definition in random_kinds.DEFINITIONS:
            if not server.exists(f"{_CRDS}/{definition['metadata']['name']}"):
                server.request("POST", _CRDS, definition)
        for plural in ("widgets", "gadgets"):
            path = f"/apis/{random_kinds.GROUP}/v1/{plural}"
            wait_until(functools.partial(server.exists, path), what=f"{plural} are served")
    made = Both(counterpart, compared_plane)
    yield made
    made.close()


@given(st.data())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example])
def test_random_operations_leave_the_same_objects_on_both_servers(both: Both, data: st.DataObject) -> None:
    place = f"o{next(_numbers)}"
    drawn = data.draw(random_operations.sequences("{place}"), label="operations")
    steps = [step for operation in drawn for step in operation]
    steps += random_operations.looked_at(steps, "{place}")
    steps += random_operations.cleaned_up(steps, "{place}")
    placed = [random_operations.placed(step, place) for step in steps]
    real, local = both.hold(placed)
    if differences := _differences(real, local):
        pytest.fail(f"{_sent(placed, real)}\n{differences}", pytrace=False)


def _sent(steps: list[Step], answers: list[Answer]) -> str:
    """The steps that are compared, for people to send again."""
    compared = [step for step in steps if step.compared]
    return "\n".join(
        f"{answer.code} {step.method} {step.path} {step.headers} "
        + ("what was read, changed" if callable(step.body) else repr(step.body))
        for step, answer in zip(compared, answers, strict=True)
    )


def _comparable(answers: list[Answer]) -> list[Answer]:
    normaliser = Normaliser(answers)
    return [normaliser.normalise(each) for each in answers]


def _differences(real: list[Answer], local: list[Answer]) -> str:
    found: list[str] = []
    for theirs, ours in zip(real, local, strict=True):
        one, other = _told(theirs), _told(ours)
        if one != other:
            found += difflib.unified_diff(
                _lines(one), _lines(other), f"real {theirs.title}", f"local {ours.title}", lineterm=""
            )
            found += [f"real: {theirs.body}", f"local: {ours.body}"] if theirs.code >= 400 or ours.code >= 400 else []
    return "\n".join(found)


def _told(answer: Answer) -> Any:
    """What must be the same: code and reason of every step, the whole object of what succeeded."""
    body = answer.body
    if answer.code >= 400:
        # What the real server takes for its own fault is the client's here, as it is in truth.
        own = answer.code == 500 and "reason" not in body
        return (400, "BadRequest") if own else (answer.code, body.get("reason"))
    return answer.code, _in_order(body)


def _in_order(body: Any) -> Any:
    """With the managers of fields by name: their order tells in which second each wrote, which is chance here."""
    about = body.get("metadata") if isinstance(body, dict) else None
    if isinstance(body, dict) and isinstance(body.get("items"), list):
        return {**body, "items": [_in_order(each) for each in body["items"]]}
    if not isinstance(about, dict) or not isinstance(about.get("managedFields"), list):
        return body
    owners = sorted(about["managedFields"], key=lambda each: [str(each.get(name)) for name in _OWNER])
    return {**body, "metadata": {**about, "managedFields": owners}}


_OWNER = ("manager", "operation", "subresource", "apiVersion")


def _lines(told: Any) -> list[str]:
    return json.dumps(told, indent=1, sort_keys=True, ensure_ascii=False).splitlines()
