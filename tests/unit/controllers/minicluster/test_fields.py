"""No field of a MiniCluster is silently ignored: each, given another value, changes something that is made."""

from __future__ import annotations

import copy
import dataclasses
import typing
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from edgewright.api.minicluster import MiniClusterSpec
from edgewright.api.minicluster_container import MiniClusterContainer
from edgewright.controllers.minicluster import curve
from edgewright.controllers.minicluster import indexed_manifests as manifests
from tests.unit.controllers.minicluster.test_indexed import OWNER, cluster

BASE: dict[str, Any] = {
    "size": 2,
    "maxSize": 4,
    "tasks": 2,
    "containers": [
        {"name": "main", "image": "x", "runFlux": True, "command": "true"},
        {"name": "side", "image": "y", "command": "true"},
    ],
    "services": [{"name": "web", "image": "z", "command": "true"}],
}
CERTIFICATE = curve.generated("one", datetime(2026, 11, 18, tzinfo=UTC))
CONTAINER: dict[str, Any] = {
    "name": "other",
    "image": "other",
    "imagePullSecret": "other",
    "pullAlways": True,
    "workingDir": "/other",
    "command": "other",
    "commands.prefix": "other",
    "commands.script": "other",
    "commands.init": "other",
    "commands.pre": "other",
    "commands.post": "other",
    "commands.workerPre": "other",
    "commands.brokerPre": "other",
    "commands.servicePre": "other",
    "launcher": True,
    "batch": True,
    "batchRaw": True,
    "logs": "/other",
    "noWrapEntrypoint": True,
    "ports": [80],
    "environment": {"A": "b"},
    "secrets": {"A": {"name": "b", "key": "c"}},
    "volumes": {"a": {"path": "/a", "emptyDir": True}},
    "resources.limits": {"cpu": 1},
    "resources.requests": {"cpu": 1},
    "lifeCycle.postStartExec": "other",
    "lifeCycle.preStopExec": "other",
    "securityContext.privileged": True,
    "securityContext.addCapabilities": ["SYS_PTRACE"],
}
SPEC: dict[str, Any] = {
    "size": 3,
    "maxSize": 5,
    "minSize": 1,
    "tasks": 3,
    "deadlineSeconds": 60,
    "interactive": True,
    "jobLabels": {"a": "b"},
    "backoffLimit": 3,
    "shareProcessNamespace": True,
    "logging.quiet": True,
    "logging.strict": True,
    "logging.debug": True,
    "logging.zeromq": True,
    "logging.timed": True,
    "pod.annotations": {"a": "b"},
    "pod.labels": {"a": "b"},
    "pod.restartPolicy": "OnFailure",
    "pod.serviceAccountName": "other",
    "pod.schedulerName": "other",
    "pod.nodeSelector": {"a": "b"},
    "pod.nodeAffinity": {"a": "b"},
    "pod.tolerations": [{"operator": "Exists"}],
    "pod.dnsPolicy": "None",
    "pod.hostIPC": True,
    "pod.hostPID": True,
    "pod.resources": {"cpu": 1},
    "pod.securityContext.runAsUser": 7,
    "pod.securityContext.runAsGroup": 7,
    "pod.securityContext.runAsNonRoot": True,
    "pod.securityContext.fsGroup": 7,
    "network.headlessName": "other",
    "network.disableAffinity": True,
    "flux.container.disable": True,
    "flux.container.name": "other",
    "flux.container.image": "other",
    "flux.container.imagePullSecret": "other",
    "flux.container.pullAlways": True,
    "flux.container.workingDir": "/other",
    "flux.container.mountPath": "/other",
    "flux.container.pythonPath": "/other",
    "flux.container.resources.limits": {"cpu": 1},
    "flux.container.resources.requests": {"cpu": 1},
    "flux.submitCommand": "other",
    "flux.optionFlags": "other",
    "flux.wrap": "other",
    "flux.connectTimeout": "7s",
    "flux.topology": "kary:2",
    "flux.minimalService": True,
    "flux.noWaitSocket": True,
    "flux.disableSocket": True,
    "flux.completeWorkers": True,
    "flux.logLevel": 7,
    "flux.curveCert": CERTIFICATE,
    "flux.brokerConfig": "[bootstrap]\n",
    "flux.mungeSecret": "other",
    "flux.scheduler.queuePolicy": "easy",
    "flux.scheduler.simple": True,
    "flux.environment": {"A": "b"},
}
ELSEWHERE = {"cleanup", "containers", "services", "runFlux"}
"""Cleanup is a decision with tests of its own; lists are gone into; a rule of the schema checks who runs Flux."""
OF_THE_RUNNER = {"commands.prefix", "commands.workerPre", "commands.brokerPre", "launcher", "batch", "batchRaw", "logs"}
NOTHING_THERE = {
    "runner": {"commands.servicePre", "noWrapEntrypoint"},
    "neighbour": {*OF_THE_RUNNER, "commands.servicePre"},
    # What a service cannot have of the commands is refused by a rule of the schema.
    "service": {*OF_THE_RUNNER, *(f"commands.{name}" for name in ("script", "init", "pre", "post"))},
}
"""What means nothing in a container of this role, as with the published operator; docs/flux-miniclusters.md says it."""


def leaves(struct: type[msgspec.Struct], before: str = "") -> Iterator[str]:
    """The path of every field, as it is written."""
    for field in msgspec.structs.fields(struct):
        kind = field.type
        while typing.get_origin(kind) is typing.Annotated:
            kind = typing.get_args(kind)[0]
        path = f"{before}{field.encode_name}"
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from leaves(kind, f"{path}.")
        elif path not in ELSEWHERE:
            yield path


def placed(into: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for each in parents:
        into = into.setdefault(each, {})
    into[last] = value


def made(spec: dict[str, Any]) -> Any:
    """All that is made of a spec, without the mark that follows every change of it."""
    found = dataclasses.replace(cluster(**spec), digest="same")
    parts = (manifests.job, manifests.services_pod, manifests.headless_service, manifests.config_map)
    return [part(found, OWNER) for part in parts], found.certificate


def test_every_field_is_in_the_tables() -> None:
    assert set(leaves(MiniClusterSpec)) == set(SPEC)
    assert set(leaves(MiniClusterContainer)) == set(CONTAINER)


@pytest.mark.parametrize("path", SPEC)
def test_no_field_is_silently_ignored(path: str) -> None:
    changed = copy.deepcopy(BASE)
    placed(changed, path, SPEC[path])
    assert made(changed) != made(BASE)


@pytest.mark.parametrize(
    ("role", "path"),
    [(role, path) for role, nothing in NOTHING_THERE.items() for path in CONTAINER if path not in nothing],
)
def test_no_field_of_a_container_is_silently_ignored(role: str, path: str) -> None:
    base = copy.deepcopy(BASE)
    which = {"runner": base["containers"][0], "neighbour": base["containers"][1], "service": base["services"][0]}[role]
    if path == "commands.script":
        del which["command"]
    if path == "batchRaw":
        which["batch"] = True
    before = made(base)
    placed(which, path, CONTAINER[path])
    assert made(base) != before


def test_the_pod_of_the_services_is_placed_and_marked_as_all_pods_are() -> None:
    pod = {path.removeprefix("pod."): value for path, value in SPEC.items() if path.startswith("pod.")}
    given: dict[str, Any] = {}
    for path, value in pod.items():
        placed(given, path, value)
    found = manifests.services_pod(cluster(**BASE, pod=given), OWNER)
    assert (found["metadata"]["labels"]["a"], found["metadata"]["annotations"]["a"]) == ("b", "b")
    spec = found["spec"]
    assert {name: spec[name] for name in ("serviceAccountName", "schedulerName", "nodeSelector", "tolerations")} == {
        name: pod[name] for name in ("serviceAccountName", "schedulerName", "nodeSelector", "tolerations")
    }
    assert (spec["dnsPolicy"], spec["hostIPC"], spec["hostPID"]) == ("None", True, True)
    assert spec["affinity"] == {"nodeAffinity": {"a": "b"}}
    assert spec["securityContext"]["runAsUser"] == 7
    assert spec["automountServiceAccountToken"]
    assert spec["restartPolicy"] == "Always"
