"""The configuration of a device, as its agent downloads it: a pure function of the objects that say what it is to be.

`needs` says which Secrets and ConfigMaps it takes, `assemble` puts everything together. Where one is missing, only
what needs it is left out, with the reason; the version is a hash of the content, so that equal content has one version.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import yaml

from edgewright.api.edge_hardware import Mount
from edgewright.api.edge_protocol import (
    ComponentMetricsConfiguration,
    ContainerMetrics,
    DataConfiguration,
    DataPath,
    DeviceConfiguration,
    DeviceConfigurationMessage,
    HardwareProfileConfiguration,
    HeartbeatConfiguration,
    ImageRegistries,
    LogsCollection,
    MetricsAllowList,
    MetricsConfiguration,
    MetricsReceiverConfiguration,
    MetricsRetention,
    OsInformation,
    S3Configuration,
    StorageConfiguration,
    SyslogConfiguration,
    WireSecret,
    Workload,
    WorkloadMetrics,
)
from edgewright.api.edge_revisions import PODMAN
from edgewright.api.edgedevice import ComponentMetrics, DeviceSettings, EdgeDevice, NameReference
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.gateway.objects import ConfigMap, Secret
from edgewright.runtime import yaml_loader
from edgewright.runtime.yaml_dumper import dump

PERIOD: Final = 60
"""Seconds between two heartbeats, where nothing else is said."""
MONITORING: Final = 15
"""Seconds between two looks of an agent at its workloads."""
_AUTH_FILE: Final = ".dockerconfigjson"
_METRICS_LIST: Final = "metrics_list.yaml"
_SAMPLES: Final = 30_000
_TIMEOUT: Final = 10


class Source(NamedTuple):
    """A Secret or ConfigMap of the device's namespace."""

    kind: Literal["Secret", "ConfigMap"]
    name: str

    def __str__(self) -> str:
        """As people name it."""
        return f"{self.kind} {self.name}"


Sources: TypeAlias = Mapping[Source, Secret | ConfigMap]


class Missing(Exception):
    """Something that a part of the configuration needs is not there; the sentence names it."""


@dataclass(frozen=True)
class Assembled:
    """A configuration, and what had to be left out of it: a sentence by the name of the workload, or of the part."""

    message: DeviceConfigurationMessage
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By the name of the workload."""
    problems: tuple[str, ...] = ()
    """Parts of the device's own settings that are left out."""


def needs(device: EdgeDevice, settings: DeviceSettings, workloads: Iterable[EdgeWorkload]) -> set[Source]:
    """The Secrets and ConfigMaps that the configuration is made of."""
    return {*_device_needs(device, settings), *(each for workload in workloads for each in _workload_needs(workload))}


def assemble(
    device: EdgeDevice, settings: DeviceSettings, workloads: Iterable[EdgeWorkload], sources: Sources
) -> Assembled:
    """The configuration of a device."""
    problems: list[str] = []
    left_out: dict[str, str] = {}
    sent: list[Workload] = []
    secrets: dict[str, WireSecret] = {}
    configuration = _configuration(device, settings, sources, problems)
    for workload in workloads:
        try:
            made = _workload(workload, sources)
            used = [_wire_secret(_secret(sources, name)) for name, optional in _pod_secrets(workload) if not optional]
            used += [
                _wire_secret(found)
                for name, optional in _pod_secrets(workload)
                if optional and isinstance(found := sources.get(Source("Secret", name)), Secret)
            ]
        except Missing as missing:
            left_out[workload.metadata.name] = str(missing)
            continue
        if made.log_collection and made.log_collection not in configuration.log_collection:
            left_out[workload.metadata.name] = (
                f"spec.logCollection: the device has no log collection {made.log_collection!r}"
            )
            continue
        sent.append(made)
        secrets.update((each.name, each) for each in used)
    message = DeviceConfigurationMessage(
        device_id=device.metadata.name,
        workloads_monitoring_interval=MONITORING,
        configuration=configuration,
        workloads=tuple(sent),
        secrets=tuple(secrets[name] for name in sorted(secrets)),
    )
    return Assembled(msgspec.structs.replace(message, version=version_of(message)), left_out, tuple(problems))


def version_of(message: DeviceConfigurationMessage) -> str:
    """The hash of a configuration without its version."""
    return with_id(message.device_id, encoded_rest(message))[0]


def encoded_rest(message: DeviceConfigurationMessage) -> bytes:
    """A configuration in JSON without the two fields that differ from device to device."""
    return msgspec.json.encode(msgspec.structs.replace(message, device_id="", version=""), order="deterministic")


def with_id(device: str, rest: bytes) -> tuple[str, bytes]:
    """The version and the JSON of a device's configuration, from what it has in common with others."""
    head = b'{"device_id":' + msgspec.json.encode(device)
    tail = b"," + rest[1:] if len(rest) > len(b"{}") else rest[1:]
    version = hashlib.sha256(head + tail).hexdigest()[:32]
    return version, head + b',"version":"' + version.encode() + b'"' + tail


# --- what is needed ---------------------------------------------------------------------------------------------------


def _device_needs(device: EdgeDevice, settings: DeviceSettings) -> Iterator[Source]:
    yield from _s3_needs(device, settings)
    for target in settings.log_collection.values():
        if target.syslog_config is not None:
            yield Source("ConfigMap", target.syslog_config.name)
    metrics = settings.metrics
    if metrics is not None:
        for part in (metrics.system, metrics.data_transfer):
            if part is not None and part.allow_list is not None:
                yield Source("ConfigMap", part.allow_list.name)
        if metrics.receiver_configuration is not None and metrics.receiver_configuration.ca_secret_name:
            yield Source("Secret", metrics.receiver_configuration.ca_secret_name)


def _s3_names(device: EdgeDevice, settings: DeviceSettings) -> tuple[str, str] | None:
    """The ConfigMap and the Secret of the bucket; the claim's go before those that people named."""
    if claim := device.status.data_obc:
        return claim, claim
    s3 = None if settings.storage is None else settings.storage.s3
    if s3 is None or not (s3.config_map_name and s3.secret_name):
        return None
    return s3.config_map_name, s3.secret_name


def _s3_needs(device: EdgeDevice, settings: DeviceSettings) -> Iterator[Source]:
    names = _s3_names(device, settings)
    if names is not None:
        yield Source("ConfigMap", names[0])
        yield Source("Secret", names[1])


def _workload_needs(workload: EdgeWorkload) -> Iterator[Source]:
    spec = workload.spec
    if spec.image_registries is not None and spec.image_registries.secret_ref is not None:
        yield Source("Secret", spec.image_registries.secret_ref.name)
    if spec.metrics is not None and spec.metrics.allow_list is not None:
        yield Source("ConfigMap", spec.metrics.allow_list.name)
    for name, _ in _pod_secrets(workload):
        yield Source("Secret", name)
    for name, _ in _pod_config_maps(workload):
        yield Source("ConfigMap", name)


def _pod_secrets(workload: EdgeWorkload) -> list[tuple[str, bool]]:
    return _references(workload.spec.pod.spec, "secretKeyRef", "secretRef")


def _pod_config_maps(workload: EdgeWorkload) -> list[tuple[str, bool]]:
    return _references(workload.spec.pod.spec, "configMapKeyRef", "configMapRef")


def _references(pod: dict[str, Any], in_env: str, in_env_from: str) -> list[tuple[str, bool]]:
    """The names that the environment of a pod's containers refers to, each once, and whether it may be missing."""
    found: dict[str, bool] = {}
    for kind in ("initContainers", "containers"):
        for container in _objects(pod.get(kind)):
            sources = [each.get("valueFrom") for each in _objects(container.get("env"))]
            references = [each.get(in_env) for each in sources if isinstance(each, dict)]
            references += [each.get(in_env_from) for each in _objects(container.get("envFrom"))]
            for each in references:
                if isinstance(each, dict) and each.get("name"):
                    name = str(each["name"])
                    found[name] = found.get(name, True) and bool(each.get("optional"))
    return list(found.items())


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# --- the device -------------------------------------------------------------------------------------------------------


def _configuration(
    device: EdgeDevice, settings: DeviceSettings, sources: Sources, problems: list[str]
) -> DeviceConfiguration:
    heartbeat = settings.heartbeat
    profile = None if heartbeat is None else heartbeat.hardware_profile
    os = settings.os_information
    return DeviceConfiguration(
        heartbeat=HeartbeatConfiguration(
            period_seconds=PERIOD if heartbeat is None or not heartbeat.period_seconds else heartbeat.period_seconds,
            hardware_profile=HardwareProfileConfiguration(
                include=profile is not None and profile.include,
                scope="full" if profile is None or not profile.scope else profile.scope,
            ),
        ),
        os=None
        if os is None
        else OsInformation(
            commit_id=os.commit_id,
            hosted_objects_url=os.hosted_objects_url,
            automatically_upgrade=os.automatically_upgrade,
        ),
        storage=_storage(device, settings, sources, problems),
        metrics=_metrics(settings, sources, problems),
        log_collection=_log_collection(settings, sources, problems),
        mounts=tuple(
            Mount(device=each.device, directory=each.folder, type=each.type, options=each.options)
            for each in settings.mounts
        )
        or None,
    )


def _storage(
    device: EdgeDevice, settings: DeviceSettings, sources: Sources, problems: list[str]
) -> StorageConfiguration | None:
    names = _s3_names(device, settings)
    if names is None:
        return None
    try:
        place, credentials = _config_map(sources, names[0]).data, _secret(sources, names[1]).data
        port = place.get("BUCKET_PORT") or "443"
        if not port.isdigit():
            raise Missing(f"BUCKET_PORT of ConfigMap {names[0]} is not a number")
        return StorageConfiguration(
            s3=S3Configuration(
                bucket_host=_value(place, "BUCKET_HOST", f"ConfigMap {names[0]}"),
                bucket_port=int(port),
                bucket_name=_value(place, "BUCKET_NAME", f"ConfigMap {names[0]}"),
                bucket_region=place.get("BUCKET_REGION", ""),
                aws_access_key_id=_value(credentials, "AWS_ACCESS_KEY_ID", f"Secret {names[1]}"),
                aws_secret_access_key=_value(credentials, "AWS_SECRET_ACCESS_KEY", f"Secret {names[1]}"),
                aws_ca_bundle=credentials.get("tls.crt", ""),
            )
        )
    except Missing as missing:
        problems.append(f"storage: {missing}")
        return None


def _value(data: Mapping[str, str], key: str, where: str) -> str:
    if not data.get(key):
        raise Missing(f"{where} has no {key}")
    return data[key]


def _metrics(settings: DeviceSettings, sources: Sources, problems: list[str]) -> MetricsConfiguration | None:
    metrics = settings.metrics
    if metrics is None:
        return None
    retention = metrics.retention
    return MetricsConfiguration(
        retention=None
        if retention is None
        else MetricsRetention(max_mib=retention.max_mib, max_hours=retention.max_hours),
        system=_component(metrics.system, sources, problems, "metrics.system"),
        data_transfer=_component(metrics.data_transfer, sources, problems, "metrics.dataTransfer"),
        receiver=_receiver(settings, sources, problems),
    )


def _component(
    part: ComponentMetrics | None, sources: Sources, problems: list[str], where: str
) -> ComponentMetricsConfiguration | None:
    if part is None:
        return None
    try:
        allowed = _allow_list(part.allow_list, sources)
    except Missing as missing:
        problems.append(f"{where}.allowList: {missing}")
        return None
    return ComponentMetricsConfiguration(interval=part.interval, allow_list=allowed, disabled=part.disabled)


def _receiver(settings: DeviceSettings, sources: Sources, problems: list[str]) -> MetricsReceiverConfiguration | None:
    receiver = None if settings.metrics is None else settings.metrics.receiver_configuration
    if receiver is None:
        return None
    trusted = ""
    try:
        if receiver.ca_secret_name:
            found = _value(
                _secret(sources, receiver.ca_secret_name).data, "ca.crt", f"Secret {receiver.ca_secret_name}"
            )
            trusted = _decoded(found)
    except Missing as missing:
        problems.append(f"metrics.receiverConfiguration.caSecretName: {missing}")
        return None
    return MetricsReceiverConfiguration(
        url=receiver.url,
        ca_cert=trusted,
        timeout_seconds=receiver.timeout_seconds or _TIMEOUT,
        request_num_samples=receiver.request_num_samples or _SAMPLES,
    )


def _allow_list(reference: NameReference | None, sources: Sources) -> MetricsAllowList | None:
    if reference is None:
        return None
    where = f"ConfigMap {reference.name}"
    text = _value(_config_map(sources, reference.name).data, _METRICS_LIST, where)
    try:
        names = yaml_loader.load(text)["names"]
    except (yaml.YAMLError, TypeError, KeyError):
        names = None
    if not isinstance(names, list):
        raise Missing(f"{_METRICS_LIST} of {where} has no list `names`")
    return MetricsAllowList(names=tuple(map(str, names)))


def _log_collection(settings: DeviceSettings, sources: Sources, problems: list[str]) -> dict[str, LogsCollection]:
    targets = {}
    for name, target in sorted(settings.log_collection.items()):
        try:
            if target.syslog_config is None:
                raise Missing("syslogConfig is missing")
            where = f"ConfigMap {target.syslog_config.name}"
            data = _config_map(sources, target.syslog_config.name).data
            server = SyslogConfiguration(address=_value(data, "Address", where), protocol=data.get("Protocol") or "tcp")
        except Missing as missing:
            problems.append(f"logCollection.{name}: {missing}")
            continue
        targets[name] = LogsCollection(kind=target.kind, buffer_size=target.buffer_size, syslog_config=server)
    return targets


# --- the workloads ----------------------------------------------------------------------------------------------------


def _workload(workload: EdgeWorkload, sources: Sources) -> Workload:
    spec, metadata = workload.spec, workload.metadata
    uploads = tuple(DataPath(source=each.source, target=each.target) for each in spec.data.uploads) if spec.data else ()
    downloads = (
        tuple(DataPath(source=each.source, target=each.target) for each in spec.data.ingress) if spec.data else ()
    )
    config_maps = []
    for name, optional in _pod_config_maps(workload):
        if optional and Source("ConfigMap", name) not in sources:
            continue
        config_maps.append(_config_map_text(_config_map(sources, name)))
    return Workload(
        name=metadata.name,
        namespace=metadata.namespace,
        labels=_for_podman(metadata.labels),
        annotations=_for_podman(metadata.annotations),
        specification=dump(spec.pod.spec, sort_keys=True),
        data=DataConfiguration(paths=uploads or None, egress=uploads or None, ingress=downloads or None)
        if uploads or downloads
        else None,
        image_registries=_registries(workload, sources),
        metrics=_workload_metrics(workload, sources),
        configmaps=tuple(config_maps) or None,
        log_collection=spec.log_collection,
    )


def _registries(workload: EdgeWorkload, sources: Sources) -> ImageRegistries | None:
    registries = workload.spec.image_registries
    if registries is None or registries.secret_ref is None:
        return None
    name = registries.secret_ref.name
    return ImageRegistries(auth_file=_decoded(_value(_secret(sources, name).data, _AUTH_FILE, f"Secret {name}")))


def _workload_metrics(workload: EdgeWorkload, sources: Sources) -> WorkloadMetrics | None:
    metrics = workload.spec.metrics
    if metrics is None:
        return None
    return WorkloadMetrics(
        path=metrics.path,
        port=metrics.port,
        interval=metrics.interval,
        allow_list=_allow_list(metrics.allow_list, sources),
        containers={
            name: ContainerMetrics(path=each.path, port=each.port, disabled=each.disabled)
            for name, each in sorted(metrics.containers.items())
        },
    )


def _for_podman(named: Mapping[str, str]) -> dict[str, str]:
    """The labels or annotations that the pod gets: those with the prefix, without it."""
    return {name.removeprefix(PODMAN): value for name, value in sorted(named.items()) if name.startswith(PODMAN)}


def _config_map(sources: Sources, name: str) -> ConfigMap:
    found = sources.get(Source("ConfigMap", name))
    if not isinstance(found, ConfigMap):
        raise Missing(f"ConfigMap {name} is missing")
    return found


def _secret(sources: Sources, name: str) -> Secret:
    found = sources.get(Source("Secret", name))
    if not isinstance(found, Secret):
        raise Missing(f"Secret {name} is missing")
    return found


def _wire_secret(secret: Secret) -> WireSecret:
    data = msgspec.json.encode(dict(sorted(secret.data.items()))).decode()
    return WireSecret(name=secret.metadata.name, data=data)


def _config_map_text(config_map: ConfigMap) -> str:
    whole = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": config_map.metadata.name},
        "data": config_map.data,
    }
    return dump(whole, sort_keys=True)


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except ValueError:
        raise Missing("its value is not text in base64") from None
