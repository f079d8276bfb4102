"""config/, dist/ and the scripts that make them: what is generated is current, and nobody gets more rights than needed.

What the targets do in a cluster is in tests/acceptance.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
import yaml

from edgewright import __version__
from edgewright.api.capabilities import CAPABILITIES, FLASHJOB, SHARED, Capability, Rule, kinds_of
from edgewright.api.device import Device
from edgewright.api.edgeaccess import EdgeExecRequest, EdgeLogRequest
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.api.edgeheartbeatshard import EdgeHeartbeatShard
from edgewright.api.edgeworkloadrevision import EdgeWorkloadRevision
from edgewright.api.instance import Instance
from edgewright.cli.line import command_line
from hack import config, custom_resources, overlay

ROOT = Path(__file__).resolve().parents[2]
OTHER = Capability(
    name="other",
    summary="something else",
    kinds=(Instance, Device),
    rules=(Rule(resources=("x",), verbs=("get",), why="y"),),
)


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "config" / name).read_text(encoding="utf-8")))


def test_what_is_generated_in_config_is_current() -> None:
    assert config.write(ROOT / "config", config.files(), check=True) == []


def test_no_two_samples_in_the_kustomization_are_the_same_object() -> None:
    """Kustomize refuses those; variants of a sample lie in folders of their own."""
    names = yaml.safe_load((ROOT / "config/samples/kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    samples = [yaml.safe_load((ROOT / "config/samples" / name).read_text(encoding="utf-8")) for name in names]
    objects = [(each["kind"], each["metadata"]["name"]) for each in samples]
    assert sorted(set(objects)) == sorted(objects)


def test_every_kind_that_people_write_has_a_sample_which_its_struct_reads() -> None:
    of_programs = {EdgeHeartbeatShard, EdgeWorkloadRevision, EdgeLogRequest, EdgeExecRequest}
    kinds = {(each.kind.api_version, each.kind.kind): each for each in kinds_of(CAPABILITIES)}
    folder, found = ROOT / "config/samples", set()
    for listing in (folder / "kustomization.yaml", folder / "minicluster/kustomization.yaml"):
        for name in yaml.safe_load(listing.read_text(encoding="utf-8"))["resources"]:
            sample = yaml.safe_load((listing.parent / name).read_text(encoding="utf-8"))
            kind = kinds[sample["apiVersion"], sample["kind"]]
            assert msgspec.convert(sample, kind).metadata.name == sample["metadata"]["name"]
            found.add(kind)
    assert found == set(kinds.values()) - of_programs


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, id=f"{'-'.join(rule.resources)}") for each in CAPABILITIES for rule in (*SHARED, *each.rules)],
)
def test_no_right_is_unlimited_and_nobody_looks_through_all_secrets(rule: Rule) -> None:
    assert "*" not in (*rule.groups, *rule.resources, *rule.verbs)
    assert rule.why
    if "secrets" in rule.resources:
        assert not {"list", "watch"} & set(rule.verbs)


def test_each_capability_has_a_role_of_its_own_with_its_rules_and_reasons() -> None:
    roles = {each["metadata"]["name"]: each for each in documents("rbac/role.yaml")}
    assert list(roles) == ["manager-role", *(f"{each.name}-role" for each in CAPABILITIES)]
    text = (ROOT / "config/rbac/role.yaml").read_text(encoding="utf-8")
    for each in CAPABILITIES:
        assert len(roles[f"{each.name}-role"]["rules"]) == len(each.rules)
        assert all(f"# {rule.why}\n" in text for rule in each.rules)
    bound = {each["roleRef"]["name"]: each["subjects"] for each in documents("rbac/role_binding.yaml")}
    assert bound.keys() == roles.keys()
    assert all(
        subject == [{"kind": "ServiceAccount", "name": "controller-manager", "namespace": "system"}]
        for subject in bound.values()
    )


def test_a_component_leaves_a_capability_out_but_for_the_kinds_that_another_has() -> None:
    files = config.files((FLASHJOB, OTHER))
    left_out = yaml.safe_load(files["without/other/kustomization.yaml"])
    assert left_out["kind"] == "Component"
    first, second = (each["target"] for each in left_out["patches"])
    assert first == {"labelSelector": "edgewright.dev/capability=other"}
    assert second == {"kind": "CustomResourceDefinition", "name": r"instances\.akri\.sh"}
    roles = list(yaml.safe_load_all(files["rbac/role.yaml"]))
    assert roles[-1]["rules"] == [{"apiGroups": [""], "resources": ["x"], "verbs": ["get"]}]


def test_files_are_written_once_and_what_is_gone_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(config.write(tmp_path, config.files((FLASHJOB, OTHER)))) == 10
    assert config.write(tmp_path, config.files((FLASHJOB, OTHER))) == []
    changed = config.write(tmp_path, config.files((FLASHJOB,)))
    assert tmp_path / "without/other/kustomization.yaml" in changed
    assert not (tmp_path / "without/other").exists()
    assert config.main([str(tmp_path), "--check"]) in {0, 1}
    assert config.main([str(tmp_path)]) == 0
    assert config.main([str(tmp_path), "--check"]) == 0


def test_people_get_roles_per_kind_and_who_asks_cannot_approve() -> None:
    roles = {each["metadata"]["name"]: each for each in documents("rbac/user_roles.yaml")}
    for kind in kinds_of(CAPABILITIES):
        word, plural = kind.kind.kind.lower(), kind.kind.plural
        for who in ("viewer", "editor"):
            role = roles.pop(f"{word}-{who}-role")
            assert {tuple(rule["apiGroups"]) for rule in role["rules"]} == {(kind.kind.group,)}
            assert {each for rule in role["rules"] for each in rule["resources"]} == {plural, f"{plural}/status"}
        verbs = {each for rule in role["rules"] for each in rule["verbs"]}
        assert ("patch" in verbs) is (kind is not EdgeDeviceSignedRequest)
    assert list(roles) == ["edgedevicesignedrequest-approver-role"]
    (approver,) = roles.values()
    assert not {"create", "delete"} & {each for rule in approver["rules"] for each in rule["verbs"]}


def test_in_one_namespace_the_operator_has_small_cluster_roles_and_no_right_is_lost() -> None:
    roles = [each for each in documents("namespaced/roles.yaml") if each["kind"] in {"Role", "ClusterRole"}]
    wide = [each for each in roles if each["kind"] == "ClusterRole"]
    assert {each for role in wide for rule in role["rules"] for each in rule["resources"]} == {
        *("devices", "devices/status", "fleets", "namespaces", "nodes", "leases")
    }
    split = {
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    whole = {
        (group, resource, verb)
        for rule in (*SHARED, *(rule for each in CAPABILITIES for rule in each.rules))
        for group in rule.groups
        for resource in rule.resources
        for verb in rule.verbs
    }
    assert split == whole
    for each in documents("namespaced/roles.yaml"):
        if each["kind"] in {"Role", "RoleBinding"}:
            assert each["metadata"]["namespace"] == "edgewright-system"


def test_the_operator_runs_twice_behind_the_names_that_people_know() -> None:
    installed = list(yaml.safe_load_all((ROOT / "dist/install.yaml").read_text(encoding="utf-8")))
    found = {(each["kind"], each["metadata"]["name"]): each for each in installed}
    deployment = found["Deployment", "edgewright-controller-manager"]["spec"]
    assert deployment["replicas"] == 2
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert container["name"] == "manager"
    assert {"--leader-elect", "--metrics-secure", "--metrics-port=8443"} <= set(container["args"])
    assert container["resources"]["limits"]
    assert pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert found["PodDisruptionBudget", "edgewright-controller-manager"]["spec"]["maxUnavailable"] == 1
    (port,) = found["Service", "edgewright-controller-manager-metrics-service"]["spec"]["ports"]
    assert port["port"] == 8443


def test_an_overlay_says_how_many_operators_run(tmp_path: Path) -> None:
    assert overlay.main([str(ROOT / "config/namespaced"), str(tmp_path), "--replicas", "1"]) == 0
    made = json.loads((tmp_path / "kustomization.yaml").read_text())
    assert made["replicas"] == [{"name": "edgewright-controller-manager", "count": 1}]


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("a/b:1", {"newName": "a/b", "newTag": "1"}),
        ("localhost:5000/b", {"newName": "localhost:5000/b", "newTag": "latest"}),
        ("a/b@sha256:ff", {"newName": "a/b", "digest": "sha256:ff"}),
    ],
)
def test_an_overlay_names_the_image(image: str, parts: dict[str, str], tmp_path: Path) -> None:
    made = overlay.overlay(ROOT / "config/default", directory=tmp_path, image=image)
    assert made["images"] == [{"name": "controller", **parts}]
    assert "components" not in made
    (patch,) = json.loads(made["patches"][0]["patch"])
    assert patch["value"] == f"--flasher-image={image}"
    own = overlay.overlay(ROOT / "config/default", directory=tmp_path, image=image, arguments=["--flasher-image=f"])
    assert [each["value"] for each in json.loads(own["patches"][0]["patch"])] == ["--flasher-image=f"]


def test_an_overlay_has_some_capabilities_and_further_arguments(tmp_path: Path) -> None:
    command = [
        str(ROOT / "config/default"),
        str(tmp_path / "o"),
        "--controllers",
        "flashjob",
        "--arguments=--nat 'a b'",
    ]
    assert overlay.main(command) == 0
    made = json.loads((tmp_path / "o/kustomization.yaml").read_text())
    assert (tmp_path / "o" / made["resources"][0]).resolve() == ROOT / "config/default"
    values = [each["value"] for each in json.loads(made["patches"][0]["patch"])]
    assert values == ["--controllers=flashjob", "--nat", "a b"]
    left_out = {Path(each).name for each in made.get("components", ())}
    assert left_out == {each.name for each in CAPABILITIES} - {"flashjob"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--controllers", "fluxx"], "make: CONTROLLERS: 'fluxx' is not one of "),
        (["--image", "a b"], "make: IMG: 'a b' is not the name of an image"),
    ],
)
def test_a_wrong_value_is_one_sentence(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert overlay.main([str(ROOT / "config/default"), str(tmp_path), *options]) == 2
    assert capsys.readouterr().err.startswith(sentence)


def test_definitions_are_found_in_what_is_rendered() -> None:
    rendered = (ROOT / "dist/install.yaml").read_text(encoding="utf-8")
    found = custom_resources.definitions(rendered)
    assert {"flashjobs.application.flashjob.nbfc.io", "devices.edgewright.dev"} <= set(found)


def test_the_installer_says_first_which_image_it_has() -> None:
    first, *_ = (ROOT / "dist/install.yaml").read_text(encoding="utf-8").splitlines()
    assert first.startswith(f"# Edgewright with the image edgewright/edgewright:{__version__}. Made by: ")


def test_the_installer_holds_the_gateway_with_its_port_and_an_account_of_its_own() -> None:
    found = {
        (each["kind"], each["metadata"]["name"]): each
        for each in yaml.safe_load_all((ROOT / "dist/install.yaml").read_text(encoding="utf-8"))
    }
    (port,) = found["Service", "edgewright-gateway"]["spec"]["ports"]
    pod = found["Deployment", "edgewright-gateway"]["spec"]["template"]["spec"]
    assert port["port"] == 8043
    assert ("ServiceAccount", pod["serviceAccountName"]) in found
    operator = found["Deployment", "edgewright-controller-manager"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] != operator["serviceAccountName"]


def test_the_chart_has_the_version_of_the_package() -> None:
    metadata = yaml.safe_load((ROOT / "charts/edgewright/Chart.yaml").read_text(encoding="utf-8"))
    assert (metadata["version"], metadata["appVersion"]) == (__version__, __version__)


def test_an_operator_that_does_not_look_for_secrets_has_no_right_to(tmp_path: Path) -> None:
    made = overlay.overlay(ROOT / "config/default", directory=tmp_path, arguments=["--no-check-secrets", "--nat"])
    assert [Path(each).name for each in made["components"]] == ["no-secret-check"]
    assert [each["value"] for each in json.loads(made["patches"][0]["patch"])] == ["--nat"]
    (component,) = documents("no-secret-check/kustomization.yaml")
    patches = {each["target"]["kind"]: yaml.safe_load(each["patch"]) for each in component["patches"]}
    assert patches["Deployment"][0]["value"] == "--no-check-secrets"
    for kind, file, name in (
        ("ClusterRole", "rbac/role.yaml", "flashjob-role"),
        ("Role", "namespaced/roles.yaml", "edgewright-flashjob-namespaced-role"),
    ):
        (role,) = (each for each in documents(file) if (each["kind"], each["metadata"]["name"]) == (kind, name))
        number = int(patches[kind][1]["path"].rpartition("/")[2])
        assert role["rules"][number]["resources"] == ["secrets"]


def test_in_one_namespace_the_operator_is_told_which_one() -> None:
    (overlaid,) = documents("namespaced/kustomization.yaml")
    (patch,) = (yaml.safe_load(each["patch"]) for each in overlaid["patches"] if each["target"]["kind"] == "Deployment")
    assert patch[0]["value"] == "--watch-namespace=$(POD_NAMESPACE)"


def test_the_example_for_shared_clusters_closes_everything_that_can_be_closed() -> None:
    (overlaid,) = documents("shared-cluster/kustomization.yaml")
    given = [each["value"] for patch in overlaid["patches"] for each in yaml.safe_load(patch["patch"])]
    names = [each.partition("=")[0] for each in given]
    line: Any = typer.main.get_command(command_line("run"))
    run = line.commands["run"]
    assert sorted(names) == sorted(name for option in run.params for name in option.opts if name.startswith("--allow-"))
    assert run.make_context("run", given).params, "each takes such a value"


def test_the_console_in_a_cluster_reads_our_kinds_and_what_administrators_add_and_nothing_else() -> None:
    installed = list(yaml.safe_load_all((ROOT / "dist/console.yaml").read_text(encoding="utf-8")))
    found = {(each["kind"], each["metadata"]["name"]): each for each in installed}
    role = found["ClusterRole", "edgewright-console-role"]
    (selector,) = role["aggregationRule"]["clusterRoleSelectors"]
    kinds = found["ClusterRole", "edgewright-console-kinds-role"]
    assert selector["matchLabels"].items() <= kinds["metadata"]["labels"].items()
    assert "rules" not in role  # they are the sum; who applies this file again must not empty it
    listed = {(group, each) for rule in kinds["rules"] for group in rule["apiGroups"] for each in rule["resources"]}
    assert listed == {(each.kind.group, each.kind.plural) for each in kinds_of(CAPABILITIES)}
    assert {verb for rule in kinds["rules"] for verb in rule["verbs"]} == {"list", "watch"}
    (binding,) = (each for each in installed if each["kind"].endswith("Binding"))
    account = {"kind": "ServiceAccount", "name": "edgewright-console", "namespace": "edgewright-system"}
    assert (binding["roleRef"]["name"], binding["subjects"]) == ("edgewright-console-role", [account])


def test_the_console_in_a_cluster_is_closed_to_whoever_gets_into_it() -> None:
    installed = list(yaml.safe_load_all((ROOT / "dist/console.yaml").read_text(encoding="utf-8")))
    (deployment,) = (each for each in installed if each["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["serviceAccountName"] == "edgewright-console"
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "https", "scheme": "HTTPS"}
    (policy,) = documents("network-policy/allow-portals.yaml")
    assert [each["port"] for rule in policy["spec"]["ingress"] for each in rule["ports"]] == [ports["https"]]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


def test_the_console_takes_the_arguments_that_its_deployment_gives_it() -> None:
    (container,) = documents("console/console.yaml")[0]["spec"]["template"]["spec"]["containers"]
    line: Any = typer.main.get_command(command_line("console"))
    context = line.commands["console"].make_context("console", list(container["args"][1:]))
    given = context.params
    assert (given["listen"], given["shared_cache"], given["cache_granted"]) == ("0.0.0.0:8443", True, True)
