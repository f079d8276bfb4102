"""Pods, Nodes and what Pods refer to, as the node reads them: typed where it counts, plain JSON below.

The cache decodes into these. The spec stays a plain dict, because most of its hundred fields are only looked at once,
when a container is started; the functions here are the few questions that several modules ask of it. No I/O.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from edgewright.runtime.objects import Kind, ObjectMeta, RawObject, Resource

CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")
SECRET = Kind(group="", version="v1", kind="Secret", plural="secrets")
NODE = Kind(group="", version="v1", kind="Node", plural="nodes", namespaced=False)
SERVICE_ACCOUNT = Kind(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts")


class PodMeta(ObjectMeta, frozen=True, gc=False, kw_only=True):
    """Metadata with the grace period of a deletion, which only Pods have."""

    deletion_grace_period_seconds: int | None = None


class Pod(Resource, frozen=True, gc=False, kw_only=True):
    """A Pod that is bound to this node."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Pod", plural="pods")

    metadata: PodMeta = PodMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}

    @property
    def uid(self) -> str:
        """What tells it from another Pod of the same name."""
        return self.metadata.uid

    @property
    def restart_policy(self) -> str:
        """Always, OnFailure or Never."""
        return str(self.spec.get("restartPolicy") or "Always")

    @property
    def containers(self) -> list[RawObject]:
        """The containers that create the Pod."""
        return list(self.spec.get("containers") or ())

    @property
    def init_containers(self) -> list[RawObject]:
        """What runs before them, in order; sidecars among them."""
        return list(self.spec.get("initContainers") or ())

    @property
    def all_containers(self) -> list[RawObject]:
        """Both."""
        return [*self.init_containers, *self.containers]

    @property
    def grace(self) -> int:
        """How long its programs get to end."""
        given = self.spec.get("terminationGracePeriodSeconds")
        return 30 if given is None else int(given)

    @property
    def phase(self) -> str:
        """What its status says of it as a whole."""
        return str(self.status.get("phase") or "Pending")

    @property
    def ended(self) -> bool:
        """Whether nothing of it will ever run again."""
        return self.phase in {"Succeeded", "Failed"}

    def container(self, name: str) -> RawObject | None:
        """A container by its name."""
        return next((each for each in self.all_containers if each["name"] == name), None)


def is_sidecar(container: RawObject) -> bool:
    """Whether an init container runs on next to the others."""
    return container.get("restartPolicy") == "Always"


def rfc3339(moment: datetime) -> str:
    """A time as the API server writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: Any) -> datetime | None:
    """A time that the API server wrote."""
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None
