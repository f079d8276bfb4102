"""Which EndpointSlices a Service should have: ports, conditions, places, and no needless change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.controllers import slices
from edgewright.local.controllers.resources import EndpointSlice, Pod, Service
from edgewright.local.controllers.slices import LARGEST, TRIGGERED, Plan, Triggers, plan


def service(*ports: Any, labels: dict[str, str] | None = None, **spec: Any) -> Service:
    body = {
        "metadata": {"name": "web", "namespace": "ns", "uid": "s", "labels": labels or {}},
        "spec": {"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ports": list(ports), **spec},
    }
    return msgspec.convert(body, Service)


def pod(
    number: int = 1, *, ready: bool = True, ports: Any = (), address: str = "", metadata: Any = None, **rest: Any
) -> Pod:
    status = {
        "phase": rest.pop("phase", "Running"),
        "podIPs": [{"ip": address or f"10.1.{number // 250}.{number % 250}"}],
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }
    names = {"name": f"pod-{number}", "namespace": "ns", "uid": f"uid-{number}", "labels": {"app": "web"}}
    spec = {"containers": [{"ports": list(ports)}], "nodeName": "here", **rest}
    return msgspec.convert({"metadata": {**names, **(metadata or {})}, "spec": spec, "status": status}, Pod)


HTTP = {"name": "http", "port": 80, "targetPort": 8080}


def carried_out(wanted: Plan, existing: list[EndpointSlice]) -> list[EndpointSlice]:
    """What is there after a plan."""
    changes = {id(found): change for found, change in wanted.patch}
    kept = []
    for found in existing:
        if any(found is each for each in wanted.delete):
            continue
        raw = {**found.to_raw(), **{k: v for k, v in changes.get(id(found), {}).items() if k != "metadata"}}
        labels = changes.get(id(found), {}).get("metadata", {}).get("labels", found.metadata.labels)
        raw["metadata"] = {**raw["metadata"], "labels": {k: v for k, v in labels.items() if v is not None}}
        kept.append(msgspec.convert(raw, EndpointSlice))
    return kept + [msgspec.convert(each, EndpointSlice) for each in wanted.create]


def addresses(found: list[EndpointSlice]) -> list[str]:
    return sorted(each.addresses[0] for one in found for each in one.endpoints or ())


def test_a_service_that_selects_nobody_has_one_empty_slice_that_stays() -> None:
    first = plan(service(HTTP), [], [])
    (made,) = first.create
    assert (made["endpoints"], made["ports"]) == (None, None)
    there = carried_out(first, [])
    assert plan(service(HTTP), [], there) == Plan()


def test_a_slice_that_is_right_is_left_alone() -> None:
    pods = [pod(1), pod(2, ready=False)]
    there = carried_out(plan(service(HTTP), pods, []), [])
    assert plan(service(HTTP), pods, there) == Plan()


def test_an_empty_slice_is_used_when_pods_come_and_stays_when_they_go() -> None:
    empty = carried_out(plan(service(HTTP), [], []), [])
    wanted = plan(service(HTTP), [pod()], empty)
    assert (wanted.create, wanted.delete, len(wanted.patch)) == ([], [], 1)
    full = carried_out(wanted, empty)
    assert addresses(full) == ["10.1.0.1"]
    assert addresses(carried_out(plan(service(HTTP), [], full), full)) == []
    assert plan(service(HTTP), [], full).delete == []


def test_the_name_of_a_new_slice_is_the_same_each_time_and_another_for_the_next() -> None:
    once, twice = plan(service(HTTP), [], []), plan(service(HTTP), [], [])
    assert once == twice
    many = [pod(number) for number in range(LARGEST * 2 + 1)]
    names = [each["metadata"]["name"] for each in plan(service(HTTP), many, []).create]
    assert names[0] == once.create[0]["metadata"]["name"]
    assert len(set(names)) == 3


def test_one_more_pod_changes_one_slice() -> None:
    pods = [pod(number) for number in range(LARGEST * 2 - 50)]
    there = carried_out(plan(service(HTTP), pods, []), [])
    assert [len(each.endpoints or ()) for each in there] == [LARGEST, LARGEST - 50]
    wanted = plan(service(HTTP), [pod(1000), *pods], there)
    assert [found for found, _ in wanted.patch] == [there[1]]
    without_first = plan(service(HTTP), pods[1:], there)
    assert [found for found, _ in without_first.patch] == [there[0]]


@given(st.lists(st.sets(st.integers(0, 260)), min_size=1, max_size=4))
def test_whatever_comes_and_goes_each_pod_is_in_exactly_one_slice(history: list[set[int]]) -> None:
    there: list[EndpointSlice] = []
    for present in history:
        pods = [pod(number) for number in sorted(present)]
        there = carried_out(plan(service(HTTP), pods, there), there)
        assert addresses(there) == sorted(each.status.pod_ips[0].ip for each in pods)
        assert all(len(each.endpoints or ()) <= LARGEST for each in there)
        assert plan(service(HTTP), pods, there) == Plan()


def test_pods_that_name_a_port_differently_are_in_different_slices() -> None:
    named = {"name": "flash", "port": 4433, "targetPort": "flash"}
    one = pod(1, ports=[{"name": "flash", "containerPort": 4433}])
    two = pod(2, ports=[{"name": "flash", "containerPort": 5000}])
    none = pod(3)
    found = carried_out(plan(service(named), [one, two, none], []), [])
    assert {(each.ports or ())[0].port if each.ports else None for each in found} == {4433, 5000, None}


@pytest.mark.parametrize(
    ("port", "spec", "number"),
    [
        ({"port": 80, "targetPort": 8080}, {}, 8080),
        ({"port": 80}, {}, 80),
        ({"port": 80, "targetPort": "web"}, {"containers": [{"ports": [{"name": "web", "containerPort": 1}]}]}, 1),
        (
            {"port": 80, "targetPort": "web", "protocol": "UDP"},
            {"containers": [{"ports": [{"name": "web", "containerPort": 1}]}]},
            None,
        ),
        (
            {"port": 80, "targetPort": "web"},
            {"initContainers": [{"restartPolicy": "Always", "ports": [{"name": "web", "containerPort": 2}]}]},
            2,
        ),
        (
            {"port": 80, "targetPort": "web"},
            {"initContainers": [{"ports": [{"name": "web", "containerPort": 2}]}]},
            None,
        ),
    ],
    ids=["number", "same", "name", "name of another protocol", "of a sidecar", "of an init container"],
)
def test_a_target_port(port: Any, spec: Any, number: int | None) -> None:
    found = msgspec.convert({"spec": spec}, Pod)
    assert slices.target_port(service(port).spec.ports[0], found) == number


@pytest.mark.parametrize(
    ("found", "publish", "conditions"),
    [
        (pod(), False, (True, True, False)),
        (pod(ready=False), False, (False, False, False)),
        (pod(ready=False), True, (True, False, False)),
        (pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False, (False, True, True)),
    ],
    ids=["ready", "not ready", "published anyway", "ending"],
)
def test_the_conditions_of_an_endpoint(found: Pod, publish: bool, conditions: tuple[bool, bool, bool]) -> None:
    made = slices.endpoint(service(publishNotReadyAddresses=publish), found)
    assert made is not None
    assert (made.conditions.ready, made.conditions.serving, made.conditions.terminating) == conditions


@pytest.mark.parametrize(
    "found",
    [pod(phase="Succeeded"), pod(phase="Failed"), pod(address="fd00::1"), pod(address="nonsense")],
    ids=["succeeded", "failed", "IPv6 only", "no address"],
)
def test_who_cannot_serve_is_no_endpoint(found: Pod) -> None:
    assert slices.endpoint(service(), found) is None


def test_a_pod_with_a_hostname_in_the_services_domain_is_named() -> None:
    made = slices.endpoint(service(), pod(hostname="first", subdomain="web"))
    other = slices.endpoint(service(), pod(hostname="first", subdomain="other"))
    assert made is not None
    assert other is not None
    assert (made.hostname, other.hostname) == ("first", None)


def test_labels_follow_the_service() -> None:
    there = carried_out(plan(service(HTTP, labels={"team": "edge"}), [], []), [])
    assert there[0].metadata.labels["team"] == "edge"
    wanted = plan(service(HTTP, clusterIP="None"), [], there)
    after = carried_out(wanted, there)[0].metadata.labels
    assert after == {
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "service.kubernetes.io/headless": "",
    }


def test_a_slice_of_another_address_type_goes() -> None:
    other = msgspec.convert({"metadata": {"name": "x"}, "addressType": "IPv6"}, EndpointSlice)
    assert plan(service(HTTP), [], [other]).delete == [other]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (service(), True),
        (service(selector={}), False),
        (service(type="ExternalName"), False),
    ],
    ids=["with a selector", "without one", "a mere name"],
)
def test_which_services_are_ours(found: Service, expected: bool) -> None:
    assert slices.concerned(found) is expected


def test_only_pods_of_the_same_namespace_and_labels_are_selected() -> None:
    assert slices.selects(service(), pod())
    assert not slices.selects(service(), pod(metadata={"namespace": "other"}))
    assert not slices.selects(service(), pod(metadata={"labels": {"app": "other"}}))
    assert not slices.selects(service(selector={}), pod())


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def created(second: int) -> Service:
    raw = service(HTTP).to_raw()
    return msgspec.convert(
        {**raw, "metadata": {**raw["metadata"], "creationTimestamp": at(second).isoformat()}}, Service
    )


def ready_since(number: int, second: int) -> Pod:
    raw = pod(number).to_raw()
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": at(second).isoformat()}
    return msgspec.convert({**raw, "status": {**raw["status"], "conditions": [condition]}}, Pod)


def test_a_slice_says_when_what_changed_it_happened() -> None:
    triggers = Triggers()
    assert triggers.changed(created(1), [ready_since(1, 5)]) == at(1)
    assert triggers.changed(created(1), [ready_since(1, 5)]) is None
    assert triggers.changed(created(1), [ready_since(1, 9), ready_since(2, 8), pod(3)]) == at(8)
    assert triggers.changed(created(20), [ready_since(1, 9)]) == at(20)
    triggers.forget(created(1).key)
    assert triggers.changed(created(1), []) == at(1)


def test_only_slices_that_change_are_written_for_the_sake_of_the_time() -> None:
    first = plan(service(HTTP), [pod(1)], [], triggered=at(1))
    assert first.create[0]["metadata"]["annotations"] == {TRIGGERED: "2026-01-01T00:00:01Z"}
    there = carried_out(first, [])
    assert plan(service(HTTP), [pod(1)], there, triggered=at(2)) == Plan()
    ((_, change),) = plan(service(HTTP), [pod(1), pod(2)], there, triggered=at(2)).patch
    assert change["metadata"] == {"annotations": {TRIGGERED: "2026-01-01T00:00:02Z"}}
    ((_, change),) = plan(service(HTTP), [pod(2)], there, triggered=None).patch
    assert change["metadata"] == {"annotations": {TRIGGERED: None}}
    ((_, change),) = plan(service(HTTP), [pod(2)], there, triggered=at(1)).patch
    assert "metadata" not in change
