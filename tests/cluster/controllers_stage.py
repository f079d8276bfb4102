"""What tests of the in-process controllers do: run them next to an API server, make objects for them, look at those.

`test_local_controllers` uses it, on three control planes alike. It starts no server.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from edgewright.local.controllers import add_all
from edgewright.runtime import Client, Manager, config
from tests.harness import ApiServer, RequestError, wait_until

# Else a Node is tainted until the controller manager has seen it Ready, and one of the two has none.
FLAGS = ("--disable-admission-plugins=TaintNodesByCondition",)
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


@contextmanager
def our_controllers(plane: ApiServer) -> Iterator[None]:
    """Runs all our controllers in a thread with an event loop of its own."""
    started, failures = threading.Event(), []
    stop: list[Any] = []

    async def run() -> None:
        manager = Manager(Client(config.load(kubeconfig=plane.kubeconfig)), drain_seconds=2)
        companions = add_all(manager, root_ca=plane.ca_file.read_bytes())
        running = asyncio.create_task(companions.run())
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(manager.stop))
        started.set()
        try:
            await manager.run()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def thread() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            started.set()

    runner = threading.Thread(target=thread)
    runner.start()
    started.wait()
    try:
        yield
    finally:
        for each in stop:
            each()
        runner.join(30)
        assert not runner.is_alive()
        assert not failures


def get(plane: ApiServer, path: str) -> Any:
    try:
        return plane.request("GET", path)
    except RequestError as error:
        if error.code == 404:
            return None
        raise


def made_again(plane: ApiServer, path: str, uid: str) -> bool:
    found = get(plane, path)
    return found is not None and found["metadata"]["uid"] != uid


def gone(plane: ApiServer, path: str) -> None:
    wait_until(lambda: not plane.exists(path), what=f"{path} is gone")


def config_map(
    plane: ApiServer, namespace: str, name: str, *owners: Any, finalizers: tuple[str, ...] = (), block: bool = False
) -> Any:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    body = {"metadata": {"name": name, "ownerReferences": references, "finalizers": list(finalizers)}}
    made = plane.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    return {"apiVersion": "v1", "kind": "ConfigMap", **made}


def path_of(obj: Any) -> str:
    return f"/api/v1/namespaces/{obj['metadata']['namespace']}/configmaps/{obj['metadata']['name']}"


def delete(plane: ApiServer, obj: Any, propagation: str) -> None:
    plane.request("DELETE", path_of(obj), {"propagationPolicy": propagation})


def release(plane: ApiServer, path: str) -> None:
    """Takes all finalizers away."""
    plane.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json")


def node(plane: ApiServer, name: str, *, ready: bool = True, **spec: Any) -> None:
    body = {"metadata": {"name": name, "labels": {"zone": name}}, "spec": spec}
    plane.request("POST", "/api/v1/nodes", body)
    condition = {"type": "Ready", "status": "True" if ready else "False", "reason": "Test", "message": "test"}
    status = {"conditions": [condition], "allocatable": {"pods": "10"}, "capacity": {"pods": "10"}}
    plane.request(
        "PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, content_type="application/merge-patch+json"
    )


def pod(plane: ApiServer, namespace: str, name: str, *, labels: Any = None, **spec: Any) -> str:
    body = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "image": "none"}], **spec},
    }
    plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def node_of(plane: ApiServer, path: str) -> str | None:
    found: str | None = plane.request("GET", path)["spec"].get("nodeName")
    return found


def is_on(plane: ApiServer, path: str, node: str) -> bool:
    return node_of(plane, path) == node


def scheduled(found: Any) -> Any:
    return next((each for each in found["status"].get("conditions", ()) if each["type"] == "PodScheduled"), None)


def service(plane: ApiServer, ns: str, name: str, **spec: Any) -> Any:
    body = {"metadata": {"name": name, "labels": {"team": "edge"}}, "spec": {"selector": {"app": name}, **spec}}
    return plane.request("POST", f"/api/v1/namespaces/{ns}/services", body)


def slices_of(plane: ApiServer, ns: str, name: str) -> list[Any]:
    selector = f"labelSelector=kubernetes.io/service-name%3D{name}"
    path = f"/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices?{selector}"
    found: list[Any] = plane.request("GET", path)["items"]
    return found


def run(plane: ApiServer, path: str, address: str, *, ready: bool = True) -> None:
    """Says of a Pod that it runs, as its node would."""
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    plane.request("PATCH", f"{path}/status", {"status": status}, content_type="application/merge-patch+json")
