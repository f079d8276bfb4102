"""Checks of references from a container's environment or a volume's files to the Pod's own fields and resources."""

from __future__ import annotations

from edgewright.local.builtin import checks
from edgewright.local.field_errors import invalid, required, unsupported
from edgewright.local.quantities import value as amount_of
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_KNOWN = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
)
_IN_ENVIRONMENT = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_IN_FILES = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_CPU_DIVISORS = ("1m", "1")
_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def field_reference(reference: RawObject, path: str, *, volume: bool) -> list[Cause]:
    """A reference to a field of the Pod; files may have whole maps, variables may not."""
    version, name = reference["apiVersion"], reference["fieldPath"]
    if not name:
        return [required(f"{path}.fieldPath")]
    if version != "v1":
        why = f"error converting fieldPath: unsupported pod version: {version}"
        return [invalid(f"{path}.fieldPath", name, why)]
    head, subscripted, key = name.removesuffix("']").partition("['") if name.endswith("']") else (name, "", "")
    plain = "spec.nodeName" if name == "spec.host" else name
    if subscripted and head in ("metadata.annotations", "metadata.labels"):
        return checks.qualified_name(path, key.lower() if head == "metadata.annotations" else key)
    if plain not in _KNOWN:
        return [invalid(f"{path}.fieldPath", name, f"error converting fieldPath: field label not supported: {name}")]
    allowed = _IN_FILES if volume else _IN_ENVIRONMENT
    return [] if plain in allowed else [unsupported(f"{path}.fieldPath", plain, allowed)]


def resource_reference(reference: RawObject, path: str, *, volume: bool) -> list[Cause]:
    """A reference to a container's limit or request; a file must name the container."""
    resource, causes = reference["resource"], []
    if volume and not reference.get("containerName"):
        causes.append(required(f"{path}.containerName"))
    elif not resource:
        causes.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        causes.append(unsupported(f"{path}.resource", resource, _RESOURCES))
    allowed = _CPU_DIVISORS if resource.endswith(".cpu") else _DIVISORS
    divisor = reference["divisor"]
    if resource in _RESOURCES and amount_of(divisor) and divisor not in allowed:
        causes.append(invalid(f"{path}.divisor", divisor, f"only divisor's values {', '.join(allowed)} are supported"))
    return causes
