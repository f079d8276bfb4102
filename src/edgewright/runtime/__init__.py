"""Kubernetes machinery with no knowledge of devices, one module per concept, in the order of the data flow.

config → client → reflector → cache → queue → controller → (reconcile) → client, put together by the manager, fenced
by the lease. Everything public is re-exported here.
"""

from typing import TYPE_CHECKING

from edgewright.runtime.lazy import fetching

if TYPE_CHECKING:
    from edgewright.runtime.cache import Cache, Change
    from edgewright.runtime.client import Api, Client, Page, RawApi
    from edgewright.runtime.clock import Clock, SystemClock, VirtualClock
    from edgewright.runtime.config import Config, ConfigError
    from edgewright.runtime.controller import DONE, Controller, For, Maps, Owns, Result, requeue_after
    from edgewright.runtime.events import Event, Recorder
    from edgewright.runtime.lease import Leadership, Lease
    from edgewright.runtime.manager import LeaseSettings, Manager
    from edgewright.runtime.metrics import Metrics
    from edgewright.runtime.objects import Condition, Key, Kind, ObjectMeta, OwnerReference, RawObject, Resource, Struct
    from edgewright.runtime.queue import Priority, Queue
else:
    # What a process does not use, it does not import: a flasher is a process for every device.
    __getattr__ = fetching(
        __name__,
        {
            "edgewright.runtime.cache": ("Cache", "Change"),
            "edgewright.runtime.client": ("Api", "Client", "Page", "RawApi"),
            "edgewright.runtime.clock": ("Clock", "SystemClock", "VirtualClock"),
            "edgewright.runtime.config": ("Config", "ConfigError"),
            "edgewright.runtime.controller": ("DONE", "Controller", "For", "Maps", "Owns", "Result", "requeue_after"),
            "edgewright.runtime.events": ("Event", "Recorder"),
            "edgewright.runtime.lease": ("Leadership", "Lease"),
            "edgewright.runtime.manager": ("LeaseSettings", "Manager"),
            "edgewright.runtime.metrics": ("Metrics",),
            "edgewright.runtime.objects": (
                "Condition",
                "Key",
                "Kind",
                "ObjectMeta",
                "OwnerReference",
                "RawObject",
                "Resource",
                "Struct",
            ),
            "edgewright.runtime.queue": ("Priority", "Queue"),
        },
    )

__all__ = [
    "DONE",
    "Api",
    "Cache",
    "Change",
    "Client",
    "Clock",
    "Condition",
    "Config",
    "ConfigError",
    "Controller",
    "Event",
    "For",
    "Key",
    "Kind",
    "Leadership",
    "Lease",
    "LeaseSettings",
    "Manager",
    "Maps",
    "Metrics",
    "ObjectMeta",
    "OwnerReference",
    "Owns",
    "Page",
    "Priority",
    "Queue",
    "RawApi",
    "RawObject",
    "Recorder",
    "Resource",
    "Result",
    "Struct",
    "SystemClock",
    "VirtualClock",
    "requeue_after",
]
