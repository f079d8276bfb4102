"""The objects of a launched mini-cluster, as plain JSON: ConfigMap, Services, workers and launcher.

`launched_decisions` compares them with what is there. Every object has the cluster's label, by which the caches find
it, and a controlling owner, with which it goes. The certificate is in none of these: `certificate_secret` creates its
Secret. Pure.
"""

from __future__ import annotations

from typing import Any, Final

from edgewright.controllers.minicluster import broker, curve
from edgewright.controllers.minicluster.model import LaunchedCluster, digest_of
from edgewright.controllers.minicluster.objects import CLUSTER, DIGEST, ROLE, labels_of, object_of
from edgewright.runtime.objects import OwnerReference, RawObject

CONTAINER: Final = "flux"
"""The container whose exit code counts."""
NODE_PORTS: Final = range(30_000, 32_768)

_FILES: Final = "/flux_operator"
_CERTIFICATE: Final = "/flux_operator_certificate"
_MOUNT: Final = "/mnt/flux"
_PAUSE: Final = 2

# A broker refuses a certificate that others may read, and binds to no name: both are known in the Pod only.
_CONFIGURE: Final = f"""\
umask 077
mkdir -p {broker.CONFIG_PATH}
cp {_CERTIFICATE}/{curve.FILE_NAME} {broker.CONFIG_PATH}/{curve.FILE_NAME}
chmod 600 {broker.CONFIG_PATH}/{curve.FILE_NAME}
sed "s/{broker.POD_IP}/$POD_IP/" {_FILES}/{broker.FILE_NAME} > {broker.CONFIG_PATH}/{broker.FILE_NAME}
"""
START: Final = ("flux", "start", "-o", f"--config-path={broker.CONFIG_PATH}")
"""How every broker is started; the launcher's is followed by the command."""
# A broker ends with the launcher, or when it does not find it: it is there again for the next one.
_WORK: Final = f"""\
trap 'kill $broker 2>/dev/null; wait $broker; exit 0' TERM INT
while :; do
  {" ".join(START)} &
  broker=$!
  wait $broker
  sleep {_PAUSE} &
  broker=$!
  wait $broker
done
"""


def config_map(cluster: LaunchedCluster, owner: OwnerReference) -> RawObject:
    """Hostfile and broker configuration."""
    body = object_of(cluster, owner, "v1", "ConfigMap", cluster.config)
    return body | {"data": {"hostfile": cluster.hostfile, broker.FILE_NAME: cluster.broker}}


def headless_service(cluster: LaunchedCluster, owner: OwnerReference) -> RawObject:
    """Gives each broker a name, as soon as it has an address: waiting until it is ready would delay the quorum."""
    body = object_of(cluster, owner, "v1", "Service", cluster.service)
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {CLUSTER: cluster.name}}
    return body | {"spec": spec}


def page_service(cluster: LaunchedCluster, owner: OwnerReference) -> RawObject:
    """Makes the port of the command reachable on every node."""
    port: RawObject = {"name": "http", "port": cluster.port, "targetPort": cluster.port, "protocol": "TCP"}
    if cluster.port in NODE_PORTS:
        port["nodePort"] = cluster.port
    spec = {"type": "NodePort", "selector": {CLUSTER: cluster.name, ROLE: "launcher"}, "ports": [port]}
    body = object_of(cluster, owner, "v1", "Service", cluster.name, digest=digest_of(spec))
    return body | {"spec": spec}


def workers(cluster: LaunchedCluster, owner: OwnerReference) -> RawObject:
    """The workers, with names that stay."""
    body = object_of(cluster, owner, "apps/v1", "StatefulSet", cluster.name, digest=cluster.workers_digest)
    container = {"command": ["/bin/sh", "-c", _WORK]}
    template = _template(cluster, "worker", container)
    template["metadata"]["annotations"] = {DIGEST: cluster.workers_digest}
    return body | {
        "spec": {
            "replicas": cluster.size,
            "serviceName": cluster.service,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {CLUSTER: cluster.name, ROLE: "worker"}},
            "template": template,
        }
    }


def launcher(cluster: LaunchedCluster, owner: OwnerReference) -> RawObject:
    """The launcher, which is rank 0 and runs the command once."""
    body = object_of(cluster, owner, "batch/v1", "Job", cluster.launcher, digest=cluster.digest)
    container: RawObject = {"command": [*START, *map(_literal, cluster.command)]}
    if cluster.port is not None:
        container["ports"] = [{"name": "http", "containerPort": cluster.port}]
        container["readinessProbe"] = {"tcpSocket": {"port": cluster.port}, "periodSeconds": 2}
    template = _template(cluster, "launcher", container)
    template["spec"] |= {"restartPolicy": "Never", "hostname": cluster.launcher, "subdomain": cluster.service}
    return body | {"spec": {"backoffLimit": 0, "template": template}}


def _template(cluster: LaunchedCluster, role: str, container: RawObject) -> dict[str, Any]:
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    own = {"name": "config", "mountPath": _MOUNT}
    return {
        "metadata": {"labels": labels_of(cluster, role) | ({"app": "flux-workers"} if role == "worker" else {})},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 10,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "initContainers": [
                {
                    "name": "configure",
                    "image": cluster.image,
                    "command": ["/bin/sh", "-ec", _CONFIGURE],
                    "env": [address],
                    "volumeMounts": [
                        own,
                        {"name": "files", "mountPath": _FILES, "readOnly": True},
                        {"name": "certificate", "mountPath": _CERTIFICATE, "readOnly": True},
                    ],
                }
            ],
            "containers": [
                {
                    "name": CONTAINER,
                    "image": cluster.image,
                    "env": [address, *(_variables(cluster) if role == "launcher" else ())],
                    "volumeMounts": [own],
                    **container,
                }
            ],
            "volumes": [
                {"name": "config", "emptyDir": {}},
                {"name": "files", "configMap": {"name": cluster.config}},
                {"name": "certificate", "secret": {"secretName": cluster.secret}},
            ],
        },
    }


def _variables(cluster: LaunchedCluster) -> list[RawObject]:
    values = {"PORT": "" if cluster.port is None else str(cluster.port), "GREETING": cluster.greeting}
    return [{"name": name, "value": _literal(value)} for name, value in values.items() if value]


def _literal(word: str) -> str:
    """A word as Kubernetes hands it on: it would put variables in the place of $(NAME)."""
    return word.replace("$", "$$")
