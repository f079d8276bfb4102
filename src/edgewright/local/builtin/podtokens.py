"""The token that a Pod gets of its ServiceAccount: a volume with it, next to what it takes to use it.

`pod` adds it to new Pods as the admission of a real cluster does. The token itself is asked for by the node, when the
Pod is started, and again before it ends.
"""

from __future__ import annotations

from edgewright.local.access.accounts import EXTENDED_SECONDS
from edgewright.local.names import generated
from edgewright.runtime.objects import RawObject

FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where programs look for it."""
PREFIX = "kube-api-access-"
_READ_BY_ALL = 0o644


def mount(spec: RawObject, account: RawObject) -> None:
    """Mounts the token into every container that has nothing else there, unless the Pod or its account forbids it."""
    wanted = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken"))
    if wanted is False:
        return
    volumes = spec.get("volumes") or []
    there = next((each["name"] for each in volumes if each.get("name", "").startswith(PREFIX)), "")
    name, used = there or generated(PREFIX), False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if not any(each.get("mountPath") == FOLDER for each in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": FOLDER}]
            used = True
    if used and not there:
        spec["volumes"] = [*volumes, _volume(name)]


def _volume(name: str) -> RawObject:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": EXTENDED_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": _READ_BY_ALL}}
