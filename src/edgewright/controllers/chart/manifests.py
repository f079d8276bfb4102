"""What a release consists of, read from its stored manifest. Pure functions on text and plain objects.

`dependents` asks it what to watch and to compare, `status` what to show. Hooks are no part of a manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import yaml

from edgewright.runtime.objects import RawObject
from edgewright.runtime.yaml_dumper import dump
from edgewright.runtime.yaml_loader import Loader

MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "Helm")
RELEASE_NAME: Final = "meta.helm.sh/release-name"
RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"
MAX_SHOWN: Final = 256 << 10
"""How much of a manifest is shown in a status: an object may have 1.5 MiB in all."""
_POLICY: Final = "helm.sh/resource-policy"
_MASK: Final = "(hidden)"


class TypeName(NamedTuple):
    """The apiVersion and kind of an object."""

    api_version: str
    kind: str


@dataclass(frozen=True)
class Part:
    """One object of a release."""

    type: TypeName
    namespace: str
    """As it is written; empty where the release's counts, or none."""
    name: str
    body: RawObject

    @property
    def kept(self) -> bool:
        """Whether it stays when the release goes: then nobody owns it."""
        annotations = self.body.get("metadata", {}).get("annotations") or {}
        return str(annotations.get(_POLICY, "")).strip().lower() == "keep"

    def __str__(self) -> str:
        """For messages."""
        return f"{self.type.kind} {self.name}"


def parts(manifest: str) -> tuple[Part, ...]:
    """The objects in a manifest, in its order; lists are taken apart."""
    found = []
    for document in yaml.load_all(manifest, Loader=Loader):
        found += list(_parts_of(document))
    return tuple(found)


def _parts_of(document: object) -> Iterator[Part]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        return
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _parts_of(item)
        return
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if isinstance(metadata, dict) and name:
        yield Part(
            TypeName(str(document.get("apiVersion", "")), document["kind"]),
            str(metadata.get("namespace") or ""),
            str(name),
            document,
        )


def as_applied(part: Part, *, release: str, namespace: str, target: str) -> RawObject:
    """An object as Helm applied it: with its marks, and in the namespace `target` where it has one."""
    metadata = part.body["metadata"]
    marked = {
        **metadata,
        "labels": {**(metadata.get("labels") or {}), MANAGED_BY[0]: MANAGED_BY[1]},
        "annotations": {
            **(metadata.get("annotations") or {}),
            RELEASE_NAME: release,
            RELEASE_NAMESPACE: namespace,
        },
    }
    if target:
        marked["namespace"] = target
    return {**part.body, "metadata": marked}


def shown(manifest: str) -> str:
    """A manifest as a status may show it: without the content of Secrets, and not endless."""
    found = []
    for text in manifest.split("\n---\n"):
        document = text if "Secret" not in text else _without_secrets(text)
        found.append(document)
    whole = "\n---\n".join(found)
    if len(whole) <= MAX_SHOWN:
        return whole
    return whole[:MAX_SHOWN].rpartition("\n")[0] + "\n# cut: `helm get manifest` shows all of it\n"


def _without_secrets(text: str) -> str:
    documents = list(yaml.load_all(text, Loader=Loader))
    if not any(_holds_secret(each) for each in documents):
        return text
    return "---\n".join(dump(_masked(each)) for each in documents if each is not None)


def _holds_secret(document: object) -> bool:
    if not isinstance(document, Mapping):
        return False
    return document.get("kind") == "Secret" or any(_holds_secret(each) for each in document.get("items") or ())


def _masked(document: Any) -> Any:
    if not isinstance(document, Mapping):
        return document
    if document.get("kind") == "Secret":
        hidden = {
            key: dict.fromkeys(document[key], _MASK)
            for key in ("data", "stringData")
            if isinstance(document.get(key), Mapping)
        }
        return {**document, **hidden}
    if isinstance(document.get("items"), list):
        return {**document, "items": [_masked(each) for each in document["items"]]}
    return document
