"""Writes what charts/edgewright has of config/: `python -m hack.chart [--check]`, run by `make manifests`.

The objects that `make deploy` applies become templates, with names, namespace and settings left to Helm; the rights
come from `api/capabilities.py` as they do in config/. Chart.yaml, the values, their schema and the helpers are written
by hand and not touched here.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from edgewright.api.capabilities import CAPABILITIES, SHARED, Rule, kinds_of
from edgewright.api.manifests import manifests, render
from edgewright.runtime.yaml_loader import load
from hack.config import CAPABILITY_LABEL, CLUSTER_WIDE, split

GENERATED: Final = (
    "{{- /* Generated from config/ and edgewright/api/capabilities.py; do not edit: make manifests */ -}}\n"
)
CONFIG: Final = Path(__file__).resolve().parents[1] / "config"
SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "manager": ("manager/manager.yaml",),
    "metrics-service": ("manager/metrics_service.yaml",),
    "disruption-budget": ("manager/disruption_budget.yaml",),
    "service-account": ("rbac/service_account.yaml",),
    "leader-election": ("rbac/leader_election_role.yaml", "rbac/leader_election_role_binding.yaml"),
    "metrics-access": ("rbac/metrics_auth_role.yaml", "rbac/metrics_reader_role.yaml"),
    "user-roles": ("rbac/user_roles.yaml",),
    "gateway": tuple(
        f"gateway/{name}.yaml" for name in ("service_account", "role", "role_binding", "gateway", "service")
    ),
    "console": tuple(
        f"console/{name}.yaml"
        for name in ("service_account", "role", "kinds_role", "role_binding", "console", "service")
    ),
    "console-impersonation": tuple(f"console-impersonation/{name}.yaml" for name in ("role", "role_binding")),
    "network-policy": tuple(
        f"network-policy/{name}.yaml" for name in ("allow-metrics-traffic", "allow-agents", "allow-portals")
    ),
    "monitor": ("prometheus/monitor.yaml",),
    "gateway-monitor": ("prometheus/gateway_monitor.yaml",),
    "alerts": ("prometheus/rules.yaml",),
}
"""The files of config/ that each template is made of."""
_GATEWAY: Final = '.Values.gateway.enabled (include "edgewright.has" (list . "edge"))'
CONDITIONS: Final = {
    "gateway": f"(and {_GATEWAY})",
    "console": ".Values.console.enabled",
    "console-impersonation": "(and .Values.console.enabled .Values.console.oidc.impersonation.prefix)",
    "network-policy": ".Values.networkPolicy.enabled",
    "monitor": ".Values.prometheus.serviceMonitor",
    "gateway-monitor": f"(and .Values.prometheus.serviceMonitor {_GATEWAY})",
    "alerts": ".Values.prometheus.rules",
    "user-roles": ".Values.userRoles",
}
"""What a template depends on as a whole."""
_FULL: Final = 'include "edgewright.fullname" .'
# In rendered YAML a mark is a word that needs no quotes: what Helm evaluates there, in hexadecimal.
_MARK: Final = re.compile(r"helmx([0-9a-f]+)x")
_LINES: Final = re.compile(r"^( *)(?:- )?linesx([0-9a-f]+)x.*$", re.MULTILINE)


def files() -> dict[str, str]:
    """The text of every generated file by its path in the chart."""
    found = {f"templates/{name}.yaml": GENERATED + _template(name, paths) for name, paths in SOURCES.items()}
    found["templates/_rules.tpl"] = GENERATED + _rules()
    found["templates/pre-delete-role.yaml"] = GENERATED + _guard()
    definitions = manifests()
    for capability in CAPABILITIES:
        for kind in capability.kinds:
            (name,) = (each for each in definitions if each.endswith(f"_{kind.kind.plural}.yaml"))
            document = load(definitions[name])
            # What people declared outlives the operator: Helm leaves the definitions where they are.
            document["metadata"].setdefault("annotations", {})["helm.sh/resource-policy"] = "keep"
            found[f"files/crds/{capability.name}/{name}"] = render(document)
    return found


def _template(name: str, paths: Iterable[str]) -> str:
    texts = [part for path in paths for part in (CONFIG / path).read_text(encoding="utf-8").split("\n---\n")]
    objects: list[Any] = [load(text) for text in texts]
    text = "---\n".join(_object(each) for each in objects if each["kind"] != "Namespace")
    return f"{{{{- if {CONDITIONS[name]} }}}}\n{text}{{{{- end }}}}\n" if name in CONDITIONS else text


def _object(document: dict[str, Any]) -> str:
    metadata = document["metadata"]
    capability = metadata.get("labels", {}).get(CAPABILITY_LABEL)
    metadata["name"] = _named(metadata["name"])
    if "namespace" in metadata:
        metadata["namespace"] = _mark(".Release.Namespace")
    metadata["labels"] = {**metadata.get("labels", {}), _lines_of("edgewright.labels"): ""}
    if "roleRef" in document:
        document["roleRef"]["name"] = _named(document["roleRef"]["name"])
        for subject in document["subjects"]:
            subject |= {"name": _named(subject["name"]), "namespace": _mark(".Release.Namespace")}
    _ADAPT.get((document["kind"], metadata["name"].removeprefix(f"{_mark(_FULL)}-")), lambda _: None)(document)
    if document["kind"] not in {"ServiceMonitor", "PrometheusRule"}:
        _select(document)
    text = _helm(render(document))
    if capability is None:
        return text
    return f'{{{{- if include "edgewright.has" (list . "{capability}") }}}}\n{text}{{{{- end }}}}\n'


def _named(name: str) -> str:
    return f"{_mark(_FULL)}-{name}"


def _mark(expression: str) -> str:
    return f"helmx{expression.encode().hex()}x"


def _lines_of(template: str) -> str:
    return f"linesx{template.encode().hex()}x"


def _select(node: Any) -> None:
    """Two releases in one namespace do not take each other's Pods for theirs."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"matchLabels", "selector", "labels"} and isinstance(value, dict) and "control-plane" in value:
                value["app.kubernetes.io/instance"] = _mark(".Release.Name")
            _select(value)
    elif isinstance(node, list):
        for each in node:
            _select(each)


def _manager(document: dict[str, Any]) -> None:
    spec = document["spec"]
    spec["replicas"] = _mark(".Values.replicas")
    pod = spec["template"]["spec"]
    pod["serviceAccountName"] = _named(pod["serviceAccountName"])
    (container,) = pod["containers"]
    given_by_values = ("--metrics-secure", "--leader-elect", "--lease-name=")
    kept = [each for each in container["args"] if not each.startswith(given_by_values)]
    container["args"] = [*kept, _lines_of("edgewright.arguments")]
    container["volumeMounts"] = _mark('include "edgewright.mounts" . | fromYamlArray | toJson')
    pod["volumes"] = _mark('include "edgewright.volumes" . | fromYamlArray | toJson')
    _shared(pod, container, "resources")


def _gateway(document: dict[str, Any]) -> None:
    pod = document["spec"]["template"]["spec"]
    pod["serviceAccountName"] = _named(pod["serviceAccountName"])
    (container,) = pod["containers"]
    document["spec"]["replicas"] = _mark(".Values.gateway.replicas")
    container["args"].append(_lines_of("edgewright.gatewayarguments"))
    _shared(pod, container, "gateway.resources")


def _console(document: dict[str, Any]) -> None:
    pod = document["spec"]["template"]["spec"]
    pod["serviceAccountName"] = _named(pod["serviceAccountName"])
    (container,) = pod["containers"]
    document["spec"]["replicas"] = _mark(".Values.console.replicas")
    kept = [each for each in container["args"] if not each.startswith("--tls-")]
    container["args"] = [*kept, _lines_of("edgewright.consolearguments")]
    container["volumeMounts"] = _mark('include "edgewright.consolemounts" . | fromYamlArray | toJson')
    pod["volumes"] = _mark('include "edgewright.consolevolumes" . | fromYamlArray | toJson')
    for probe in ("livenessProbe", "readinessProbe"):
        container[probe]["httpGet"]["scheme"] = _mark('ternary "HTTP" "HTTPS" .Values.console.behindProxy')
    _shared(pod, container, "console.resources")


def _shared(pod: dict[str, Any], container: dict[str, Any], resources: str) -> None:
    container["image"] = _mark('include "edgewright.image" .')
    container["imagePullPolicy"] = _mark(".Values.image.pullPolicy")
    container["resources"] = _mark(f"toJson .Values.{resources}")
    for name in ("imagePullSecrets", "nodeSelector", "tolerations"):
        pod[name] = _mark(f"toJson .Values.{name}")


def _lease(document: dict[str, Any]) -> None:
    document["rules"][1]["resourceNames"] = [_mark(".Values.leaderElection.leaseName")]


def _gateway_service(document: dict[str, Any]) -> None:
    document["spec"]["type"] = _mark(".Values.gateway.service.type")


def _impersonation(document: dict[str, Any]) -> None:
    document["rules"] = _mark('include "edgewright.impersonation" . | fromYamlArray | toJson')


def _console_service(document: dict[str, Any]) -> None:
    document["spec"]["type"] = _mark(".Values.console.service.type")


def _monitor(document: dict[str, Any]) -> None:
    document["spec"]["selector"]["matchLabels"]["app.kubernetes.io/instance"] = _mark(".Release.Name")


_ADAPT: Final = {
    ("ClusterRole", "console-impersonation-role"): _impersonation,
    ("Deployment", "controller-manager"): _manager,
    ("Deployment", "console"): _console,
    ("Deployment", "gateway"): _gateway,
    ("Role", "leader-election-role"): _lease,
    ("Service", "console"): _console_service,
    ("Service", "gateway"): _gateway_service,
    ("ServiceMonitor", "controller-manager-metrics-monitor"): _monitor,
}


def _helm(text: str) -> str:
    """The marks in a rendered object as what Helm evaluates; braces of others, as in alerts, stay what they are."""
    text = re.sub(r"\{\{|\}\}", lambda found: f'{{{{ "{found[0]}" }}}}', text)
    text = _LINES.sub(lambda at: f'{{{{- include "{bytes.fromhex(at[2]).decode()}" . | nindent {len(at[1])} }}}}', text)
    return _MARK.sub(lambda found: f"{{{{ {bytes.fromhex(found[1]).decode()} }}}}", text)


def _rules() -> str:
    """The rights of each capability, in one namespace and in the whole cluster, as named templates."""
    wide = {(each.kind.group, each.kind.plural) for each in kinds_of(CAPABILITIES) if not each.kind.namespaced}
    parts: list[str] = []
    for name, rules in (("manager", SHARED), *((each.name, each.rules) for each in CAPABILITIES)):
        both = [split(rule, wide | CLUSTER_WIDE) for rule in rules]
        for where, number in (("namespaced", 0), ("cluster", 1)):
            kept = [part for pair in both if (part := pair[number]) is not None]
            parts.append(f'{{{{- define "edgewright.rules.{name}.{where}" }}}}\n{_lines(kept)}{{{{- end }}}}\n')
    names = " ".join(f'"{each.name}"' for each in CAPABILITIES)
    parts.append(f'{{{{- define "edgewright.capabilities" }}}}{{{{ list {names} | toJson }}}}{{{{- end }}}}\n')
    return "".join(parts)


def _lines(rules: Iterable[Rule]) -> str:
    def listed() -> Iterator[str]:
        for rule in rules:
            yield f"{{{{- if .Values.{rule.switch} }}}}\n" if rule.switch else ""
            yield f"# {rule.why}\n"
            for number, field in enumerate(("groups", "resources", "verbs")):
                values = ", ".join(value or '""' for value in getattr(rule, field))
                yield f"{'  ' if number else '- '}{'apiGroups' if field == 'groups' else field}: [{values}]\n"
            yield "{{- end }}\n" if rule.switch else ""

    return "".join(listed())


def _guard() -> str:
    """What the hook may do that refuses to uninstall: count what there is of our kinds."""
    groups: dict[str, list[str]] = {}
    for each in kinds_of(CAPABILITIES):
        groups.setdefault(each.kind.group, []).append(each.kind.plural)
    rules = [
        Rule(groups=(group,), resources=tuple(plurals), verbs=("list",), why="sees whether any are left")
        for group, plurals in groups.items()
    ]
    lines = "".join(f"  {line}\n" for line in _lines(rules).splitlines())
    return (
        "{{- if .Values.preDelete.enabled }}\n"
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n"
        f"  name: {{{{ {_FULL} }}}}-pre-delete\n"
        '  labels:\n    {{- include "edgewright.labels" . | nindent 4 }}\n'
        '  annotations:\n    {{- include "edgewright.hook" . | nindent 4 }}\n'
        f"rules:\n{lines}{{{{- end }}}}\n"
    )


def write(directory: Path, wanted: Mapping[str, str], *, check: bool = False) -> list[Path]:
    """The files that differ from what they must be, put right unless this is a check."""
    changed = []
    for name, text in wanted.items():
        path = directory / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            changed.append(path)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    made = [*directory.glob("templates/*"), *directory.glob("files/crds/*/*.yaml")]
    for path in sorted(made):
        generated = "crds" in path.parts or path.read_text(encoding="utf-8").startswith(GENERATED)
        if generated and str(path.relative_to(directory)) not in wanted:
            changed.append(path)
            if not check:
                path.unlink()
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when everything is (now) as it must be, 1 when --check found a difference."""
    parser = argparse.ArgumentParser(description="Write what the chart has of config/.")
    parser.add_argument("directory", type=Path, nargs="?", default=Path("charts/edgewright"))
    parser.add_argument("--check", action="store_true", help="write nothing, say what differs")
    options = parser.parse_args(arguments)
    changed = write(options.directory, files(), check=options.check)
    for path in changed:
        print(path)
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
