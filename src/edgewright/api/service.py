"""The parts of a Service that we write (a LoadBalancer in front of one flash Pod) and read (the address that it got).

The FlashJob controller creates one for each device that is being flashed and deletes it afterwards.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from edgewright.runtime.objects import Kind, Resource, Struct


class ServicePort(Struct, frozen=True, kw_only=True):
    """A port that the Service listens on; the target is the same port unless said otherwise."""

    port: int
    name: str = ""
    protocol: str = ""
    target_port: int | str | None = None


class ServiceSpec(Struct, frozen=True, kw_only=True):
    """Which Pods stand behind the Service, and who may reach it."""

    type: str = ""
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    load_balancer_ip: str = msgspec.field(default="", name="loadBalancerIP")
    load_balancer_source_ranges: tuple[str, ...] = ()


class LoadBalancerIngress(Struct, frozen=True, kw_only=True):
    """An address at which the Service is reached from outside."""

    ip: str = ""
    hostname: str = ""


class LoadBalancerStatus(Struct, frozen=True, kw_only=True):
    """The addresses that a load balancer has given out so far."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(Struct, frozen=True, kw_only=True):
    """What the load balancer says."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class Service(Resource, frozen=True, kw_only=True):
    """One address in front of Pods."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Service", plural="services")

    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()

    @property
    def external_address(self) -> str:
        """The first address (or host name) that the load balancer gave, empty while it has given none."""
        for ingress in self.status.load_balancer.ingress:
            if ingress.ip or ingress.hostname:
                return ingress.ip or ingress.hostname
        return ""
