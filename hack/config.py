"""Writes what config/ has of each capability: `python hack/config.py [config] [--check]`, run by `make manifests`.

From `api/capabilities.py` come the ClusterRoles and their bindings, the list of the definitions, and one kustomize
component per capability that leaves it out. The rest of config/ is written by hand and not touched here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from edgewright.api.capabilities import CAPABILITIES, SHARED, Capability, Rule, kinds_of
from edgewright.api.manifests import manifests, render

GENERATED: Final = "# Generated from edgewright/api/capabilities.py; do not edit. After a change: make manifests"
CAPABILITY_LABEL: Final = "edgewright.dev/capability"
"""What everything has in config/ that belongs to one capability alone: the component that leaves it out goes by it."""
_ACCOUNT: Final = "controller-manager"
_RBAC: Final = "rbac.authorization.k8s.io"


def files(capabilities: Sequence[Capability] = CAPABILITIES) -> dict[str, str]:
    """The text of every generated file by its path in config/."""
    found = {
        "crd/kustomization.yaml": _definitions(),
        "rbac/role.yaml": _roles(capabilities),
        "rbac/role_binding.yaml": _bindings(capabilities),
    }
    for each in capabilities:
        found[f"without/{each.name}/kustomization.yaml"] = _without(each, capabilities)
    return {path: f"{GENERATED}\n{text}" for path, text in found.items()}


def _definitions() -> str:
    return "".join(
        [
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n",
            *(f"  - bases/{name}\n" for name in manifests()),
        ]
    )


def _roles(capabilities: Iterable[Capability]) -> str:
    shared = _role("manager-role", "what every capability needs", SHARED)
    return "---\n".join(
        [shared, *(_role(f"{each.name}-role", each.summary, each.rules, each) for each in capabilities)]
    )


def _role(name: str, summary: str, rules: Iterable[Rule], owner: Capability | None = None) -> str:
    """A ClusterRole with the reason of each right above it."""
    lines = [f"# {summary}", f"apiVersion: {_RBAC}/v1", "kind: ClusterRole", "metadata:", f"  name: {name}"]
    if owner is not None:
        lines += ["  labels:", f"    {CAPABILITY_LABEL}: {owner.name}"]
    lines.append("rules:")
    for rule in rules:
        lines.append(f"  # {rule.why}")
        values = {"apiGroups": rule.groups, "resources": rule.resources, "verbs": rule.verbs}
        for number, (field, listed) in enumerate(values.items()):
            quoted = ", ".join(value or '""' for value in listed)
            lines.append(f"  {'- ' if number == 0 else '  '}{field}: [{quoted}]")
    return "".join(f"{line}\n" for line in lines)


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
