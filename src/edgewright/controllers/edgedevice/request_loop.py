"""Makes the EdgeDevice of each EdgeDeviceSignedRequest that was approved, once, and shows where the request stands."""

from __future__ import annotations

from edgewright.api.edgedevice import FINALIZERS, MEMBER_OF, SIGNED_REQUEST, EdgeDevice, EdgeDeviceSpec
from edgewright.api.edgedevicesignedrequest import (
    ADMITTED,
    REGISTRATION,
    EdgeDeviceSignedRequest,
    EdgeDeviceSignedRequestStatus,
    RequestCondition,
)
from edgewright.controllers.ledger import Ledger
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.controller import DONE, For, Result
from edgewright.runtime.errors import AlreadyExists, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, ObjectMeta

_log = logs.get("controllers.edgedevice")


class SignedRequests:
    """The loop over EdgeDeviceSignedRequests."""

    def __init__(self, manager: Manager, clock: Clock) -> None:
        self._clock = clock
        self._devices = manager.client.of(EdgeDevice)
        self._api = manager.client.of(EdgeDeviceSignedRequest)
        self._requests = Ledger(manager.cache(EdgeDeviceSignedRequest))

    def add(self, manager: Manager) -> None:
        """Adds the loop to a manager."""
        manager.controller("edgedevicesignedrequest", self.reconcile, For(self._requests.cache))

    async def reconcile(self, key: Key) -> Result:
        """One pass for a request."""
        request = self._requests.get(key)
        if request is None or request.deleting:
            return DONE
        problem = ""
        if request.spec.approved and not request.spec.denied and ADMITTED not in request.metadata.annotations:
            problem = await self._admit(request)
            if not problem:
                patch = {"metadata": {"annotations": {ADMITTED: request.spec.target_namespace}}}
                version = request.metadata.resource_version
                request = self._requests.wrote(await self._api.patch(key, patch, resource_version=version))
        status = status_of(request, problem)
        if status != request.status:
            self._requests.wrote(await self._api.write_status(request, status))
        return DONE

    async def _admit(self, request: EdgeDeviceSignedRequest) -> str:
        """Makes its EdgeDevice; a sentence where that is not possible."""
        labels = {SIGNED_REQUEST: "true"}
        if request.spec.target_set:
            labels[MEMBER_OF] = request.spec.target_set
        came_with = request.metadata.annotations.get(REGISTRATION, "")
        device = EdgeDevice(
            metadata=ObjectMeta(
                name=request.metadata.name,
                namespace=request.spec.target_namespace,
                labels=labels,
                annotations={REGISTRATION: came_with} if came_with else {},
                finalizers=FINALIZERS,
            ),
            spec=EdgeDeviceSpec(request_time=self._clock.now().replace(microsecond=0)),
        )
        try:
            await self._devices.create(device)
        except AlreadyExists:
            return ""
        except NotFound:
            return f"spec.targetNamespace: there is no namespace {request.spec.target_namespace}"
        _log.info("device approved", device=str(device.key))
        return ""


def status_of(request: EdgeDeviceSignedRequest, problem: str = "") -> EdgeDeviceSignedRequestStatus:
    """What the request says of itself, in the published form."""
    problem = problem or (request.spec.reason or "denied" if request.spec.denied else "")
    phase = "declined" if problem else "approved" if request.spec.approved else "pending"
    conditions = tuple(
        RequestCondition(
            type=each, status="true" if each == phase else "false", message=problem if each == phase else ""
        )
        for each in ("pending", "approved", "declined")
    )
    return EdgeDeviceSignedRequestStatus(phase=phase, conditions=conditions)
