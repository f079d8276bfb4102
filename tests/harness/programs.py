"""The real Kubernetes programs that `make kubernetes` has built, and the command lines with which the tests run them.

`controlplane` calls one function a program and starts what it returns. The flags make start and end fast; where a
default of Kubernetes decides what a client sees, it is left alone. Nothing is built or started here.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
SERVICE_RANGE = "10.96.0.0/16"
ISSUER = "https://kubernetes.default.svc.cluster.local"
NODE = "kwok-0"
"""The name of the Node that kwok plays."""
STAGES = Path(__file__).with_name("kwok-stages.yaml")


class NotBuiltError(RuntimeError):
    """A program is missing; the message says what to do."""


BUILD = ROOT / "hack" / "kubernetes" / "build.py"
RELEASE = "EDGEWRIGHT_KUBERNETES"
"""The variable that names an older release of Kubernetes to run the server and its controllers of, as 1.34."""
OF_RELEASE = frozenset({"kube-apiserver", "kube-controller-manager", "kube-scheduler"})
"""The programs that are of that release."""


@functools.cache
def directory(release: str = "") -> Path:
    """The folder of the programs, as `hack/kubernetes/build.py` computes it."""
    build = [sys.executable, str(BUILD), "--print-dir", *(("--release", release) if release else ())]
    return Path(subprocess.run(build, check=True, capture_output=True, text=True).stdout.strip())


def program(name: str) -> str:
    """The path of one program."""
    release = os.environ.get(RELEASE, "") if name in OF_RELEASE else ""
    path = directory(release) / name
    if not path.exists():
        if release:
            raise NotBuiltError(f"{name} of {release} is not built: run hack/kubernetes/build.py --release {release}")
        raise NotBuiltError(f"{name} is not built: run make kubernetes first")
    return str(path)


def require(parts: Iterable[str]) -> None:
    """Raises where a program is missing that a control plane with these parts needs."""
    for name in ("etcd", "kube-apiserver", "kubectl"):
        program(name)
    for part in parts:
        program("kwok" if part == "kwok" else f"kube-{part}")


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of one control plane that appear on command lines."""

    home: Path
    authority: Path
    serving: tuple[Path, Path]
    service_accounts: tuple[Path, Path]


def etcd(files: Files, *, port: int, fsync: bool) -> list[str]:
    """The store, in plain HTTP on loopback; its peers' port is nobody's business, so the kernel chooses it."""
    client, peer = f"http://{HOST}:{port}", f"http://{HOST}:0"
    command = [
        program("etcd"),
        "--name=test",
        f"--data-dir={files.home / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=test={peer}",
        "--log-level=warn",
    ]
    return command if fsync else [*command, "--unsafe-no-fsync"]


def api_server(
    files: Files, *, port: int, etcd_port: int, audit_file: Path | None, extra: tuple[str, ...]
) -> list[str]:
    """The API server, with TLS, RBAC and Node authorization."""
    certificate, key = files.serving
    public, private = files.service_accounts
    command = [
        program("kube-apiserver"),
        f"--etcd-servers=http://{HOST}:{etcd_port}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={files.authority}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={public}",
        f"--service-account-signing-key-file={private}",
        # Who it says it is where it fetches logs from a node.
        f"--kubelet-client-certificate={files.home / 'admin.crt'}",
        f"--kubelet-client-key={files.home / 'admin.key'}",
        f"--kubelet-certificate-authority={files.authority}",
        "--allow-privileged=true",
        # Without this an API server that is asked to end waits for its watchers, which wait for it.
        "--shutdown-watch-termination-grace-period=1s",
        "--profiling=false",
    ]
    if audit_file is not None:
        command += [f"--audit-policy-file={files.home / 'audit-policy.yaml'}", f"--audit-log-path={audit_file}"]
    return [*command, *extra]


def controller_manager(
    files: Files, *, port: int, kubeconfig: Path, controllers: tuple[str, ...] = ("*",)
) -> list[str]:
    """The controllers of Kubernetes itself, or some of them."""
    _, private = files.service_accounts
    return [
        *_next_to_the_api_server("kube-controller-manager", files, port=port, kubeconfig=kubeconfig),
        f"--root-ca-file={files.authority}",
        f"--service-account-private-key-file={private}",
        f"--controllers={','.join(controllers)}",
        # By default it makes a client wait that makes more than 20 namespaces a second.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        # Claims of a class of kubernetes.io/host-path are folders then, as they are on our own control plane.
        "--enable-hostpath-provisioner=true",
    ]


def scheduler(files: Files, *, port: int, kubeconfig: Path) -> list[str]:
    """What gives Pods a Node."""
    return _next_to_the_api_server("kube-scheduler", files, port=port, kubeconfig=kubeconfig)


def kwok(files: Files, *, port: int, kubeconfig: Path) -> list[str]:
    """What plays the Node and the Pods on it."""
    certificate, key = files.serving
    return [
        program("kwok"),
        f"--kubeconfig={kubeconfig}",
        f"--config={STAGES}",
        f"--manage-single-node={NODE}",
        f"--server-address={HOST}:{port}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
    ]


def _next_to_the_api_server(name: str, files: Files, *, port: int, kubeconfig: Path) -> list[str]:
    certificate, key = files.serving
    return [
        program(name),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",  # there is one of each
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        "--profiling=false",
    ]


class _CommandLine(Protocol):
    def __call__(self, files: Files, *, port: int, kubeconfig: Path) -> list[str]: ...


PARTS: dict[str, _CommandLine] = {"controller-manager": controller_manager, "scheduler": scheduler, "kwok": kwok}
"""What can run next to etcd and the API server; each serves /healthz on its port."""
