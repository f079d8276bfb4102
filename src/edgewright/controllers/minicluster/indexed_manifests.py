"""The objects of an indexed mini-cluster, as plain JSON: ConfigMap, shared Service, Job, and the Pod of its services.

`indexed_decisions` compares them with what is there. All but the Service have a controlling owner; the Service belongs
to each mini-cluster that uses it, and goes with the last. The certificate is in none of these. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from edgewright.api.minicluster_container import ContainerVolume, MiniClusterContainer
from edgewright.controllers.minicluster.entrypoints import CERTIFICATE, FILES, SOFTWARE, STOPPED, scripts
from edgewright.controllers.minicluster.model import IndexedCluster
from edgewright.controllers.minicluster.objects import CLUSTER, FIRST_SIZE, ROLE, SHARED, labels_of, object_of
from edgewright.runtime.objects import OwnerReference, RawObject

BROKER: Final = "broker"
"""The role of the Pods that run Flux."""
SERVICES: Final = "services"
"""The role of the Pod of the services."""
INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""The label, and the annotation, with the number of a Pod in its Job."""

_SCRIPTS_VOLUME: Final = "flux-operator-scripts"
_CERTIFICATE_VOLUME: Final = "flux-operator-certificate"
_VIEW_VOLUME: Final = "flux-operator-view"
_SOFTWARE_VOLUME: Final = "flux-operator-software"
_MUNGE_VOLUME: Final = "flux-operator-munge"
_GRACE: Final = 30


def config_map(cluster: IndexedCluster, owner: OwnerReference) -> RawObject:
    """The scripts that start containers, and what brokers read."""
    return object_of(cluster, owner, "v1", "ConfigMap", cluster.config) | {"data": scripts(cluster)}


def headless_service(cluster: IndexedCluster, owner: OwnerReference) -> RawObject:
    """Gives each Pod a name, as soon as it has an address; other mini-clusters of the namespace may use it, too."""
    body = object_of(cluster, _shared(owner), "v1", "Service", cluster.service)
    body["metadata"]["labels"] = {
        "app.kubernetes.io/name": "flux",
        "app.kubernetes.io/managed-by": "edgewright",
        CLUSTER: "",
        SHARED: cluster.service,
    }
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector(cluster)}
    return body | {"spec": spec}


def selector(cluster: IndexedCluster) -> dict[str, str]:
    """The Pods that the Service names."""
    if cluster.spec.flux.minimal_service:
        return {CLUSTER: cluster.name, INDEX: "0"}
    return {SHARED: cluster.service}


def join(owner: OwnerReference) -> list[RawObject]:
    """The change by which a mini-cluster becomes an owner of the Service, whoever else does at the same time."""
    return [{"op": "add", "path": "/metadata/ownerReferences/-", "value": msgspec.to_builtins(_shared(owner))}]


def _shared(owner: OwnerReference) -> OwnerReference:
    """One owner of several: an object has one controller at most."""
    return msgspec.structs.replace(owner, controller=None)


def job(cluster: IndexedCluster, owner: OwnerReference) -> RawObject:
    """The Job: one Pod per broker, of which the first runs the command and decides how the Job ends."""
    spec = cluster.spec
    body = object_of(cluster, owner, "batch/v1", "Job", cluster.job, digest=cluster.digest)
    body["metadata"]["labels"] = {**spec.job_labels, **body["metadata"]["labels"]}
    body["metadata"]["annotations"][FIRST_SIZE] = str(cluster.first_size)
    retried = spec.pod.restart_policy == "OnFailure"
    policy = {} if retried else {"podFailurePolicy": {"rules": _failures(cluster)}}
    return body | {
        "spec": {
            "completionMode": "Indexed",
            "completions": cluster.pods,
            "parallelism": cluster.pods,
            "backoffLimit": spec.backoff_limit,
            "activeDeadlineSeconds": spec.deadline_seconds,
            # Workers that hang do not hold the end back.
            "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
            **policy,
            "template": _template(cluster),
        }
    }


def scaled(cluster: IndexedCluster) -> RawObject:
    """What of the Job's spec changes while it runs."""
    return {
        "completions": cluster.pods,
        "parallelism": cluster.pods,
        "activeDeadlineSeconds": cluster.spec.deadline_seconds,
    }


def services_pod(cluster: IndexedCluster, owner: OwnerReference) -> RawObject:
    """The Pod of the services."""
    body = object_of(cluster, owner, "v1", "Pod", cluster.services_pod, digest=cluster.digest)
    own = {**body["metadata"]["labels"], ROLE: SERVICES, SHARED: cluster.service}
    body["metadata"]["labels"] = {**cluster.spec.pod.labels, **own}
    body["metadata"]["annotations"] = {**cluster.spec.pod.annotations, **body["metadata"]["annotations"]}
    containers = []
    for number, each in enumerate(cluster.spec.services):
        wrapped = each.command.strip() and not each.no_wrap_entrypoint
        container = _container(each, each.name, f"{FILES}/service-{number}.sh" if wrapped else "")
        container["volumeMounts"] = [_scripts_mount(), *_mounts(each)]
        containers.append(container)
    return body | {
        "spec": {
            "hostname": cluster.services_pod,
            "subdomain": cluster.service,
            "restartPolicy": "Always",
            **_of_all_pods(cluster, _node_affinity(cluster)),
            **_pull_secrets(cluster.spec.services),
            "containers": containers,
            "volumes": [_scripts_volume(cluster), *_volumes(cluster.spec.services)],
        }
    }


def runner_name(cluster: IndexedCluster) -> str:
    """The container that runs Flux, whose exit code counts in the lead's Pod."""
    return cluster.runner[1].name or cluster.name


def _failures(cluster: IndexedCluster) -> list[RawObject]:
    """A Pod that its node lost comes back; one whose broker or command fails ends the Job, which runs once."""
    own = [runner_name(cluster)]
    if not cluster.spec.flux.container.disable:
        own.append(cluster.spec.flux.container.name)
    fatal = [
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": name, "operator": "NotIn", "values": [0, STOPPED]},
        }
        for name in own
    ]
    lost = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return [lost, *fatal]


def _template(cluster: IndexedCluster) -> dict[str, Any]:
    spec, pod, flux = cluster.spec, cluster.spec.pod, cluster.spec.flux
    labels = {
        **pod.labels,
        **labels_of(cluster, BROKER),
        "app": "flux-operator",
        "app.kubernetes.io/name": cluster.name,
        "hpa-selector": cluster.name,
        SHARED: cluster.service,
    }
    number, runner = cluster.runner
    containers = []
    for at, each in enumerate(spec.containers):
        if at == number:
            containers.append(_runner(cluster, runner, number))
            continue
        wrapped = each.shell and not each.no_wrap_entrypoint
        container = _container(each, each.name, f"{FILES}/start-{at}.sh" if wrapped else "")
        container["volumeMounts"] = [_scripts_mount(), *_flux_mounts(cluster), *_mounts(each)]
        containers.append(container)
    given = {
        "shareProcessNamespace": spec.share_process_namespace,
        "resources": {"limits": pod.resources, "requests": pod.resources} if pod.resources else {},
        "initContainers": [] if flux.container.disable else [_view(cluster)],
    }
    return {
        "metadata": {"labels": labels, "annotations": pod.annotations},
        "spec": {
            "subdomain": cluster.service,
            "restartPolicy": pod.restart_policy or "Never",
            "terminationGracePeriodSeconds": _GRACE,
            **_of_all_pods(cluster, {**_node_affinity(cluster), **_apart(cluster)}),
            **_pull_secrets(spec.containers, flux.container.image_pull_secret),
            **{name: value for name, value in given.items() if value},
            "containers": containers,
            "volumes": [
                _scripts_volume(cluster),
                {"name": _CERTIFICATE_VOLUME, "secret": {"secretName": cluster.secret}},
                {"name": _VIEW_VOLUME, "emptyDir": {}},
                *([] if flux.container.disable else [{"name": _SOFTWARE_VOLUME, "emptyDir": {}}]),
                *([{"name": _MUNGE_VOLUME, "secret": {"secretName": flux.munge_secret}}] if flux.munge_secret else []),
                *_volumes(spec.containers),
            ],
        },
    }


def _runner(cluster: IndexedCluster, runner: MiniClusterContainer, number: int) -> RawObject:
    container = _container(runner, runner_name(cluster), f"{FILES}/wait-{number}.sh")
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    variables = [{"name": name, "value": value} for name, value in cluster.spec.flux.environment.items()]
    container["env"] = [address, *variables, *container.get("env", ())]
    munge = {"name": _MUNGE_VOLUME, "mountPath": "/etc/munge/munge.key", "subPath": "munge.key", "readOnly": True}
    container["volumeMounts"] = [
        _scripts_mount(),
        {"name": _CERTIFICATE_VOLUME, "mountPath": CERTIFICATE, "readOnly": True},
        *([munge] if cluster.spec.flux.munge_secret else []),
        *_flux_mounts(cluster),
        *_mounts(runner),
    ]
    return container


def _view(cluster: IndexedCluster) -> RawObject:
    flux = cluster.spec.flux.container
    return {
        "name": flux.name,
        "image": flux.image,
        "imagePullPolicy": "Always" if flux.pull_always else "IfNotPresent",
        "command": ["/bin/sh", f"{FILES}/flux-init.sh"],
        **({"workingDir": flux.working_dir} if flux.working_dir else {}),
        **({"resources": flux.resources.to_raw()} if flux.resources.to_raw() else {}),
        "volumeMounts": [
            _scripts_mount(),
            {"name": _VIEW_VOLUME, "mountPath": flux.mount_path},
            {"name": _SOFTWARE_VOLUME, "mountPath": SOFTWARE},
        ],
    }


def _container(each: MiniClusterContainer, name: str, script: str) -> RawObject:
    """What every container has; one without a script runs its command as it is, or what its image says."""
    if script:
        # People write for bash; an image that has none gets along with sh.
        command = ["/bin/sh", "-c", f'exec "$(command -v bash || command -v sh)" {script}']
    else:
        command = ["/bin/sh", "-c", each.shell] if each.shell else []
    secrets = [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}
        for variable, secret in each.secrets.items()
    ]
    environment: list[RawObject] = [{"name": key, "value": value} for key, value in each.environment.items()]
    security = each.security_context
    capabilities = {"capabilities": {"add": list(security.add_capabilities)}} if security.add_capabilities else {}
    hooks = {"postStart": each.life_cycle.post_start_exec, "preStop": each.life_cycle.pre_stop_exec}
    given = {
        "command": command,
        "workingDir": each.working_dir,
        "env": [*environment, *secrets],
        "ports": [{"containerPort": port, "protocol": "TCP"} for port in each.ports],
        "resources": each.resources.to_raw(),
        "securityContext": ({"privileged": True} if security.privileged else {}) | capabilities,
        "lifecycle": {hook: {"exec": {"command": ["/bin/sh", "-c", text]}} for hook, text in hooks.items() if text},
    }
    return {
        "name": name,
        "image": each.image,
        "imagePullPolicy": "Always" if each.pull_always else "IfNotPresent",
        **{field: value for field, value in given.items() if value},
    }


def _of_all_pods(cluster: IndexedCluster, affinity: RawObject) -> RawObject:
    """What brokers' Pods and that of the services have: as whom they run, and where."""
    pod = cluster.spec.pod
    given = {
        "serviceAccountName": pod.service_account_name,
        "schedulerName": pod.scheduler_name,
        "nodeSelector": pod.node_selector,
        "tolerations": [each.to_raw() for each in pod.tolerations],
        "dnsPolicy": pod.dns_policy,
        "hostIPC": pod.host_ipc,
        "hostPID": pod.host_pid,
        "affinity": affinity,
    }
    return {
        "automountServiceAccountToken": bool(pod.service_account_name),
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, **pod.security_context.to_raw()},
        **{name: value for name, value in given.items() if value},
    }


def _node_affinity(cluster: IndexedCluster) -> RawObject:
    """What people say of nodes."""
    return {"nodeAffinity": cluster.spec.pod.node_affinity} if cluster.spec.pod.node_affinity else {}


def _apart(cluster: IndexedCluster) -> RawObject:
    """One Pod per node where there are enough nodes."""
    if cluster.spec.network.disable_affinity:
        return {}
    term = {"labelSelector": {"matchLabels": {CLUSTER: cluster.name}}, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _pull_secrets(containers: Iterable[MiniClusterContainer], *more: str) -> RawObject:
    names = dict.fromkeys((*(each.image_pull_secret for each in containers), *more))
    found = [{"name": name} for name in names if name]
    return {"imagePullSecrets": found} if found else {}


def _scripts_mount() -> RawObject:
    return {"name": _SCRIPTS_VOLUME, "mountPath": FILES, "readOnly": True}


def _scripts_volume(cluster: IndexedCluster) -> RawObject:
    return {"name": _SCRIPTS_VOLUME, "configMap": {"name": cluster.config}}


def _flux_mounts(cluster: IndexedCluster) -> list[RawObject]:
    view = {"name": _VIEW_VOLUME, "mountPath": cluster.spec.flux.container.mount_path}
    software = {"name": _SOFTWARE_VOLUME, "mountPath": "/opt/software"}
    return [view] if cluster.spec.flux.container.disable else [view, software]


def _mounts(container: MiniClusterContainer) -> list[RawObject]:
    return [
        {"name": name, "mountPath": volume.path, **({"readOnly": True} if volume.read_only else {})}
        for name, volume in container.volumes.items()
    ]


def _volumes(containers: Iterable[MiniClusterContainer]) -> list[RawObject]:
    """The volumes of all containers, each once: a name means the same in all of them."""
    named = {name: volume for container in containers for name, volume in container.volumes.items()}
    return [{"name": name, **_source(volume)} for name, volume in named.items()]


def _source(volume: ContainerVolume) -> RawObject:
    items = [{"key": key, "path": path} for key, path in volume.items.items()]
    kept = {"items": items} if items else {}
    if volume.secret_name:
        return {"secret": {"secretName": volume.secret_name, **kept}}
    if volume.config_map_name:
        return {"configMap": {"name": volume.config_map_name, **kept}}
    if volume.claim_name:
        return {"persistentVolumeClaim": {"claimName": volume.claim_name, "readOnly": volume.read_only}}
    if volume.host_path:
        return {"hostPath": {"path": volume.host_path}}
    medium = {"medium": volume.empty_dir_medium} if volume.empty_dir_medium else {}
    limit = {"sizeLimit": volume.empty_dir_size_limit} if volume.empty_dir_size_limit else {}
    return {"emptyDir": medium | limit}
