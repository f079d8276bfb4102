"""The kubeconfig by which people reach the control plane: a file of its own, or a context in a file that they have.

`edgewright up` calls it once the server listens. A file is replaced as a whole or not at all, and what somebody else
has put into it is never lost. (`runtime.kubeconfig` is the other direction: it reads such files.)
"""

from __future__ import annotations

import base64
import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from edgewright.local.access.authority import Identity
from edgewright.runtime import kubeconfig as reading
from edgewright.runtime.files import PRIVATE, write_whole
from edgewright.runtime.tls import ConfigError, read_bytes

NAME: Final = "edgewright"
"""What the cluster, the user and the context are called."""

_SECTIONS: Final = ("clusters", "users", "contexts")
# PyYAML's own, as the dumper: nodes only pass through, and both must agree on what needs a tag.
_Loader: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: type[yaml.SafeDumper | yaml.CSafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def document(*, server: str, authority: str, identity: Identity) -> dict[str, Any]:
    """A kubeconfig with one context; certificates and key stand in it, so that the file can be moved anywhere."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": NAME, "cluster": {"certificate-authority-data": _base64(authority), "server": server}},
        ],
        "users": [
            {
                "name": NAME,
                "user": {
                    "client-certificate-data": _base64(identity.certificate),
                    "client-key-data": _base64(identity.key),
                },
            },
        ],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a kubeconfig of our own, readable by nobody else; ConfigError where another one would be lost."""
    target = _target(path)
    with _errors(path):
        if target.exists():
            top = reading.parse(path, read_bytes(target))
            others = {
                f"{section}[{entry.text('name')}]"
                for section in _SECTIONS
                for entry in top.mappings(section)
                if entry.text("name") != NAME
            }
            if others:
                raise ConfigError(
                    f"{path}: has {min(others)}, which is not ours: name another file, or add a context with --merge"
                )
        write_whole(target, _text(content), mode=PRIVATE)


def merge(path: Path, content: dict[str, Any]) -> None:
    """Add our cluster, user and context to a file, or replace them there; all else stays as it is.

    Its owner, fields that we do not know and the current context are kept; one is set where there was none. Group and
    others lose their rights on it, since our key is in it now. Comments go, as they do with kubectl.
    """
    target = _target(path)
    with _errors(path), _locked(target):
        if not target.exists():
            write_whole(target, _text(content), mode=PRIVATE)
            return
        there = target.stat()
        merged = merged_text(path, read_bytes(target), content)
        # Whatever could be read before, an administrator's key is in it now.
        mode = stat.S_IMODE(there.st_mode) & stat.S_IRWXU
        write_whole(target, merged, mode=mode, owner=(there.st_uid, there.st_gid))


def merged_text(path: Path, there: bytes, content: dict[str, Any]) -> bytes:
    """The text of a kubeconfig with our entries in it; `path` is for messages."""
    top = reading.parse(path, there)
    reading.merge([top])  # says what is wrong with it, before anything is changed
    if not top.values:
        return _text(content)
    # Nodes and not values: what we do not know is written as it was read, whatever YAML takes it for.
    root: yaml.MappingNode = yaml.compose(there, Loader=_Loader)  # `parse` has seen that it is one
    for section in _SECTIONS:
        _put(root, section, _node(content[section][0]))
    for name in ("apiVersion", "kind"):
        if not top.has(name):
            _set(root, name, _node(content[name]))
    if not top.text("current-context"):
        _set(root, "current-context", _node(content["current-context"]))
    return bytes(yaml.serialize(root, Dumper=_Dumper, encoding="utf-8", allow_unicode=True, width=_WIDE))


# A line break within a scalar is legal YAML that nobody can read.
_WIDE: Final = 1 << 20


def _put(root: yaml.MappingNode, section: str, entry: yaml.MappingNode) -> None:
    """Our entry into a list of entries with names, in the place of the one that has our name."""
    listed = _get(root, section)
    if not isinstance(listed, yaml.SequenceNode):  # absent, or null
        _set(root, section, yaml.SequenceNode("tag:yaml.org,2002:seq", [entry], flow_style=False))
        return
    for place, each in enumerate(listed.value):
        if (name := _get(each, "name")) is not None and name.value == NAME:
            listed.value[place] = entry
            return
    if not listed.value:
        listed.flow_style = False  # `[]` is only how an empty list is written
    listed.value.append(entry)


def _get(mapping: yaml.Node, name: str) -> yaml.Node | None:
    return next((value for key, value in mapping.value if key.value == name), None)


def _set(mapping: yaml.MappingNode, name: str, value: yaml.Node) -> None:
    for place, (key, _) in enumerate(mapping.value):
        if key.value == name:
            mapping.value[place] = (key, value)
            return
    mapping.value.append((_node(name), value))


def _node(value: Any) -> Any:
    return yaml.compose(_text(value), Loader=_Loader)


def _text(value: Any) -> bytes:
    return bytes(yaml.dump(value, Dumper=_Dumper, sort_keys=False, encoding="utf-8", width=_WIDE))


def _target(path: Path) -> Path:
    """The file that is meant, behind symbolic links; its directory is made where it is missing."""
    try:
        target = path.resolve()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        raise ConfigError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error
    return target


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """The lock that kubectl takes while it changes a kubeconfig: a file next to it."""
    lock = target.with_name(f"{target.name}.lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise ConfigError(f"{target}: another program changes it: try again, or remove {lock}") from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
