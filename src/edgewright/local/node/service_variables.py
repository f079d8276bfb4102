"""The variables by which a container finds Services without asking anybody, as Kubernetes gives them to each Pod.

`container_start` puts them under what a Pod declares. They are those of the Services that exist when the container is
started: of the Pod's own namespace unless it says `enableServiceLinks: false`, and always of the API server's. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgewright.local.controllers.resources import Service
from edgewright.local.node.pods import Pod

_MASTER = ("default", "kubernetes")


def service_variables(pod: Pod, services: Iterable[Service]) -> dict[str, str]:
    """The variables of the Services that a Pod is told of."""
    links = pod.spec.get("enableServiceLinks", True) is not False
    found: dict[str, str] = {}
    # The Pod's own namespace last: there may be a Service with the name of the API server's.
    for service in sorted(services, key=lambda each: (each.metadata.namespace == pod.metadata.namespace, each.key)):
        master = (service.metadata.namespace, service.metadata.name) == _MASTER
        if master or (links and service.metadata.namespace == pod.metadata.namespace):
            found |= dict(_variables(service))
    return found


def _variables(service: Service) -> Iterator[tuple[str, str]]:
    address, ports = service.spec.cluster_ip, service.spec.ports
    if address in {"", "None"} or not ports:
        return
    name = _spelled(service.metadata.name)
    host = f"[{address}]" if ":" in address else address
    first = ports[0]
    yield f"{name}_SERVICE_HOST", address
    yield f"{name}_SERVICE_PORT", str(first.port)
    for port in ports:
        if port.name:
            yield f"{name}_SERVICE_PORT_{_spelled(port.name)}", str(port.port)
    yield f"{name}_PORT", f"{first.protocol.lower()}://{host}:{first.port}"
    for port in ports:
        prefix = f"{name}_PORT_{port.port}_{port.protocol.upper()}"
        yield prefix, f"{port.protocol.lower()}://{host}:{port.port}"
        yield f"{prefix}_PROTO", port.protocol.lower()
        yield f"{prefix}_PORT", str(port.port)
        yield f"{prefix}_ADDR", address


def _spelled(name: str) -> str:
    return name.upper().replace("-", "_")
