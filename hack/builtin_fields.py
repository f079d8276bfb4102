"""Writes what the embedded API server knows of built-in kinds: `python hack/builtin_fields.py [--check]`.

The fields come from a real API server's OpenAPI v3 documents, without their prose, and go to fields.json. What OpenAPI
does not say (which fields are told apart from their zero value, and which are written even when empty) is read from
the types of the same version in the Go module cache, and goes to forms.json. Both have one definition a line.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hack.kubernetes import build  # noqa: E402  only the repository's root makes it importable
from tests.harness import ControlPlane  # noqa: E402  so it does

TARGET = ROOT / "src" / "edgewright" / "local" / "structs"
DOCUMENTS = (
    "api/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apps/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/batch/v1",
    "apis/coordination.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
)
DISCOVERY = ("api", "apis", "apis/coordination.k8s.io", "version")
"""The documents of what is answered next to kinds; every group's own document is the same."""
_CORE, _META = "io.k8s.api.core.v1", "io.k8s.apimachinery.pkg.apis.meta.v1"
_LISTED = (
    *(f"{_CORE}.{kind}" for kind in ("ConfigMap", "Event", "Namespace", "Node", "Pod", "PodTemplate", "Secret")),
    *(f"{_CORE}.{kind}" for kind in ("PersistentVolume", "PersistentVolumeClaim", "Service", "ServiceAccount")),
    *(f"io.k8s.api.apps.v1.{kind}" for kind in ("ControllerRevision", "DaemonSet", "Deployment")),
    *(f"io.k8s.api.apps.v1.{kind}" for kind in ("ReplicaSet", "StatefulSet")),
    *(f"io.k8s.api.batch.v1.{kind}" for kind in ("CronJob", "Job")),
    "io.k8s.api.coordination.v1.Lease",
    "io.k8s.api.discovery.v1.EndpointSlice",
    "io.k8s.api.events.v1.Event",
    "io.k8s.api.policy.v1.PodDisruptionBudget",
    *(f"io.k8s.api.rbac.v1.{kind}" for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
)
ROOTS = (
    *_LISTED,
    *(f"{kind}List" for kind in _LISTED),
    f"{_CORE}.Binding",
    *(f"io.k8s.api.authentication.v1.{kind}" for kind in ("SelfSubjectReview", "TokenRequest", "TokenReview")),
    *(f"io.k8s.api.authorization.v1.{kind}Review" for kind in ("SelfSubjectAccess", "SelfSubjectRules")),
    *(f"io.k8s.api.authorization.v1.{kind}Review" for kind in ("LocalSubjectAccess", "SubjectAccess")),
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.api.policy.v1.Eviction",
    *(f"{_META}.{kind}" for kind in ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions")),
    *(f"{_META}.{kind}" for kind in ("DeleteOptions", "Patch", "Status", "WatchEvent")),
    "io.k8s.apimachinery.pkg.version.Info",
)
"""What is served, what lists it, and what every API server speaks."""
_REFERENCE = "#/components/schemas/"
PACKAGES = {
    "io.k8s.api.": "k8s.io/api",
    "io.k8s.apimachinery.": "k8s.io/apimachinery",
    "io.k8s.apiextensions-apiserver.": "k8s.io/apiextensions-apiserver",
}
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?(\S+)\s+`json:\"([^\"]*)\"", re.MULTILINE)
_NEVER_EMPTY = ("Time", "MicroTime", "Quantity", "IntOrString")
"""Structs with a JSON form of their own, which Go does not take for empty."""


def fields(components: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions that `ROOTS` reach, without prose and without groups that are not served."""
    found: dict[str, Any] = {}
    waiting = [name for name in ROOTS if name in components]
    if missing := set(ROOTS) - set(waiting):
        raise SystemExit(f"this API server's OpenAPI has no {', '.join(sorted(missing))}")
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _plain(components[name])
            waiting += _references(components[name])
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference.removeprefix(_REFERENCE)
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without descriptions; a property may be called `description`, so names and keywords are told apart."""
    plain: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "description":
            continue
        if keyword == "properties":
            plain[keyword] = {name: _plain(child) for name, child in value.items()}
        elif keyword in ("items", "additionalProperties", "not") and isinstance(value, dict):
            plain[keyword] = _plain(value)
        elif keyword in ("allOf", "anyOf", "oneOf"):
            plain[keyword] = [_plain(child) for child in value]
        elif keyword == "x-kubernetes-group-version-kind":
            plain[keyword] = [kind for kind in value if _is_served(kind)]
        else:
            plain[keyword] = value
    return plain


def _is_served(kind: Mapping[str, str]) -> bool:
    group, version = kind["group"], kind["version"]
    document = f"apis/{group}/{version}" if group else f"api/{version}"
    return document in DOCUMENTS or kind["kind"] == "Scale"


def forms(definitions: Mapping[str, Any], directories: Mapping[str, Path]) -> dict[str, Any]:
    """For each definition its fields that are pointers to plain values, and those written even when they are empty."""
    found = {}
    for name, schema in definitions.items():
        root = next((root for root in PACKAGES if name.startswith(root)), None)
        if root is None or "properties" not in schema:
            continue
        package, _, kind = name.removeprefix(root).rpartition(".")
        structs = structs_of(directories[PACKAGES[root]] / package.replace(".", "/"))
        members = dict(_members(structs, kind))
        pointers = [field for field, (form, _) in members.items() if form.startswith("*")]
        plain = [field for field in members if _is_plain(schema["properties"].get(field, {}))]
        form = {
            "kept": sorted(field for field, (form, tags) in members.items() if _is_kept(form, tags)),
            "named": {field: _name(members[field][0], package) for field in plain if _is_named(members[field][0])},
            "pointer": sorted(
                field for field in pointers if field in plain or _is_special(schema["properties"].get(field, {}))
            ),
        }
        if any(form.values()):
            found[name] = {key: names for key, names in form.items() if names}
    return found


def _is_named(form: str) -> bool:
    return form.lstrip("*") not in ("bool", "float64", "int32", "int64", "string", "[]byte")


def _name(form: str, package: str) -> str:
    """What Go's messages call a type: its package's last name and its own."""
    plain = form.lstrip("*")
    _, dot, own = plain.rpartition(".")
    if dot:
        return f"types.{own}" if plain.startswith("types.") else f"v1.{own}"
    return f"{package.rpartition('.')[2]}.{own}"


def structs_of(package: Path) -> dict[str, str]:
    """The bodies of the Go structs of a package by their names."""
    return {
        name: body
        for file in sorted(package.glob("*types*.go"))
        for name, body in _STRUCT.findall(file.read_text(encoding="utf-8"))
    }


def _members(structs: Mapping[str, str], kind: str) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """The JSON fields of a Go struct with their types and tags, with those of the structs inlined in it."""
    for _, form, tag in _FIELD.findall(structs.get(kind, "")):
        name, *tags = tag.split(",")
        if "inline" in tags:
            yield from _members(structs, form.rpartition(".")[2])
        elif name not in ("", "-"):
            yield name, (form, tags)


def _is_kept(form: str, tags: list[str]) -> bool:
    if "omitzero" in tags:
        return False
    return "omitempty" not in tags or (
        form.rpartition(".")[2] in _NEVER_EMPTY and not form.startswith(("*", "[", "map["))
    )


def _is_plain(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") in ("boolean", "integer", "number", "string")


def _is_special(schema: Mapping[str, Any]) -> bool:
    """Whether it is a number or an amount that may also be a text, which has a zero value of its own."""
    return any(name.endswith((".IntOrString", ".Quantity")) for name in _references(dict(schema)))


def rendered(definitions: Mapping[str, Any]) -> str:
    """JSON with one definition a line, in a fixed order."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(definitions[name], sort_keys=True, separators=(',', ':'))}"
        for name in sorted(definitions)
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _components(control_plane: ControlPlane) -> dict[str, Any]:
    documents = [control_plane.request("GET", f"/openapi/v3/{document}") for document in (*DOCUMENTS, *DISCOVERY)]
    return {name: schema for document in documents for name, schema in document["components"]["schemas"].items()}


def directories(modules: Iterable[str]) -> dict[str, Path]:
    """Where Go keeps the sources of these modules, in the version that the tests' Kubernetes is built from."""
    go = build.find_go()
    command = [go, "list", "-m", "-f", "{{.Path}} {{.Dir}}", *modules]
    answer = subprocess.run(
        command,
        cwd=ROOT / "hack" / "kubernetes",
        env=build.go_environment(go),
        capture_output=True,
        text=True,
        check=True,
    )
    return {module: Path(path) for module, path in (line.split() for line in answer.stdout.splitlines())}


def main() -> int:
    """Writes both files, or says which is not as it would be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, and fail where a file would change")
    check = parser.parse_args().check
    with ControlPlane() as control_plane:
        definitions = fields(_components(control_plane))
    wanted = {
        "fields.json": rendered(definitions),
        "forms.json": rendered(forms(definitions, directories(PACKAGES.values()))),
    }
    stale = [
        name
        for name, text in wanted.items()
        if not (TARGET / name).exists() or (TARGET / name).read_text(encoding="utf-8") != text
    ]
    if check and stale:
        print(f"{', '.join(stale)} in {TARGET.relative_to(ROOT)} differ: run `python hack/builtin_fields.py`")
        return 1
    for name in stale:
        (TARGET / name).write_text(wanted[name], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
