"""The slices of a Service follow it and its Pods, and the second pass over a settled Service makes no request."""

from __future__ import annotations

from typing import Any

from edgewright.local.controllers import endpoints
from edgewright.runtime import RawObject
from tests.unit.local.controllers.miniature import (
    NAMESPACE,
    POD,
    SERVICE,
    SLICE,
    Miniature,
    controlled,
    miniature,
    settled,
    until,
)

SPEC = {"selector": {"app": "web"}, "ports": [{"port": 80}], "clusterIP": "10.0.0.1"}


def running(server: Miniature, name: str, address: str) -> None:
    status = {"phase": "Running", "podIPs": [{"ip": address}], "conditions": [{"type": "Ready", "status": "True"}]}
    server.make(POD, name, metadata={"labels": {"app": "web"}}, spec={}, status=status)


def served(server: Miniature) -> list[str]:
    return sorted(
        address
        for found in server.all(SLICE).values()
        for each in found["endpoints"] or ()
        for address in each["addresses"]
    )


def only(server: Miniature) -> RawObject:
    (found,) = server.all(SLICE).values()
    return found


async def test_slices_follow_pods_and_services() -> None:
    async with miniature() as server:
        server.make(SERVICE, "web", spec=SPEC)
        server.make(SERVICE, "by-hand", spec={"ports": [{"port": 80}]})
        async with controlled(server, endpoints.add):
            await until(lambda: server.all(SLICE))
            assert only(server)["endpoints"] is None
            running(server, "one", "10.0.0.1")
            running(server, "two", "10.0.0.2")
            await until(lambda: served(server) == ["10.0.0.1", "10.0.0.2"])
            await settled(server)
            writes = len(server.writes)
            server.make(SERVICE, "web", metadata={"annotations": {"seen": "yes"}})
            await settled(server)
            assert len(server.writes) == writes
            server.delete(POD, "one")
            await until(lambda: served(server) == ["10.0.0.2"])
            name = only(server)["metadata"]["name"]
            server.delete(SLICE, name)
            await until(lambda: served(server) == ["10.0.0.2"])
            assert only(server)["metadata"]["name"] == name


async def test_slices_that_are_too_many_go() -> None:
    async with miniature() as server:
        service = server.make(SERVICE, "web", spec=SPEC)
        for name in ("a", "b"):
            server.make(
                SLICE,
                name,
                metadata={
                    "labels": {
                        "kubernetes.io/service-name": "web",
                        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                    },
                    "ownerReferences": [{**_reference(service)}],
                },
                addressType="IPv4",
                endpoints=[],
                ports=[],
            )
        server.make(SLICE, "foreign", metadata={"labels": {"kubernetes.io/service-name": "web"}}, endpoints=[])
        async with controlled(server, endpoints.add):
            await until(lambda: len(server.all(SLICE)) == 2)
            assert server.get(SLICE, "foreign") is not None


def _reference(service: RawObject) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": service["metadata"]["uid"]}


async def test_a_name_that_somebody_took_is_not_ours() -> None:
    async with miniature() as server:
        server.make(SERVICE, "web", spec=SPEC)
        async with controlled(server, endpoints.add):
            await until(lambda: server.all(SLICE))
            name = only(server)["metadata"]["name"]
            server.make(SLICE, name, metadata={"labels": {}, "ownerReferences": []})
            await until(lambda: len(server.all(SLICE)) == 2)


async def test_in_a_namespace_that_is_going_nothing_is_made() -> None:
    async with miniature() as server:
        server.make(NAMESPACE, "default")
        server.delete(NAMESPACE, "default")
        server.make(SERVICE, "web", spec=SPEC)
        path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        async with controlled(server, endpoints.add):
            await until(lambda: ("POST", path) in server.asked)
            await settled(server)
            assert server.asked.count(("POST", path)) == 1


async def test_a_refusal_for_another_reason_is_tried_again() -> None:
    async with miniature() as server:
        server.make(NAMESPACE, "default")
        server.make(SERVICE, "web", spec=SPEC)
        path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        server.refuse("POST", path, 403, "Forbidden")
        async with controlled(server, endpoints.add):
            await until(lambda: server.all(SLICE))


async def test_a_slice_that_the_cache_does_not_know_yet_is_not_made_twice() -> None:
    async with miniature() as server, controlled(server, endpoints.add):
        with server.silence(SLICE):
            server.make(SERVICE, "web", spec=SPEC)
            await until(lambda: server.all(SLICE))
            await settled(server)
            server.make(SERVICE, "web", metadata={"annotations": {"seen": "yes"}})
            await settled(server)
            path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
            assert server.asked.count(("POST", path)) == 2
            assert len(server.all(SLICE)) == 1


async def test_where_the_namespace_is_gone_nothing_is_made() -> None:
    async with miniature() as server:
        server.make(SERVICE, "web", spec=SPEC)
        path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        server.refuse("POST", path, 404, "NotFound")
        async with controlled(server, endpoints.add):
            await until(lambda: ("POST", path) in server.asked)
            await settled(server)
            assert server.asked.count(("POST", path)) == 1
