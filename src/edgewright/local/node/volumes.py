"""The volumes of a Pod as folders, and where its containers see them.

`container_start` creates them before the first container and renews them from time to time; `mountspace` puts them in
place. The files of a ConfigMap or Secret are changed as the kubelet changes them: a new folder next to the old one,
then one link that is replaced, so that a program sees all of the old content or all of the new.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgewright.local.node.environment import expand
from edgewright.local.node.sources import Missing, Sources, resource_field
from edgewright.runtime.objects import RawObject

_MODE = 0o644
_DATA = "..data"
_CONTENT = ("configMap", "secret", "downwardAPI", "projected")


@dataclass(frozen=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int = _MODE


@dataclass(frozen=True)
class Mount:
    """What a container sees where."""

    source: Path
    path: str
    read_only: bool
    inside: str = ""
    """Below the source, in a folder that a Pod writes: walked without following links when it is mounted."""

    def as_order(self) -> RawObject:
        """As the shim reads it."""
        return {"source": str(self.source), "path": self.path, "readOnly": self.read_only, "inside": self.inside}


Resources = Callable[[RawObject], str]
"""Answers a resourceFieldRef."""


def resources_of(containers: Mapping[str, RawObject], capacity: Mapping[str, str]) -> Resources:
    """Answers each resourceFieldRef of a Pod's volumes, which names the container that it means."""

    def answer(reference: RawObject) -> str:
        container = containers.get(reference.get("containerName", ""))
        if container is None:
            raise Missing(f"resourceFieldRef names no container of the Pod: {reference.get('containerName')!r}")
        return resource_field(container, reference["resource"], reference.get("divisor"), capacity)

    return answer


async def files_of(volume: RawObject, sources: Sources, resources: Resources) -> dict[str, File] | None:
    """The files of a volume by their paths; None for a volume that the Pod fills itself."""
    kind = next((name for name in _CONTENT if volume.get(name) is not None), None)
    if kind is None:
        return None
    source = volume[kind]
    mode = source.get("defaultMode", _MODE)
    if kind != "projected":
        return await _files(kind, source, sources, mode, resources)
    found: dict[str, File] = {}
    for each in source.get("sources") or ():
        for name, inner in each.items():
            found |= await _files(name, inner, sources, mode, resources)
    return found


async def _files(kind: str, source: RawObject, sources: Sources, mode: int, resources: Resources) -> dict[str, File]:
    optional = bool(source.get("optional"))
    if kind == "downwardAPI":
        return {
            _inside(each["path"]): File(_field(each, sources, resources), each.get("mode", mode))
            for each in source.get("items") or ()
        }
    if kind == "serviceAccountToken":
        token = await sources.token(audience=source.get("audience"), seconds=source.get("expirationSeconds", 3600))
        return {_inside(source["path"]): File(token, mode)}
    if kind == "configMap":
        name = source.get("name", "")
        content = await sources.config_map(name, optional=optional)
    else:
        name = source.get("secretName") or source.get("name", "")
        content = await sources.secret(name, optional=optional)
    return _chosen(content or {}, source.get("items"), mode, f"{kind} {name}", optional=optional)


def _chosen(
    content: Mapping[str, bytes], items: Iterable[RawObject] | None, mode: int, what: str, *, optional: bool
) -> dict[str, File]:
    if not items:
        return {_inside(key): File(value, mode) for key, value in content.items()}
    found = {}
    for item in items:
        value = content.get(item["key"])
        if value is None:
            if optional:
                continue
            raise Missing(f"{what} has no key {item['key']}")
        found[_inside(item["path"])] = File(value, item.get("mode") or mode)
    return found


def _field(each: RawObject, sources: Sources, resources: Resources) -> bytes:
    if reference := each.get("fieldRef"):
        return sources.field(reference["fieldPath"]).encode()
    return resources(each["resourceFieldRef"]).encode()


def _inside(path: str) -> str:
    """A relative path that stays where it belongs."""
    parts = path.split("/")
    if path.startswith("/") or not path or ".." in parts:
        raise Missing(f"{path!r} is not a path inside a volume")
    return path


@dataclass(frozen=True)
class Owner:
    """Whose the files of a volume are; `shared` lets the group read them whatever their mode, as fsGroup does."""

    uid: int
    gid: int
    shared: bool = False


def write_files(folder: Path, files: Mapping[str, File], *, owner: Owner | None = None) -> bool:
    """Makes a folder hold exactly these files, at one moment; False where it did already."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    if owner is not None and owner.shared:
        files = {path: File(file.content, file.mode | 0o440) for path, file in files.items()}
    data = folder / _DATA
    if data.is_symlink() and _same(data, files):
        return False
    version = folder / f"..{time.strftime('%Y_%m_%d_%H_%M_%S')}.{time.monotonic_ns()}"
    version.mkdir(mode=0o755)
    for path, file in files.items():
        place = version / path
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        place.write_bytes(file.content)
        place.chmod(file.mode)
        if owner is not None:
            os.chown(place, owner.uid, owner.gid)
    before = data.readlink() if data.is_symlink() else None
    link = folder / f"{_DATA}_new"
    link.unlink(missing_ok=True)
    link.symlink_to(version.name)
    link.rename(data)
    _link_tops(folder, {path.split("/")[0] for path in files})
    if before is not None:
        shutil.rmtree(folder / before, ignore_errors=True)
    return True


def _link_tops(folder: Path, wanted: set[str]) -> None:
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in wanted:
            entry.unlink()
    for name in wanted:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"{_DATA}/{name}")


def _same(data: Path, files: Mapping[str, File]) -> bool:
    present = {str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()}
    return present == files.keys() and all(
        (data / path).read_bytes() == file.content and (data / path).stat().st_mode & 0o777 == file.mode
        for path, file in files.items()
    )


def make_empty(folder: Path, *, group: int | None) -> None:
    """A folder that every user of the Pod may write to, as emptyDir is."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    if group is not None:
        os.chown(folder, -1, group)
        folder.chmod(0o2777)


def mounts_of(
    container: RawObject,
    pod: RawObject,
    folder: Path,
    values: Mapping[str, str],
    claims: Mapping[str, Path] | None = None,
) -> list[Mount]:
    """Where a container sees the volumes that lie in a folder; a subPath that is missing is made.

    `claims` says where the volumes lie that are claims, by their names.
    """
    volumes = {volume["name"]: volume for volume in pod.get("volumes") or ()}
    found = []
    for each in container.get("volumeMounts") or ():
        volume = volumes.get(each["name"])
        if volume is None:
            raise Missing(f"container {container['name']}: there is no volume {each['name']}")
        source = (claims or {}).get(each["name"]) or folder / each["name"]
        sub = expand(each["subPathExpr"], values) if each.get("subPathExpr") else each.get("subPath") or ""
        claim = volume.get("persistentVolumeClaim")
        content = volume.get("emptyDir") is None and claim is None
        inside = ""
        if sub and content:
            source = _in_content(source, _inside(sub))
        elif sub:
            make_sub_path(source, _inside(sub))
            inside = "/".join(_steps(sub))
        path = os.path.normpath(each["mountPath"])
        path = path if path.startswith("/") else f"/{path}"
        read_only = bool(each.get("readOnly")) or content or bool(claim and claim.get("readOnly"))
        found.append(Mount(source, path, read_only, inside))
    return found


def _in_content(volume: Path, sub: str) -> Path:
    """A path below a volume that only the node writes: its own links are followed, and none leads out."""
    inside = (volume / sub).resolve()
    if not inside.is_relative_to(volume.resolve()):
        raise Missing(f"subPath {sub!r} leads out of its volume")
    if not inside.exists():
        raise Missing(f"subPath {sub!r} is not in its volume")
    return inside


def make_sub_path(volume: Path, sub: str) -> None:
    """Makes folders below a volume that a Pod writes, step by step from its descriptor.

    A Pod can put links into such a volume, and change them at any time: none is ever followed, here or when
    `mountspace` walks there again, or they would lead a node that is root anywhere on the machine.
    """
    folder = os.open(volume, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        *above, last = _steps(sub)
        for name in above:
            folder = _step_into(folder, name)
        if not _is_file(folder, last):
            folder = _step_into(folder, last)
    except OSError as error:
        raise Missing(f"subPath {sub!r} leads out of its volume: {error.strerror}") from None
    finally:
        os.close(folder)


def inode_of(mount: Mount) -> tuple[int, int]:
    """What a mount of a part of a volume must show: reached from the volume without following a link."""
    place = os.open(mount.source, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in _steps(mount.inside):
            inner = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = inner
        found = os.fstat(place)
        if stat.S_ISLNK(found.st_mode):
            raise Missing(f"subPath {mount.inside!r} leads out of its volume")
        return found.st_dev, found.st_ino
    finally:
        os.close(place)


def _steps(sub: str) -> list[str]:
    return [name for name in sub.split("/") if name not in {"", "."}] or ["."]


def _step_into(folder: int, name: str) -> int:
    """The descriptor of a folder in a folder, made where it is missing; the outer one is closed."""
    try:
        os.mkdir(name, 0o777, dir_fd=folder)
        made = True
    except FileExistsError:
        made = False
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    if made:
        os.fchmod(inner, 0o777)
    os.close(folder)
    return inner


def _is_file(folder: int, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
