"""The Service and the Pod that flash one device, as the API server takes them, and who created an object of ours.

`device_loop` creates what is built here; `job_loop` asks it which Secrets a Pod needs and whether a security context
loosens ours. Pods are built as plain JSON, because they hold far more fields than anybody reads back. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from edgewright.api.device import Claim, Device, Mark
from edgewright.api.endpoint import BadEndpoint, normalize_endpoint, parse_endpoint
from edgewright.api.firmwarerollout import ROLLOUT_UID_LABEL
from edgewright.api.flash_pod import (
    ATTESTATION_HOST,
    FLASH_CONTAINER,
    FLASHER_IMAGE,
    FLASHER_WORD,
    INSPECT_CONTAINER,
    OTA_PORT,
    PULL_FOLDER,
    SCRATCH_FOLDER,
    SIGNATURE_FOLDER,
    TLS_FOLDER,
    VERIFY_CONTAINER,
    Protocol,
    Role,
    Variable,
    VersionPolicy,
)
from edgewright.api.flashjob import Exposure, FlashJob, FlashJobSpec, PodTemplate, Toleration
from edgewright.api.node import NODE_TAINT
from edgewright.api.pod import Pod
from edgewright.api.protocols import traits_of
from edgewright.api.reference import BadReference, parse_reference
from edgewright.controllers.flashjob.names import label_value, pod_name, service_name
from edgewright.controllers.settings import Settings
from edgewright.runtime.objects import Key, RawObject, Resource, owner_reference

OUTCOME_FINALIZER: Final = "edgewright.dev/outcome"
"""On a flash Pod until its outcome stands on the Device: nobody's deletion loses it."""

_TIGHT: Final[RawObject] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
# The published flasher images run as root and write where they like: what they are given is what breaks none of them.
_FOREIGN: Final[RawObject] = {"allowPrivilegeEscalation": False, "seccompProfile": {"type": "RuntimeDefault"}}
_SELINUX_TYPES: Final = frozenset({"", "container_t"})
"""Others confine otherwise, not more: container_kvm_t may reach /dev/kvm, container_engine_t may mount."""
_TOLERATION: Final = Toleration(key=NODE_TAINT, operator="Exists", effect="NoSchedule")
"""Flash Pods may run on nodes of ours, which keep all others off."""
_VOLUMES: Final = {
    "spec.tlsSecretName": "tls",
    "spec.firmwarePullSecret": "pull",
    "spec.signaturePublicKeySecret": "signature",
}
_FOLDERS: Final = {"tls": TLS_FOLDER, "pull": PULL_FOLDER, "signature": SIGNATURE_FOLDER}
_PUBLISHED: Final = (
    Variable.FIRMWARE,
    Variable.UUID,
    Variable.HOST_ENDPOINT,
    Variable.DEVICE,
    Variable.APPLICATION_TYPE,
    Variable.VERSION,
    Variable.EXTERNAL_IP,
)


def protocol_of(device: Device) -> str:
    """How a device is flashed."""
    return device.spec.protocol or Protocol.ESP32


def exposure_of(spec: FlashJobSpec, device: Device) -> Exposure:
    """How the device reaches its flash Pod: as the job says, else as its protocol needs it."""
    if spec.exposure:
        return Exposure(spec.exposure)
    return Exposure.LOAD_BALANCER if traits_of(protocol_of(device)).dials_back else Exposure.NONE


def endpoint_of(spec: FlashJobSpec, device: Device) -> str:
    """Where the device is: as the job says, else as its Device does; a port that the job leaves out is the Device's."""
    asked, own = spec.host_endpoint or "", device.spec.endpoint
    if asked and own and not device.spec.allow_endpoint_override and _is_host_of(asked, own):
        return own if normalize_endpoint(asked) != normalize_endpoint(own) else asked
    return asked or own


def overrides(spec: FlashJobSpec, device: Device) -> bool:
    """Whether the job would flash a Device elsewhere than at its own address, and the Device does not allow that."""
    asked, own = spec.host_endpoint or "", device.spec.endpoint
    if not asked or device.spec.allow_endpoint_override or not normalize_endpoint(own):
        return False
    return normalize_endpoint(asked) != normalize_endpoint(own) and not _is_host_of(asked, own)


def _is_host_of(asked: str, own: str) -> bool:
    """Whether one is the host of the other, without its port."""
    try:
        one, other = parse_endpoint(normalize_endpoint(asked)), parse_endpoint(normalize_endpoint(own))
    except BadEndpoint:
        return False
    return one.host == other.host and one.port is None


def own_flasher(spec: FlashJobSpec, settings: Settings) -> bool:
    """Whether the Pod runs our flasher, not somebody else's image."""
    # By its usual name too, wherever the operator has it from: the name says which program is meant.
    return not spec.flashjob_pod_image or spec.flashjob_pod_image in {FLASHER_IMAGE, settings.flasher_image}


def secrets_of(spec: FlashJobSpec, device: Device, settings: Settings) -> dict[str, str]:
    """The Secrets that the Pod for a device cannot start without: the job's field, and the name that it gives."""
    secrets = {}
    dialled = traits_of(protocol_of(device)).dials_back or exposure_of(spec, device) is Exposure.LOAD_BALANCER
    if dialled and own_flasher(spec, settings):
        secrets["spec.tlsSecretName"] = spec.tls_secret
    if spec.firmware_pull_secret:
        secrets["spec.firmwarePullSecret"] = spec.firmware_pull_secret
    if spec.signature_public_key_secret:
        secrets["spec.signaturePublicKeySecret"] = spec.signature_public_key_secret
    return secrets


def service_key(claim: Claim) -> Key:
    """Where the Service of a claim is found."""
    return Key(claim.job.namespace, service_name(claim.job.name, claim.uuid))


def pod_key(claim: Claim) -> Key:
    """Where the Pod of a claim is found."""
    return Key(claim.job.namespace, pod_name(claim.job.name, claim.uuid))


def made_for(obj: Resource, device: Device, claim: Claim) -> bool:
    """Whether an object was made by us for this device and this claim's job."""
    metadata = obj.metadata
    return (
        metadata.labels.get(Mark.JOB_UID) == claim.job.uid
        and metadata.annotations.get(Mark.DEVICE) == device.metadata.name
    )


def service_for(job: FlashJob, device: Device, claim: Claim, settings: Settings) -> RawObject:
    """The Service at which the device finds its flash Pod."""
    spec: RawObject = {
        "type": "LoadBalancer",
        "selector": _selector(claim),
        "ports": [{"port": OTA_PORT, "targetPort": OTA_PORT, "protocol": "TCP"}],
    }
    if job.spec.external_ip:
        spec["loadBalancerIP"] = job.spec.external_ip
    if not settings.nat and (source := _source_range(endpoint_of(job.spec, device))):
        spec["loadBalancerSourceRanges"] = [source]
    metadata = {
        "name": service_key(claim).name,
        "namespace": claim.job.namespace,
        "labels": _labels(claim),
        "annotations": {Mark.DEVICE.value: device.metadata.name},
        "ownerReferences": [owner_reference(job).to_raw()],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def pod_for(job: FlashJob, device: Device, claim: Claim, *, address: str, digest: str, settings: Settings) -> RawObject:
    """The Pod that flashes the device: ours, or a foreign flasher between our inspection and our verification.

    `address` is where the device finds it (empty where the Pod dials), `digest` what the firmware's tag stood for when
    the job's first device ended (empty while none has).
    """
    template = job.spec.pod_template or PodTemplate()
    metadata: RawObject = {
        "name": pod_key(claim).name,
        "namespace": claim.job.namespace,
        "labels": {**template.labels, **_labels(claim)},
        "annotations": {
            **template.annotations,
            Mark.DEVICE.value: device.metadata.name,
            Mark.ATTEMPT.value: str(claim.attempt),
            Mark.STATE.value: claim.state,
        },
        "finalizers": [OUTCOME_FINALIZER],
        "ownerReferences": [owner_reference(job).to_raw()],
    }
    spec: RawObject = {
        **_containers(job, device, claim, address=address, digest=digest, settings=settings),
        "restartPolicy": "Never",
        "activeDeadlineSeconds": deadline_of(job.spec, settings),
        "terminationGracePeriodSeconds": settings.timing.grace,
        "automountServiceAccountToken": False,
        "tolerations": [toleration.to_raw() for toleration in (_TOLERATION, *template.tolerations)],
        "volumes": [{"name": "scratch", "emptyDir": {}}, *_secret_volumes(job.spec, device, settings)],
    }
    if template.node_selector:
        spec["nodeSelector"] = template.node_selector
    if template.affinity:
        spec["affinity"] = template.affinity
    if template.service_account_name:
        spec["serviceAccountName"] = template.service_account_name
    if template.image_pull_secrets:
        spec["imagePullSecrets"] = [secret.to_raw() for secret in template.image_pull_secrets]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def firmware_of(pod: Pod) -> str:
    """The firmware that a Pod flashes, as the job named it: a flasher of others may have been told only its digest."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    named = ({each.name: each.value for each in container.env} for container in containers)
    return next((values[Variable.FIRMWARE] for values in named if Variable.FIRMWARE in values), "")


def deadline_of(spec: FlashJobSpec, settings: Settings) -> int:
    """The Pod's activeDeadlineSeconds: the attempt's time, and some for pulling the image and for ending well."""
    timing = settings.timing
    extra = timing.start_grace if own_flasher(spec, settings) else timing.start_grace + timing.foreign_grace
    return max(1, math.ceil(spec.timeout + extra))


def loosened(security_context: Mapping[str, Any] | None) -> str | None:
    """The first field of a container's security context that could loosen ours, or None where all only tighten.

    A field that nobody here knows may loosen anything, so it counts.
    """
    for name, value in (security_context or {}).items():
        if value is None:
            continue
        strict = _STRICT.get(name)
        if strict is None or not strict(value):
            return name
    return None


def tightened(base: RawObject, further: Mapping[str, Any] | None) -> RawObject:
    """A security context with what a job adds; capabilities that either drops are dropped."""
    added = {name: value for name, value in (further or {}).items() if value is not None}
    drops = [*_dropped(base), *(each for each in _dropped(added) if each not in _dropped(base))]
    merged = {**base, **added}
    if drops:
        merged["capabilities"] = {"drop": drops}
    return merged


# --- security contexts ----------------------------------------------------------------------------------------------


def _only(*allowed: object) -> Callable[[Any], bool]:
    return lambda value: any(value is each or (isinstance(value, str) and value == each) for each in allowed)


def _no_root(value: Any) -> bool:
    return type(value) is int and value > 0


def _drops_only(value: Any) -> bool:
    return isinstance(value, Mapping) and not value.get("add") and set(value) <= {"add", "drop"}


def _confined(value: Any) -> bool:
    # A profile of the node may allow more than the runtime's own.
    return isinstance(value, Mapping) and value.get("type") == "RuntimeDefault" and not value.get("localhostProfile")


def _contained(value: Any) -> bool:
    labels = {"user", "role"}
    return (
        isinstance(value, Mapping)
        and not any(value.get(name) for name in labels)
        and (value.get("type") or "") in _SELINUX_TYPES
    )


_STRICT: Final[Mapping[str, Callable[[Any], bool]]] = {
    "allowPrivilegeEscalation": _only(False),
    "privileged": _only(False),
    "readOnlyRootFilesystem": _only(True),
    "runAsNonRoot": _only(True),
    "runAsUser": _no_root,
    "runAsGroup": _no_root,
    "capabilities": _drops_only,
    "seccompProfile": _confined,
    "appArmorProfile": _confined,
    "seLinuxOptions": _contained,
    "procMount": _only("Default"),
}
"""For each field that a job may set, whether a value is at least as strict as ours."""


def _dropped(context: Mapping[str, Any]) -> list[str]:
    return list((context.get("capabilities") or {}).get("drop") or ())


# --- parts of Pod and Service ---------------------------------------------------------------------------------------


def _selector(claim: Claim) -> dict[str, str]:
    return {"app": label_value(claim.job.name), "uuid": label_value(claim.uuid)}


def _labels(claim: Claim) -> dict[str, str]:
    labels = {**_selector(claim), Mark.JOB_UID.value: claim.job.uid}
    return {**labels, ROLLOUT_UID_LABEL: claim.rollout} if claim.rollout else labels


def _source_range(endpoint: str) -> str | None:
    """The device's address as the only one that may dial in; None where the endpoint is a host name."""
    try:
        address = parse_endpoint(endpoint).address
    except BadEndpoint:
        return None
    return None if address is None else f"{address}/{address.max_prefixlen}"


def _containers(
    job: FlashJob, device: Device, claim: Claim, *, address: str, digest: str, settings: Settings
) -> RawObject:
    template = job.spec.pod_template or PodTemplate()
    variables = _variables(job, device, claim, address=address, digest=digest, settings=settings)
    mounts: list[RawObject] = [
        {"name": "scratch", "mountPath": SCRATCH_FOLDER},
        *(
            {"name": volume["name"], "mountPath": _FOLDERS[volume["name"]], "readOnly": True}
            for volume in _secret_volumes(job.spec, device, settings)
        ),
    ]

    def ours(name: str, role: Role) -> RawObject:
        return {
            "name": name,
            "image": settings.flasher_image,
            "args": [FLASHER_WORD],
            "env": _environment({**variables, Variable.ROLE: role}),
            "volumeMounts": mounts,
            "securityContext": tightened(_TIGHT, template.security_context),
        }

    if own_flasher(job.spec, settings):
        main = ours(FLASH_CONTAINER, Role.CHECK if claim.check else Role.FLASH)
        others: RawObject = {}
    else:
        published: dict[str, str] = {name: variables[name] for name in _PUBLISHED}
        published[Variable.FIRMWARE] = _pinned(job.spec.firmware, digest)
        if settings.attestation:
            # As Kubernetes writes it where the service is a Service of the namespace: published flashers look there.
            published[ATTESTATION_HOST] = urlsplit(settings.attestation).hostname or ""
        main = {
            "name": FLASH_CONTAINER,
            "image": job.spec.flashjob_pod_image,
            "env": _environment(published),
            "securityContext": tightened(_FOREIGN, template.security_context),
        }
        variables[Variable.CHECK] = _truth(claim.check)  # only what inspects reads it
        others = {"initContainers": [ours(INSPECT_CONTAINER, Role.INSPECT)]}
    sidecars = [] if own_flasher(job.spec, settings) else [ours(VERIFY_CONTAINER, Role.VERIFY)]
    containers: RawObject = {**others, "containers": [main, *sidecars]}
    if template.resources:
        # A quota refuses a Pod of which one container has none.
        for container in (each for those in containers.values() for each in those):
            container["resources"] = template.resources
    return containers


def _variables(
    job: FlashJob, device: Device, claim: Claim, *, address: str, digest: str, settings: Settings
) -> dict[str, str]:
    spec = job.spec
    known = device.status.firmware
    return {
        Variable.FIRMWARE: spec.firmware,
        Variable.UUID: claim.uuid,
        Variable.HOST_ENDPOINT: _told(endpoint_of(job.spec, device)),
        Variable.DEVICE: spec.device or device.spec.type,
        Variable.APPLICATION_TYPE: spec.application_type or device.status.application,
        Variable.VERSION: spec.version,
        Variable.EXTERNAL_IP: address or spec.external_ip or "",
        Variable.PROTOCOL: protocol_of(device),
        Variable.DIGEST: digest,
        Variable.RECORDED_DIGEST: known.digest if known else "",
        Variable.RECORDED_CERTIFICATE: device.status.certificate,
        Variable.TIMEOUT: str(spec.timeout),
        Variable.FORCE: _truth(spec.force),
        Variable.VERSION_POLICY: spec.version_policy or VersionPolicy.IMAGE,
        Variable.ALLOW_INSECURE: _truth(spec.allow_insecure),
        Variable.PLAIN_REGISTRIES: ",".join(settings.plain_registries),
        Variable.TOKEN_HOSTS: ",".join(settings.token_hosts),
        Variable.ATTESTATION: settings.attestation,
        Variable.LOCAL: _truth(settings.local),
        Variable.VERIFY_SIGNATURE: _truth(bool(spec.signature_public_key_secret)),
    }


def _told(endpoint: str) -> str:
    """The endpoint as flashers of others know it: an address, without the scheme that people may write before it."""
    try:
        return str(parse_endpoint(endpoint)) if "://" in endpoint else endpoint
    except BadEndpoint:
        return endpoint


def _pinned(firmware: str, digest: str) -> str:
    """The firmware as a flasher of others is to pull it: by the digest that its tag stood for, where that is known.

    Without the tag then, for not everybody understands both. What the job itself pins stays as it is written.
    """
    if not digest:
        return firmware
    try:
        reference = parse_reference(firmware)
    except BadReference:
        return firmware
    return firmware if reference.digest else f"{reference.host}/{reference.repository}@{digest}"


def _environment(variables: Mapping[str, str]) -> list[RawObject]:
    """The variables as a container has them; the published seven are there even where they are empty."""
    entries: list[RawObject] = [
        {"name": str(name), "value": str(value)} for name, value in variables.items() if value or name in _PUBLISHED
    ]
    if Variable.ROLE in variables:
        entries.append({"name": "TMPDIR", "value": SCRATCH_FOLDER})  # the root of our containers cannot be written to
        entries.append({"name": Variable.POD_IP.value, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    return entries


def _secret_volumes(spec: FlashJobSpec, device: Device, settings: Settings) -> list[RawObject]:
    return [
        {"name": _VOLUMES[field], "secret": {"secretName": name}}
        for field, name in secrets_of(spec, device, settings).items()
    ]


def _truth(value: bool | None) -> str:
    return "true" if value else ""
