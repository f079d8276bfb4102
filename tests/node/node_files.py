"""The configuration of a node's programs, and the command lines that start them: containerd, kubelet, kube-proxy, CNI.

`cluster` writes and starts them. Everything that they keep lies in the room's folder; where a default of Kubernetes
decides what a Pod sees, it is left alone. Nothing is started here.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.harness import programs as kubernetes
from tests.node.layout import LAN_ADDRESS, NODE, POD_NETWORK, REGISTRY

KUBELET_PORT: Final = 10250
KUBELET_HEALTH_PORT: Final = 10248
PROXY_HEALTH_PORT: Final = 10256
PROXY_METRICS_PORT: Final = 10249
_CRI: Final = 'plugins."io.containerd.grpc.v1.cri"'


@dataclass(frozen=True, kw_only=True)
class NodeFiles:
    """Where a node keeps what is its own."""

    home: Path
    authority: Path
    serving: tuple[Path, Path]
    control_group: str

    @property
    def socket(self) -> Path:
        """Where containerd listens."""
        return self.home / "containerd.sock"


def write_json(path: Path, content: Any) -> Path:
    """Writes a document; JSON is YAML."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
    return path


def registry(storage: Path) -> dict[str, Any]:
    """The configuration of the registry on the LAN."""
    return {
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(storage)}},
        "http": {"addr": REGISTRY},
    }


def containerd(files: NodeFiles) -> str:
    """containerd.toml: all in our folder, images from the LAN's registry without TLS."""
    home = files.home
    return f"""\
version = 2
root = "{home}/containerd/root"
state = "{home}/containerd/state"
disabled_plugins = ["io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "{files.socket}"
[ttrpc]
address = "{files.socket}.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "{home}/containerd/opt"
[{_CRI}]
sandbox_image = "{REGISTRY}/pause:test"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
disable_apparmor = true
[{_CRI}.cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{home}/cni"
[{_CRI}.containerd]
default_runtime_name = "runc"
[{_CRI}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{_CRI}.containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "{home}/runc"
[{_CRI}.registry]
config_path = "{home}/certs.d"
"""


def network(files: NodeFiles) -> dict[str, Any]:
    """The Pods' network: a bridge, with this node as the way out."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "dataDir": str(files.home / "cni-addresses"),
            "ranges": [[{"subnet": POD_NETWORK}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def kubelet(files: NodeFiles) -> dict[str, Any]:
    """The kubelet's configuration."""
    certificate, key = files.serving
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{files.control_group}",
        "enforceNodeAllocatable": [],
        "address": LAN_ADDRESS,
        "port": KUBELET_PORT,
        "healthzPort": KUBELET_HEALTH_PORT,
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
        "authentication": {
            "x509": {"clientCAFile": str(files.authority)},
            "webhook": {"enabled": True},
            "anonymous": {"enabled": False},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{files.socket}",
        "podLogsDir": str(files.home / "pods"),
        "volumePluginDir": str(files.home / "volume-plugins"),
        "makeIPTablesUtilChains": False,
        "resolvConf": str(files.home / "resolv.conf"),
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
    }


def proxy(kubeconfig: Path) -> dict[str, Any]:
    """kube-proxy's configuration: it writes no sysctls."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": POD_NETWORK,
        "hostnameOverride": NODE,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "healthzBindAddress": f"127.0.0.1:{PROXY_HEALTH_PORT}",
        "metricsBindAddress": f"127.0.0.1:{PROXY_METRICS_PORT}",
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "nftables": {"minSyncPeriod": "100ms"},
    }


def write_node(files: NodeFiles) -> None:
    """Writes what the programs of the node read."""
    home = files.home
    (home / "containerd.toml").write_text(containerd(files))
    (home / "resolv.conf").write_text("")
    # Images that name no registry come from the LAN's too, as at a site without a way out.
    for name in (REGISTRY, "docker.io"):
        hosts = home / "certs.d" / name / "hosts.toml"
        hosts.parent.mkdir(parents=True)
        hosts.write_text(
            f'server = "http://{REGISTRY}"\n[host."http://{REGISTRY}"]\ncapabilities = ["pull", "resolve"]\n'
        )
    write_json(home / "cni" / "10-pods.conflist", network(files))
    write_json(home / "kubelet.json", kubelet(files))


def containerd_command(files: NodeFiles) -> list[str]:
    """What runs containers."""
    return [shutil.which("containerd") or "containerd", "--config", str(files.home / "containerd.toml")]


def kubelet_command(files: NodeFiles, kubeconfig: Path) -> list[str]:
    """The node's agent."""
    return [
        kubernetes.program("kubelet"),
        f"--kubeconfig={kubeconfig}",
        f"--config={files.home / 'kubelet.json'}",
        f"--root-dir={files.home / 'kubelet'}",
        f"--cert-dir={files.home / 'kubelet-certificates'}",
        f"--hostname-override={NODE}",
        f"--node-ip={LAN_ADDRESS}",
    ]


def proxy_command(files: NodeFiles, kubeconfig: Path) -> list[str]:
    """What gives Services their addresses."""
    config = write_json(files.home / "kube-proxy.json", proxy(kubeconfig))
    return [kubernetes.program("kube-proxy"), f"--config={config}"]
