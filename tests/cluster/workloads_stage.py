"""What tests of the controllers of workloads do: make workloads, say of their Pods what a node would, look at them.

`test_local_workloads` and its siblings use it, on three control planes alike. It starts no server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.harness import ApiServer, RequestError, wait_until

GROUPS = {
    **dict.fromkeys(("deployments", "replicasets", "statefulsets", "daemonsets", "controllerrevisions"), "apps/v1"),
    **dict.fromkeys(("jobs", "cronjobs"), "batch/v1"),
    "poddisruptionbudgets": "policy/v1",
}
LIMIT = 180.0
MERGE = "application/merge-patch+json"


def labels_of(name: str) -> dict[str, str]:
    return {"app": name}


def template(name: str, image: str = "one", **spec: Any) -> Any:
    """A template of Pods of an application."""
    return {
        "metadata": {"labels": labels_of(name)},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": image}], **spec},
    }


def replica_set(name: str, *, pods: Any = None, metadata: Any = None, **spec: Any) -> Any:
    """A workload with a selector."""
    return {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"selector": {"matchLabels": labels_of(name)}, "template": template(name, **(pods or {})), **spec},
    }


deployment = replica_set


def job(name: str, *, pods: Any = None, metadata: Any = None, **spec: Any) -> Any:
    """A Job, whose selector the server makes."""
    made = template(name, **{"restartPolicy": "Never", **(pods or {})})
    return {"metadata": {"name": name, **(metadata or {})}, "spec": {"template": made, **spec}}


def cron_job(name: str, **spec: Any) -> Any:
    """A CronJob that is due each minute, and whose Pods fit on no Node that a test makes."""
    made = job(name, pods={"nodeSelector": {"zone": "nowhere"}})
    return {
        "metadata": {"name": name},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": made["spec"]}, **spec},
    }


def conditions(found: Any) -> dict[str, Any]:
    """The conditions of an object or of a status by their types."""
    status = found.get("status", found)
    return {each["type"]: each for each in status.get("conditions") or ()}


class Stage:
    """One namespace of a control plane."""

    def __init__(self, plane: ApiServer, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        wait_until(lambda: plane.exists(account), what="the service account is there", timeout=LIMIT)

    def path(self, plural: str, name: str = "", subresource: str = "") -> str:
        group = GROUPS.get(plural)
        root = f"/apis/{group}" if group else "/api/v1"
        return "/".join(filter(None, (f"{root}/namespaces/{self.namespace}/{plural}", name, subresource)))

    def create(self, plural: str, body: Any) -> Any:
        return self.plane.request("POST", self.path(plural), body)

    def get(self, plural: str, name: str) -> Any:
        return self.plane.request("GET", self.path(plural, name))

    def find(self, plural: str, name: str) -> Any:
        try:
            return self.get(plural, name)
        except RequestError as error:
            if error.code == 404:
                return None
            raise

    def all(self, plural: str) -> list[Any]:
        found: list[Any] = self.plane.request("GET", self.path(plural))["items"]
        return found

    def patch(self, plural: str, name: str, change: Any, subresource: str = "") -> Any:
        return self.plane.request("PATCH", self.path(plural, name, subresource), change, content_type=MERGE)

    def delete(self, plural: str, name: str, propagation: str = "Background") -> None:
        self.plane.request("DELETE", self.path(plural, name), {"propagationPolicy": propagation})

    def scale(self, plural: str, name: str, replicas: int) -> None:
        self.patch(plural, name, {"spec": {"replicas": replicas}}, "scale")

    def remove(self) -> None:
        """Lets the namespace go, and waits for nothing."""
        self.plane.request("DELETE", f"/api/v1/namespaces/{self.namespace}")

    def until_collector_follows(self) -> None:
        """Waits until the garbage collector has seen the Pods that are here: it takes one that came after them."""
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "nobody"}
        metadata = {"name": "marker", "ownerReferences": [reference]}
        self.create("pods", {"metadata": metadata, "spec": template("marker")["spec"]})
        self.until(lambda: self.find("pods", "marker") is None, "the collector has taken the marker")

    def until(self, holds: Callable[[], Any], what: str) -> None:
        wait_until(lambda: bool(holds()), what=what, timeout=LIMIT)

    def pod(self, name: str, labels: Any) -> None:
        self.create("pods", {"metadata": {"name": name, "labels": labels}, "spec": template("x")["spec"]})

    def active(self) -> list[Any]:
        """The Pods that have not ended and are not to go."""
        return [
            pod
            for pod in self.all("pods")
            if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in ("Succeeded", "Failed")
        ]

    def pods(self, count: int, *, but: Iterable[Any] = ()) -> list[Any]:
        """Waits for so many Pods that are not to go, none of them one of `but`."""
        uids = {pod["metadata"]["uid"] for pod in but}
        found: list[Any] = []

        def there() -> bool:
            found[:] = self.active()
            return len(found) == count and not any(pod["metadata"]["uid"] in uids for pod in found)

        self.until(there, f"{count} Pods are there")
        return sorted(found, key=lambda pod: pod["metadata"]["name"])

    def fresh(self, image: str, count: int) -> list[Any]:
        """Waits for at least so many Pods of an image; those that are not ready."""
        found: list[Any] = []

        def there() -> bool:
            found[:] = [pod for pod in self.active() if pod["spec"]["containers"][0]["image"] == image]
            return len(found) >= count

        self.until(there, f"{count} Pods of {image} are there")
        return [pod for pod in found if not self.is_ready(pod)]

    @staticmethod
    def is_ready(pod: Any) -> bool:
        return bool(conditions(pod).get("Ready", {}).get("status") == "True")

    def run(self, *pods: Any, ready: bool = True) -> None:
        """Says of Pods that they run, as their node would."""
        moment = self.plane.request("POST", self.path("configmaps"), {"metadata": {"generateName": "now-"}})
        ready_now = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": moment["metadata"]["creationTimestamp"],
        }
        for pod in pods:
            self.patch(
                "pods", pod["metadata"]["name"], {"status": {"phase": "Running", "conditions": [ready_now]}}, "status"
            )

    def end(self, pod: Any, *, code: int = 0, container: str = "main") -> None:
        """Says of a Pod that it has ended, as its node would."""
        state = {"terminated": {"exitCode": code, "finishedAt": "2026-01-02T03:04:05Z"}}
        ended = {"name": container, "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        change = {"status": {"phase": "Failed" if code else "Succeeded", "containerStatuses": [ended]}}
        self.patch("pods", pod["metadata"]["name"], change, "status")

    def delete_pod(self, pod: Any) -> None:
        self.plane.request("DELETE", self.path("pods", pod["metadata"]["name"]), {"gracePeriodSeconds": 0})

    def status(self, plural: str, name: str, **wanted: Any) -> Any:
        """Waits for a status with these numbers; gives it."""
        found: dict[str, Any] = {}

        def there() -> bool:
            found.clear()
            found.update(self.get(plural, name).get("status") or {})
            return all((found.get(key) or 0) == value for key, value in wanted.items())

        try:
            self.until(there, f"{name} says {wanted}")
        except BaseException as error:
            error.add_note(f"it says {found}")
            raise
        return found

    def events(self, name: str, reason: str) -> list[Any]:
        """Waits for Events about an object; gives them."""
        found: list[Any] = []

        def there() -> bool:
            items = self.all("events")
            found[:] = [each for each in items if each["involvedObject"]["name"] == name and each["reason"] == reason]
            return bool(found)

        self.until(there, f"an event {reason} about {name}")
        return found

    def versions(self, *plurals: str) -> dict[str, str]:
        """The version of each object, by its kind and name."""
        return {
            f"{plural}/{each['metadata']['name']}": each["metadata"]["resourceVersion"]
            for plural in plurals
            for each in self.all(plural)
        }


def ticking(plane: ApiServer) -> Stage:
    """A namespace in which a Job is made at the beginning of the next minute, and no other before that has ended."""
    stage = Stage(plane, plane.create_namespace("ticking"))
    stage.create("cronjobs", cron_job("tick", concurrencyPolicy="Forbid", successfulJobsHistoryLimit=0))
    return stage
