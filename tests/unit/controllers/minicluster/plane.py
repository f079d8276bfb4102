"""An API server in this process with StatefulSets and Jobs, and somebody who plays the controllers behind them.

`FakeControllers` stands for kube-controller-manager, scheduler and kubelet: StatefulSets become ready, Jobs get a Pod
that ends as a test says, and what is deleted goes. The embedded control plane has neither kind yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from edgewright.api.capabilities import FLUX
from edgewright.api.crd import custom_resource_definitions
from edgewright.api.flux import Flux
from edgewright.api.job import Job
from edgewright.api.minicluster import MiniCluster
from edgewright.api.statefulset import StatefulSet
from edgewright.controllers.minicluster.loop import add_miniclusters
from edgewright.controllers.settings import Settings, Timing
from edgewright.local import custom
from edgewright.local.served import Served
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import AlreadyExists, Conflict, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, Kind, RawObject
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import Mortal
from tests.unit.local.serving.inprocess import serving
from tests.unit.runtime.fakeserver import running

QUICK = Settings(timing=Timing(recheck=0.2))
POD = Kind(group="", version="v1", kind="Pod", plural="pods")


@asynccontextmanager
async def plane(directory: Path) -> AsyncIterator[Config]:
    """The server, in whose namespace `default` Pods can be made; who plays the controllers may write any status."""
    async with serving(directory) as api:
        api.kinds.set_custom([*_served(), *_workloads()])
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await api.made("/api/v1/namespaces/default/serviceaccounts", account)
        yield Config(server=api.url, tls=api.tls)


@cache
def _served() -> list[Served]:
    return [served for each in custom_resource_definitions(FLUX.kinds) for served in custom.served(each)]


@cache
def _workloads() -> list[Served]:
    return [served for kind in (StatefulSet.kind, Job.kind) for served in custom.served(_definition(kind))]


def _definition(kind: Kind) -> RawObject:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
    }
    names = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural, "singular": kind.kind.lower()}
    spec = {"group": kind.group, "names": names, "scope": "Namespaced", "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": spec,
    }


@dataclass
class FakeControllers:
    """Plays the controllers of Kubernetes."""

    client: Client
    code: int | None = 0
    """How every command ends; None: it runs on."""
    reason: str = ""
    """Why Jobs fail, where it is not the exit code."""
    starting: bool = True
    """Whether workers become ready."""
    ran: list[str] = field(default_factory=list)
    """The uids of the Jobs that ran a command."""

    async def run(self) -> None:
        """Works until it is cancelled."""
        sets, jobs = Cache(self.client.of(StatefulSet)), Cache(self.client.of(Job))
        changed = asyncio.Event()

        def note(_: Change[Any]) -> None:
            changed.set()

        sets.subscribe(note)
        jobs.subscribe(note)
        async with running(sets.run()), running(jobs.run()):
            while True:
                await changed.wait()
                changed.clear()
                for each in list(sets):
                    with suppress(NotFound, Conflict):
                        await self._set(each)
                for job in list(jobs):
                    with suppress(NotFound, Conflict):
                        await self._job(job)

    async def _set(self, each: StatefulSet) -> None:
        wanted = each.spec.replicas if self.starting else 0
        status = {"observedGeneration": each.metadata.generation, "replicas": wanted, "readyReplicas": wanted}
        status["updatedReplicas"] = wanted
        shown = each.status
        now = (shown.observed_generation, shown.replicas, shown.ready_replicas, shown.updated_replicas)
        if now != tuple(status.values()):
            await self._status(StatefulSet, each.key, status, each.metadata.resource_version)

    async def _job(self, job: Job) -> None:
        if job.deleting:
            await self._delete_pods(job)
            change = {"metadata": {"finalizers": None}}
            await self.client.of(Job).patch(job.key, change, uid=job.metadata.uid)
            return
        if job.end is not None or not await self._pods(job):
            return
        if self.code is not None:
            self.ran.append(job.metadata.uid)
            condition = {"type": "Complete" if self.code == 0 else "Failed", "status": "True"}
            reason = self.reason or ("PodFailurePolicy" if job.spec.completions and self.code else "Ended")
            condition |= {"lastTransitionTime": "2026-03-01T12:00:00Z", "reason": reason, "message": "it has ended"}
            await self._status(Job, job.key, {"conditions": [condition]}, job.metadata.resource_version)

    async def _pods(self, job: Job) -> bool:
        """Makes the Pods of a Job that has some, as far as they have come; the first one runs the command."""
        body = await self.client.raw(Job.kind).get(job.key)
        template = body.get("spec", {}).get("template")
        if template is None:
            return False
        for number in range(job.spec.completions or 1):
            await self._pod(job, template, number)
        return True

    async def _pod(self, job: Job, template: RawObject, number: int) -> None:
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job.metadata.name, "uid": job.metadata.uid}
        key = Key(job.metadata.namespace, _pod_name(job, number))
        metadata = {**template["metadata"], "name": key.name, "namespace": key.namespace}
        metadata["labels"] = {**metadata["labels"], "batch.kubernetes.io/job-completion-index": str(number)}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
        with suppress(AlreadyExists):
            await self.client.raw(POD).create(
                {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
            )
        state: RawObject = {"running": {}}
        phase = "Running"
        if self.code is not None and not number:
            state, phase = {"terminated": {"exitCode": self.code}}, "Failed" if self.code else "Succeeded"
        name = template["spec"]["containers"][0]["name"]
        container = {"name": name, "state": state, "ready": False, "restartCount": 0, "image": "x", "imageID": ""}
        pod = await self.client.raw(POD).get(key)
        if pod["status"].get("phase") != phase:
            ready = {"type": "Ready", "status": str(phase == "Running")}
            status = {"phase": phase, "containerStatuses": [container], "conditions": [ready]}
            await self.client.raw(POD).patch(
                key, {"status": status}, resource_version=pod["metadata"]["resourceVersion"], subresource="status"
            )

    async def _delete_pods(self, job: Job) -> None:
        for number in range(job.spec.completions or 1):
            with suppress(NotFound):
                key = Key(job.metadata.namespace, _pod_name(job, number))
                await self.client.raw(POD).delete(key, grace_seconds=0)

    async def _status(self, kind: type[Any], key: Key, status: RawObject, version: str) -> None:
        await self.client.of(kind).patch(key, {"status": status}, resource_version=version, subresource="status")


def _pod_name(job: Job, number: int) -> str:
    return f"{job.metadata.name}-{number}-{job.metadata.uid[:5]}"


@asynccontextmanager
async def operating(config: Config, *, at: int = 0) -> AsyncIterator[Mortal]:
    """An operator with fresh caches next to the block; it dies after its write number `at`, where there is one."""
    manager = Manager(Client(config))
    mortal = Mortal(manager.client, at=at, after=True)
    add_miniclusters(manager, QUICK, SystemClock())
    async with running(manager.run()):
        yield mortal


class Site:
    """A server with somebody who plays the controllers, and a client for the test."""

    def __init__(self, config: Config, client: Client, controllers: FakeControllers) -> None:
        self.config = config
        self.client = client
        self.controllers = controllers

    async def flux(self, name: str = "one") -> Flux:
        """A Flux as it is."""
        return await self.client.of(Flux).get(Key("default", name))

    async def add(self, name: str = "one", **spec: Any) -> Flux:
        """Makes a Flux."""
        body = {"apiVersion": Flux.kind.api_version, "kind": "Flux", "metadata": {"name": name, "namespace": "default"}}
        await self.client.raw(Flux.kind).create({**body, "spec": {"command": "sleep 2", **spec}})
        return await self.flux(name)

    async def minicluster(self, name: str = "one") -> MiniCluster:
        """A MiniCluster as it is."""
        return await self.client.of(MiniCluster).get(Key("default", name))

    async def add_minicluster(self, name: str = "one", **spec: Any) -> MiniCluster:
        """Makes a MiniCluster."""
        body = {"size": 2, "containers": [{"image": "x", "command": "true"}], **spec}
        await self.put(MiniCluster.kind, {"metadata": {"name": name}, "spec": body})
        return await self.minicluster(name)

    async def until_minicluster(
        self, holds: Callable[[MiniCluster], object], name: str = "one", *, what: str
    ) -> MiniCluster:
        """The MiniCluster once the condition holds."""

        async def reached() -> MiniCluster | None:
            found = await self.minicluster(name)
            return found if holds(found) else None

        return await wait_until_async(reached, what=what)

    async def until(self, holds: Callable[[Flux], object], name: str = "one", *, what: str) -> Flux:
        """The Flux once the condition holds."""

        async def reached() -> Flux | None:
            found = await self.flux(name)
            return found if holds(found) else None

        return await wait_until_async(reached, what=what)

    async def put(self, kind: Kind, body: RawObject) -> RawObject:
        """Makes any object."""
        metadata = {"namespace": "default", **body.get("metadata", {})}
        return await self.client.raw(kind).create(
            {"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": metadata}
        )


@asynccontextmanager
async def site(directory: Path, **settings: Any) -> AsyncIterator[Site]:
    """All of it, without an operator."""
    async with plane(directory) as config, Client(config) as client:
        controllers = FakeControllers(client, **settings)
        async with running(controllers.run()):
            yield Site(config, client, controllers)
