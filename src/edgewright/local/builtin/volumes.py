"""Checks of the volumes of a Pod; of those that no node of ours can mount only that there is one source each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from edgewright.local.builtin import checks
from edgewright.local.builtin.containers import relative_path
from edgewright.local.builtin.downward import field_reference, resource_reference
from edgewright.local.field_errors import duplicate, forbidden, invalid, required, unsupported
from edgewright.local.quantities import value as amount_of
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_SOURCES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "configMap", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "persistentVolumeClaim", "ephemeral", "image"),
)
_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_MODE_RULE = "must be a number between 0 and 0777 (octal), both inclusive"
_SHORTEST_TOKEN, _MAX_TOKEN = 600, 2**32


def volumes(listed: list[RawObject], path: str) -> tuple[set[str], list[Cause]]:
    """The names of the good volumes, and what is wrong with the others."""
    good: set[str] = set()
    causes: list[Cause] = []
    for index, volume in enumerate(listed):
        place, name = f"{path}[{index}]", volume["name"]
        wrong = _source(volume, place)
        wrong += checks.label(f"{place}.name", name) if name else [required(f"{place}.name")]
        if name in good:
            wrong.append(duplicate(f"{place}.name", name))
        if not wrong:
            good.add(name)
        causes += wrong
    return good, causes


def _source(volume: RawObject, place: str) -> list[Cause]:
    named = [name for name in _SOURCES if name in volume]
    if not named:
        return [required(place, "must specify a volume type")]
    causes = _one_source(volume[named[0]], named[0], f"{place}.{named[0]}")
    return causes + [forbidden(f"{place}.{name}", "may not specify more than 1 volume type") for name in named[1:]]


def _one_source(source: RawObject, kind: str, path: str) -> list[Cause]:
    check = _CHECKS.get(kind)
    return check(source, path) if check else []


def _empty(source: RawObject, path: str) -> list[Cause]:
    if "sizeLimit" in source and amount_of(source["sizeLimit"]) < 0:
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _claim(source: RawObject, path: str) -> list[Cause]:
    return [] if source["claimName"] else [required(f"{path}.claimName")]


def _ephemeral(source: RawObject, path: str) -> list[Cause]:
    return [] if source.get("volumeClaimTemplate") else [required(f"{path}.volumeClaimTemplate")]


def _nfs(source: RawObject, path: str) -> list[Cause]:
    causes = [required(f"{path}.{name}") for name in ("server", "path") if not source[name]]
    if source["path"] and not source["path"].startswith("/"):
        causes.append(invalid(f"{path}.path", source["path"], "must be an absolute path"))
    return causes


def _downward(source: RawObject, path: str) -> list[Cause]:
    return mode(source.get("defaultMode"), f"{path}.defaultMode") + _fields(source.get("items") or (), path)


def _host_path(source: RawObject, path: str) -> list[Cause]:
    where = source["path"]
    if not where:
        return [required(f"{path}.path")]
    causes = [invalid(f"{path}.path", where, "must not contain '..'")] if ".." in where.split("/") else []
    if source["type"] not in _HOST_PATH_TYPES:
        causes.append(unsupported(f"{path}.type", source["type"], _HOST_PATH_TYPES))
    return causes


def mode(value: int | None, path: str) -> list[Cause]:
    """The permissions of a file."""
    return [] if value is None or 0 <= value <= 0o777 else [invalid(path, value, _MODE_RULE)]


def _files(source: RawObject, name: str, path: str) -> list[Cause]:
    causes = [] if source.get(name) else [required(f"{path}.{name}")]
    causes += mode(source.get("defaultMode"), f"{path}.defaultMode")
    for index, item in enumerate(source.get("items") or ()):
        causes += _item(item, f"{path}.items[{index}]")
    return causes


def _item(item: RawObject, path: str) -> list[Cause]:
    causes = [required(f"{path}.{name}") for name in ("key", "path") if not item[name]]
    return causes + file_path(item["path"], f"{path}.path") + mode(item.get("mode"), f"{path}.mode")


def file_path(value: str, path: str) -> list[Cause]:
    """Where a file stands in a volume; names with two dots at their front are used by the node."""
    causes = relative_path(value, path)
    if value.startswith("..") and not value.startswith("../"):
        causes.append(invalid(path, value, "must not start with '..'"))
    return causes


def _fields(items: Iterable[RawObject], path: str) -> list[Cause]:
    causes = []
    for item in items:
        if not item["path"]:
            causes.append(required(f"{path}.path"))
        causes += file_path(item["path"], f"{path}.path")
        if "fieldRef" in item:
            causes += field_reference(item["fieldRef"], f"{path}.fieldRef", volume=True)
            if "resourceFieldRef" in item:
                why = "fieldRef and resourceFieldRef can not be specified simultaneously"
                causes.append(invalid(path, "resource", why))
        elif "resourceFieldRef" in item:
            causes += resource_reference(item["resourceFieldRef"], f"{path}.resourceFieldRef", volume=True)
        else:
            causes.append(required(path, "one of fieldRef and resourceFieldRef is required"))
        causes += mode(item.get("mode"), f"{path}.mode")
    return causes


def _projected(source: RawObject, path: str) -> list[Cause]:
    causes = mode(source.get("defaultMode"), f"{path}.defaultMode")
    seen: set[str] = set()
    for index, part in enumerate(source.get("sources") or ()):
        place = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in part:
                causes += [] if part[kind].get("name") else [required(f"{place}.{kind}.name")]
                for number, item in enumerate(part[kind].get("items") or ()):
                    causes += _item(item, f"{place}.{kind}.items[{number}]")
                    causes += _once(item["path"], part[kind].get("name", ""), seen, path)
        if "downwardAPI" in part:
            for item in part["downwardAPI"].get("items") or ():
                causes += _fields([item], f"{place}.downwardAPI")
                causes += _once(item["path"], item["path"], seen, path)
        if "serviceAccountToken" in part:
            causes += _token(part["serviceAccountToken"], f"{place}.serviceAccountToken", path)
        if len(part) > 1:
            causes.append(forbidden(place, "may not specify more than 1 volume type per source"))
    return causes


def _once(where: str, shown: str, seen: set[str], path: str) -> list[Cause]:
    if where in seen:
        return [invalid(path, shown, "conflicting duplicate paths")]
    if where:
        seen.add(where)
    return []


def _token(token: RawObject, place: str, path: str) -> list[Cause]:
    causes, seconds = [], token["expirationSeconds"]
    if seconds < _SHORTEST_TOKEN:
        why = "may not specify a duration less than 10 minutes"
        causes.append(invalid(f"{place}.expirationSeconds", seconds, why))
    if seconds > _MAX_TOKEN:
        why = "may not specify a duration larger than 2^32 seconds"
        causes.append(invalid(f"{place}.expirationSeconds", seconds, why))
    if not token["path"]:
        return [*causes, required(f"{path}.path")]
    return causes + file_path(token["path"], f"{path}.path")


_CHECKS: Mapping[str, Callable[[RawObject, str], list[Cause]]] = {
    "emptyDir": _empty,
    "hostPath": _host_path,
    "secret": lambda source, path: _files(source, "secretName", path),
    "configMap": lambda source, path: _files(source, "name", path),
    "downwardAPI": _downward,
    "projected": _projected,
    "ephemeral": _ephemeral,
    "persistentVolumeClaim": _claim,
    "nfs": _nfs,
}
