"""Writes what config/ has of each capability: `python hack/config.py [config] [--check]`, run by `make manifests`.

From `api/capabilities.py` come the roles of the operator and their bindings, the roles of people, the list of the
definitions, one kustomize component per capability that leaves it out, and what an installation for one namespace has
instead. The rest of config/ is written by hand and not touched here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from edgewright.api.capabilities import (
    CAPABILITIES,
    FLASHJOB,
    SECRET_CHECK,
    SHARED,
    Capability,
    Rule,
    console_rules,
    kinds_of,
)
from edgewright.api.manifests import manifests, render
from edgewright.api.user_roles import user_roles

GENERATED: Final = "# Generated from edgewright/api/capabilities.py; do not edit. After a change: make manifests"
CAPABILITY_LABEL: Final = "edgewright.dev/capability"
"""What everything has in config/ that belongs to one capability alone: the component that leaves it out goes by it."""
CONSOLE_LABEL: Final = "edgewright.dev/aggregate-to-console"
"""What the ClusterRoles have whose rights the console has: an administrator can add some for foreign kinds."""
CLUSTER_WIDE: Final = frozenset({("", "namespaces"), ("", "nodes"), ("coordination.k8s.io", "leases")})
"""What the operator reads outside its namespace even where it works in one: nodes have none, and the original operator,
for which it waits, is in another."""
_ACCOUNT: Final = "controller-manager"
_NAMESPACED: Final = """\
# The operator in its own namespace alone: Roles there, and a small ClusterRole for what has no namespace. `make deploy
# CONFIG=config/namespaced`. The definitions are for the whole cluster all the same: somebody who may must install them.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - ../default
  - roles.yaml
patches:
  - target:
      kind: ClusterRole|ClusterRoleBinding
      name: edgewright-(%NAMES%)-role(binding)?
    patch: |-
      $patch: delete
      apiVersion: v1
      kind: Any
      metadata:
        name: any
  - target:
      kind: Deployment
      name: edgewright-controller-manager
    patch: |-
      - op: add
        path: /spec/template/spec/containers/0/args/-
        value: --watch-namespace=$(POD_NAMESPACE)
"""
_NAMESPACE: Final = "edgewright-system"
_RBAC: Final = "rbac.authorization.k8s.io"


def files(capabilities: Sequence[Capability] = CAPABILITIES) -> dict[str, str]:
    """The text of every generated file by its path in config/."""
    found = {
        "crd/kustomization.yaml": _definitions(),
        "rbac/role.yaml": _roles(capabilities),
        "rbac/role_binding.yaml": _bindings(capabilities),
        "rbac/user_roles.yaml": _user_roles(capabilities),
        "namespaced/roles.yaml": _namespaced(capabilities),
        "namespaced/kustomization.yaml": _NAMESPACED.replace("%NAMES%", "|".join(("manager", *_names(capabilities)))),
        "no-secret-check/kustomization.yaml": _no_secret_check(),
        "console/kinds_role.yaml": _console_role(),
    }
    for each in capabilities:
        found[f"without/{each.name}/kustomization.yaml"] = _without(each, capabilities)
    return {path: f"{GENERATED}\n{text}" for path, text in found.items()}


def _console_role() -> str:
    """Our kinds, for the console's shared cache; by its label it becomes part of the console's role."""
    labels = {CONSOLE_LABEL: "true"}
    return _role("console-kinds-role", "what the console reads of our kinds", console_rules(), labels=labels)


def _names(capabilities: Iterable[Capability]) -> list[str]:
    return [each.name for each in capabilities]


def _definitions() -> str:
    return "".join(
        [
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n",
            *(f"  - bases/{name}\n" for name in manifests()),
        ]
    )


def _user_roles(capabilities: Iterable[Capability]) -> str:
    """Roles to bind people to: who may look, who may change, and who may approve."""
    return "---\n".join(_role(each.name, each.summary, each.rules, each.owner) for each in user_roles(capabilities))


def _namespaced(capabilities: Sequence[Capability]) -> str:
    """What the operator may do where it works in its own namespace alone, with all names as they are installed."""
    wide = {(each.kind.group, each.kind.plural) for each in kinds_of(capabilities) if not each.kind.namespaced}
    wide |= CLUSTER_WIDE
    found = []
    for owner, rules in ((None, SHARED), *((each, each.rules) for each in capabilities)):
        name = "manager" if owner is None else owner.name
        summary = "what every capability needs" if owner is None else owner.summary
        parts = [split(rule, wide) for rule in rules]
        for kind, number in (("Role", 0), ("ClusterRole", 1)):
            kept = [part[number] for part in parts if part[number] is not None]
            if not kept:
                continue
            full = f"edgewright-{name}-namespaced-role"
            found.append(_role(full, f"{summary}, in one namespace", [each for each in kept if each], owner, kind))
            found.append(_binding(full, kind, owner))
    return "---\n".join(found)


def _no_secret_check() -> str:
    """A component for an operator that does not look for the Secrets of FlashJobs, and may not."""
    wide = {(each.kind.group, each.kind.plural) for each in kinds_of(CAPABILITIES) if not each.kind.namespaced}
    namespaced = [each[0] for rule in FLASHJOB.rules if (each := split(rule, wide | CLUSTER_WIDE))[0] is not None]
    places = {
        ("ClusterRole", "(edgewright-)?flashjob-role"): FLASHJOB.rules.index(SECRET_CHECK),
        ("Role", "edgewright-flashjob-namespaced-role"): namespaced.index(SECRET_CHECK),
    }
    lines = [
        "# The operator without the right to get the Secrets that FlashJobs name: what is missing is told by the",
        "# Events of the Pod that waits for it. `make deploy ARGS=--no-check-secrets` has it too.",
        "apiVersion: kustomize.config.k8s.io/v1alpha1",
        "kind: Component",
        "patches:",
    ]
    for (kind, name), number in places.items():
        lines += ["  - target:", f"      kind: {kind}", f"      name: {name}", "    patch: |-"]
        lines += ["      - op: test", f"        path: /rules/{number}/resources", "        value: [secrets]"]
        lines += ["      - op: remove", f"        path: /rules/{number}"]
    lines += ["  - target:", "      kind: Deployment", "      name: (edgewright-)?controller-manager", "    patch: |-"]
    lines += ["      - op: add", "        path: /spec/template/spec/containers/0/args/-"]
    lines += ["        value: --no-check-secrets"]
    return "".join(f"{line}\n" for line in lines)


def split(rule: Rule, wide: Collection[tuple[str, str]]) -> tuple[Rule | None, Rule | None]:
    """The parts of a rule for one namespace and for the whole cluster."""

    def part(*, cluster: bool) -> Rule | None:
        kept = tuple(
            each
            for each in rule.resources
            if any((group, each.partition("/")[0]) in wide for group in rule.groups) is cluster
        )
        return replace(rule, resources=kept) if kept else None

    return part(cluster=False), part(cluster=True)


def _binding(role: str, kind: str, owner: Capability | None) -> str:
    namespace = {} if kind == "ClusterRole" else {"namespace": _NAMESPACE}
    labels = {} if owner is None else {"labels": {CAPABILITY_LABEL: owner.name}}
    return render(
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": {"name": f"{role}binding", **namespace, **labels},
            "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": f"edgewright-{_ACCOUNT}", "namespace": _NAMESPACE}],
        }
    )


def _roles(capabilities: Iterable[Capability]) -> str:
    shared = _role("manager-role", "what every capability needs", SHARED)
    return "---\n".join(
        [shared, *(_role(f"{each.name}-role", each.summary, each.rules, each) for each in capabilities)]
    )


def _role(
    name: str,
    summary: str,
    rules: Iterable[Rule],
    owner: Capability | None = None,
    kind: str = "ClusterRole",
    *,
    labels: Mapping[str, str] | None = None,
) -> str:
    """A role with the reason of each right above it."""
    labels = {**({CAPABILITY_LABEL: owner.name} if owner is not None else {}), **(labels or {})}
    lines = [f"# {summary}", f"apiVersion: {_RBAC}/v1", f"kind: {kind}", "metadata:", f"  name: {name}"]
    if kind == "Role":
        lines.append(f"  namespace: {_NAMESPACE}")
    if labels:
        lines += ["  labels:", *(f"    {label}: {_quoted(value)}" for label, value in labels.items())]
    lines.append("rules:")
    for rule in rules:
        lines.append(f"  # {rule.why}")
        values = {"apiGroups": rule.groups, "resources": rule.resources, "verbs": rule.verbs}
        for number, (field, listed) in enumerate(values.items()):
            quoted = ", ".join(value or '""' for value in listed)
            lines.append(f"  {'- ' if number == 0 else '  '}{field}: [{quoted}]")
    return "".join(f"{line}\n" for line in lines)


def _quoted(value: str) -> str:
    """A label's value, which YAML must not read as anything but text."""
    return f'"{value}"' if value in {"true", "false"} else value


def _bindings(capabilities: Iterable[Capability]) -> str:
    bound: list[tuple[str, dict[str, dict[str, str]]]] = [("manager", {})]
    bound += [(each.name, {"labels": {CAPABILITY_LABEL: each.name}}) for each in capabilities]
    return "---\n".join(
        render(
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{name}-rolebinding", **more},
                "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": f"{name}-role"},
                "subjects": [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": "system"}],
            }
        )
        for name, more in bound
    )


def _without(capability: Capability, capabilities: Sequence[Capability]) -> str:
    """A component that takes everything of a capability away, but for kinds that another one has as well."""
    others = kinds_of(each for each in capabilities if each is not capability)
    names = [kind.kind.resource.replace(".", r"\.") for kind in capability.kinds if kind not in others]
    targets = [f"labelSelector: {CAPABILITY_LABEL}={capability.name}"]
    if names:
        targets.append(f"kind: CustomResourceDefinition\n      name: '{'|'.join(names)}'")
    lines = [
        f"# Leaves out {capability.name}: its rights, its kinds, and what runs for it alone.",
        "apiVersion: kustomize.config.k8s.io/v1alpha1",
        "kind: Component",
        "patches:",
    ]
    for target in targets:
        # What a patch says of itself does not count where it has a target, but must be there.
        lines += ["  - target:", f"      {target}", "    patch: |-", "      $patch: delete"]
        lines += ["      apiVersion: v1", "      kind: Any", "      metadata:", "        name: any"]
    return "".join(f"{line}\n" for line in lines)


def write(directory: Path, wanted: dict[str, str], *, check: bool = False) -> list[Path]:
    """The files that differ from what they must be, put right unless this is a check."""
    changed = []
    for name, text in wanted.items():
        path = directory / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        changed.append(path)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in sorted((directory / "without").glob("*/kustomization.yaml")):
        if str(path.relative_to(directory)) not in wanted and path.read_text(encoding="utf-8").startswith(GENERATED):
            changed.append(path)
            if not check:
                path.unlink()
                path.parent.rmdir()
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when everything is (now) as it must be, 1 when --check found a difference."""
    parser = argparse.ArgumentParser(description="Write what config/ has of each capability.")
    parser.add_argument("directory", type=Path, nargs="?", default=Path("config"))
    parser.add_argument("--check", action="store_true", help="write nothing, say what differs")
    options = parser.parse_args(arguments)
    changed = write(options.directory, files(), check=options.check)
    for path in changed:
        print(path)
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
