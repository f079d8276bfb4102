"""Fills in what a Pod's spec leaves out, for Pods and for the templates of Pods.

The rules of both kinds call it. A Pod gets a little more than a template: what only matters where it runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgewright.local import quantities
from edgewright.runtime.objects import RawObject

_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_SPEC = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
}
_MODE = 0o644
_HOUR = 3600


def fill_spec(spec: RawObject) -> None:
    """Everything that a template gets too."""
    for name, value in _SPEC.items():
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or ():
        _fill_volume(volume)
    for container in containers(spec):
        _fill_container(container)
    for resources in (spec.get("resources"), {"overhead": spec.get("overhead")}):
        _round(resources or {})


def fill_pod(spec: RawObject) -> None:
    """What a Pod gets besides: requests as large as the limits, and links to services."""
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container["resources"]
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **(resources.get("requests") or {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port["containerPort"])
    spec.setdefault("enableServiceLinks", True)


def containers(spec: RawObject) -> Iterable[RawObject]:
    """The containers of all three sorts."""
    for name in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(name) or ()


def _fill_container(container: RawObject) -> None:
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        _fill_field(source.get("fieldRef"))
        if "fileKeyRef" in source:
            source["fileKeyRef"].setdefault("optional", False)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(name)) is not None:
            for setting, value in _PROBE.items():
                probe.setdefault(setting, value)
            _fill_handler(probe)
    lifecycle = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        _fill_handler(lifecycle.get(name) or {})
    _round(container["resources"])


def _round(resources: RawObject) -> None:
    for amounts in resources.values():
        if isinstance(amounts, dict):
            for name, amount in amounts.items():
                amounts[name] = quantities.rounded(amount)


def _fill_handler(handler: RawObject) -> None:
    if get := handler.get("httpGet"):
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")
    if "grpc" in handler and handler["grpc"].get("service") is None:
        handler["grpc"]["service"] = ""


def _fill_field(reference: RawObject | None) -> None:
    if reference is not None:
        reference.setdefault("apiVersion", "v1")


def pull_policy(image: str) -> str:
    """Whether an image is fetched again: `latest` always is, and so is an image without a tag."""
    name, _, digest = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    if not digest and (not colon or tag == "latest"):
        return "Always"
    return "Always" if tag == "latest" else "IfNotPresent"


def _fill_volume(volume: RawObject) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        if (source := volume.get(name)) is not None:
            source.setdefault("defaultMode", _MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _fill_field(item.get("fieldRef"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        _fill_projection(source)
    if "image" in volume:
        volume["image"].setdefault("pullPolicy", pull_policy(volume["image"].get("reference", "")))
    _fill_claim(volume.get("ephemeral") or {})
    _fill_by_vendor(volume)


def _fill_projection(source: RawObject) -> None:
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        _fill_field(item.get("fieldRef"))
    if "serviceAccountToken" in source:
        source["serviceAccountToken"].setdefault("expirationSeconds", _HOUR)


def _fill_claim(ephemeral: RawObject) -> None:
    if template := ephemeral.get("volumeClaimTemplate"):
        template["spec"].setdefault("volumeMode", "Filesystem")


_BY_VENDOR: dict[str, dict[str, Any]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def _fill_by_vendor(volume: RawObject) -> None:
    for name, settings in _BY_VENDOR.items():
        if name in volume:
            for setting, value in settings.items():
                volume[name].setdefault(setting, value)
