"""charts/edgewright with Helm 4: what it renders, and that it installs, upgrades, rolls back and goes on a real server.

The Pods are run by `edgewright node`, for which the image is a program of this machine.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from edgewright import __version__
from edgewright.api.capabilities import CAPABILITIES, SHARED
from edgewright.cli.run import run
from tests.acceptance.flashjob_stage import IMAGE, real_cluster
from tests.harness import ControlPlane, wait_until
from tests.images import helm_actions

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = str(ROOT / "charts/edgewright")
NAMESPACE: Final = "edgewright-system"
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/edgewright-controller-manager"
DEFINITION: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/flashjobs.application.flashjob.nbfc.io"
JOBS: Final = "/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/default/flashjobs"
REPOSITORY, TAG = IMAGE.split(":")
VALUES: Final = {"image": {"repository": REPOSITORY, "tag": TAG}, "gateway": {"enabled": False}}
NOT_A_VALUE: Final = {
    *("kubeconfig", "context", "lease_namespace"),  # in a Pod they are given
    *("host", "metrics_port", "health_port", "local"),  # the Pod has its own address, and no devices on it
    "install_crds",  # the chart does
    # operator-sdk's options, for the Deployments of its projects; charts are served by what `chart init` writes
    *("reconcile_period", "max_concurrent_reconciles", "suppress_override_values", "metrics_require_rbac"),
    *("metrics_bind_address", "health_probe_bind_address", "enable_http2", "zap_log_level", "zap_other", "zap_devel"),
}


def helm(verb: str, *, fails: bool = False, **asked: Any) -> Any:
    """What Helm says, or why it fails."""
    about = {"chart": CHART, "release": "edgewright", "namespace": NAMESPACE}
    return helm_actions.helm(verb, fails=fails, **{**about, **asked})


def rendered(**values: Any) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = [each for text in helm("render", values=values).values() for each in yaml.safe_load_all(text) if each]
    return {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in found}


def rights(roles: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


# --- what it renders -----------------------------------------------------------------------------------------------


def test_helm_finds_nothing_wrong_with_it() -> None:
    found = helm("lint")
    assert [each for each in found["messages"] if each["severity"] > 1] == []
    metadata = yaml.safe_load((ROOT / "charts/edgewright/Chart.yaml").read_text(encoding="utf-8"))
    assert (metadata["version"], metadata["appVersion"]) == (__version__, __version__)
    assert metadata["kubeVersion"]


def test_it_is_what_make_deploy_applies_but_for_what_helm_adds() -> None:
    chart = rendered()
    deployed = yaml.safe_load_all((ROOT / "dist/install.yaml").read_text(encoding="utf-8"))
    wanted = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in deployed
        if each["kind"] != "Namespace"
    }
    assert {each for each in chart if "pre-delete" not in each[2]} == wanted
    ours = [
        each for (kind, _, name), each in chart.items()
        if kind == "ClusterRole" and name.removeprefix("edgewright-").removesuffix("-role") in
        {"manager", *(each.name for each in CAPABILITIES)}
    ]  # fmt: skip
    declared = {
        (group, resource, verb)
        for rule in (*SHARED, *(rule for each in CAPABILITIES for rule in each.rules))
        for group in rule.groups
        for resource in rule.resources
        for verb in rule.verbs
    }
    assert rights(ours) == declared


def test_every_setting_of_the_operator_has_a_value() -> None:
    options = set(inspect.signature(run).parameters) - NOT_A_VALUE
    container = rendered(
        controllers=["flashjob", "charts"],
        watchNamespaces=["a", "b"],
        leaderElection={"enabled": False, "leaseName": "other"},
        metrics={"certificateSecret": "tls"},
        flashjob={
            "flasherImage": "f:1",
            "plainRegistries": ["r:5000"],
            "tokenHosts": ["t"],
            "allow": {
                "flasherImages": ["i"],
                "pullSecrets": ["s"],
                "serviceAccounts": ["a"],
                "tolerations": ["k"],
                "podLabels": ["l/"],
                "podAnnotations": ["n/"],
            },
            "checkSecrets": False,
            "attestation": "http://a",
            "nat": True,
            "probe": True,
            "probeEvery": 5,
        },
        webhook={"url": "http://w/x", "secretName": "hook", "plain": True},
        charts={"watchesConfigMap": "watches"},
        arguments=["--x"],
    )["Deployment", NAMESPACE, "edgewright-controller-manager"]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][4:] == [
        *("--no-leader-elect", "--lease-name=other", "--flasher-image=f:1", "--metrics-secure"),
        *("--metrics-cert-path=/etc/edgewright/metrics", "--controllers=flashjob,charts"),
        *("--watch-namespace=a", "--watch-namespace=b", "--plain-registry=r:5000", "--token-host=t"),
        *("--allow-flasher-image=i", "--allow-pull-secret=s", "--allow-service-account=a", "--allow-toleration=k"),
        *("--allow-pod-label=l/", "--allow-pod-annotation=n/", "--no-check-secrets", "--attestation=http://a"),
        *("--nat", "--probe", "--probe-every=5", "--webhook=http://w/x"),
        *("--webhook-secret-file=/etc/edgewright/webhook/secret", "--webhook-plain"),
        *("--watches=/etc/edgewright/charts/watches.yaml", "--x"),
    ]
    named = {each.split("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_") for each in container["args"]}
    assert options <= named
    assert {each["name"] for each in container["volumeMounts"]} == {"metrics-certificate", "webhook-secret", "watches"}


def test_a_webhook_needs_the_secret_that_it_is_signed_with() -> None:
    assert "webhook.url needs webhook.secretName" in helm(
        "render", values={"webhook": {"url": "https://w"}}, fails=True
    )


def test_in_some_namespaces_it_has_roles_there_and_small_cluster_roles() -> None:
    chart = rendered(controllers=["flashjob"], watchNamespaces=["a", "b"])
    assert {("Role", each, "edgewright-flashjob-role") for each in ("a", "b")} <= chart.keys()
    wide = rights([chart["ClusterRole", "", "edgewright-flashjob-role"]])
    assert {resource for _, resource, _ in wide} == {
        *("devices", "devices/status", "fleets", "namespaces", "nodes", "leases")
    }
    kinds = {each["spec"]["names"]["kind"] for (kind, _, _), each in chart.items() if kind.startswith("CustomResource")}
    assert kinds == {"FlashJob", "Device"}
    assert ("Deployment", NAMESPACE, "edgewright-gateway") not in chart


@pytest.mark.parametrize("namespaces", [[], ["a"]], ids=["in the cluster", "in a namespace"])
def test_without_the_check_of_secrets_it_has_no_right_on_those_of_flashjobs(namespaces: list[str]) -> None:
    where = {"controllers": ["flashjob", "rollout"], "watchNamespaces": namespaces}
    for checks in (True, False):
        chart = rendered(flashjob={"checkSecrets": checks}, **where)
        roles = [
            each for (kind, _, name), each in chart.items() if "Role" in kind and name == "edgewright-flashjob-role"
        ]
        assert ("", "secrets", "get") in rights(roles) if checks else "secrets" not in str(rights(roles))


def test_what_prometheus_is_told_is_what_config_has() -> None:
    chart = rendered(prometheus={"serviceMonitor": True, "rules": True}, networkPolicy={"enabled": True})
    rules = yaml.safe_load((ROOT / "config/prometheus/rules.yaml").read_text(encoding="utf-8"))
    assert chart["PrometheusRule", NAMESPACE, "edgewright-controller-manager-rules"]["spec"] == rules["spec"]
    assert ("NetworkPolicy", NAMESPACE, "edgewright-allow-metrics-traffic") in chart
    pods = chart["Deployment", NAMESPACE, "edgewright-gateway"]["spec"]["template"]["metadata"]["labels"]
    monitor = chart["PodMonitor", NAMESPACE, "edgewright-gateway-metrics-monitor"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= pods.items()
    alone = rendered(prometheus={"serviceMonitor": True}, gateway={"enabled": False})
    assert [kind for kind, *_ in alone if kind.endswith("Monitor")] == ["ServiceMonitor"]


@pytest.mark.parametrize(
    "values",
    [{"replicas": 0}, {"controllers": ["flash"]}, {"image": {"digest": "sha256:1"}}, {"replica": 1}],
    ids=["no replica", "an unknown controller", "no digest", "an unknown value"],
)
def test_a_wrong_value_is_refused_before_anything_is_rendered(values: dict[str, Any]) -> None:
    assert "values don't meet the specifications of the schema" in helm("render", values=values, fails=True)


def test_the_console_is_what_its_installer_has_but_for_what_helm_adds() -> None:
    chart = rendered(console={"enabled": True})
    installed = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in yaml.safe_load_all((ROOT / "dist/console.yaml").read_text(encoding="utf-8"))
    }
    assert set(chart) - set(rendered()) == set(installed)
    for name in ("edgewright-console-role", "edgewright-console-kinds-role"):
        made, wanted = (each["ClusterRole", "", name] for each in (chart, installed))
        assert [made.get(field) for field in ("rules", "aggregationRule")] == [
            wanted.get(field) for field in ("rules", "aggregationRule")
        ]
    made, wanted = (
        each["Deployment", NAMESPACE, "edgewright-console"]["spec"]["template"]["spec"] for each in (chart, installed)
    )
    assert sorted(made["containers"][0]["args"]) == sorted(wanted["containers"][0]["args"])
    for field in ("livenessProbe", "readinessProbe", "ports", "resources", "securityContext"):
        assert made["containers"][0][field] == wanted["containers"][0][field]
    assert sorted(made["volumes"], key=str) == sorted(wanted["volumes"], key=str)


def test_the_console_signs_people_in_and_can_be_behind_a_proxy() -> None:
    oidc = {"issuer": "https://login.example", "clientId": "edgewright", "scope": "openid groups"}
    given = {"enabled": True, "behindProxy": True, "sessionKeySecret": "keys", "oidc": oidc, "arguments": ["--x"]}
    assert "needs console.externalUrl" in helm("render", values={"console": given}, fails=True)
    chart = rendered(console={**given, "externalUrl": "https://console.example"})
    pod = chart["Deployment", NAMESPACE, "edgewright-console"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == [
        *("console", "--listen=0.0.0.0:8443", "--shared-cache", "--cache-granted", "--behind-proxy"),
        *("--session-key-file=/etc/edgewright/session/key", "--oidc-issuer=https://login.example"),
        *("--oidc-client-id=edgewright", "--external-url=https://console.example", "--oidc-scope=openid groups", "--x"),
    ]
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTP"
    assert {each["name"] for each in pod["volumes"]} == {"tmp", "session-key"}


def test_the_console_may_act_for_people_only_where_that_is_switched_on() -> None:
    oidc = {"issuer": "https://login.example", "clientId": "edgewright"}
    given = {"enabled": True, "externalUrl": "https://console.example"}
    plain = rendered(console={**given, "oidc": oidc})
    role = ("ClusterRole", "", "edgewright-console-impersonation-role")
    assert "impersonate" not in str(plain)
    users = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}
    for groups in ([], ["fleet", "ops"]):
        impersonation = {"prefix": "oidc:", "groups": groups}
        chart = rendered(console={**given, "oidc": {**oidc, "impersonation": impersonation}})
        named = [{**users, "resources": ["groups"], "resourceNames": [f"oidc:{each}" for each in groups]}]
        assert chart[role]["rules"] == [users, *(named if groups else [])]
        binding = chart["ClusterRoleBinding", "", "edgewright-console-impersonation-rolebinding"]
        account = {"kind": "ServiceAccount", "name": "edgewright-console", "namespace": NAMESPACE}
        assert (binding["roleRef"]["name"], binding["subjects"]) == (role[2], [account])
        (container,) = chart["Deployment", NAMESPACE, "edgewright-console"]["spec"]["template"]["spec"]["containers"]
        wanted = ["--impersonate-prefix=oidc:", *(f"--impersonate-group={each}" for each in groups)]
        assert [each for each in container["args"] if each.startswith("--impersonate")] == wanted


def test_an_image_by_its_digest() -> None:
    digest = f"sha256:{'0' * 64}"
    pod = rendered(image={"digest": digest})["Deployment", NAMESPACE, "edgewright-controller-manager"]["spec"]
    assert pod["template"]["spec"]["containers"][0]["image"] == f"edgewright/edgewright@{digest}"


# --- on a real server ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    with real_cluster(request) as server:
        yield server


def on(cluster: ControlPlane, verb: str, **asked: Any) -> Any:
    return helm(verb, kubeconfig=str(cluster.kubeconfig), **asked)


def until_available(cluster: ControlPlane, count: int) -> dict[str, Any]:
    def available() -> dict[str, Any] | None:
        found: dict[str, Any] = cluster.request("GET", DEPLOYMENT)
        status = found.get("status", {})
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        counts = [status.get(name) for name in ("availableReplicas", "updatedReplicas", "replicas")]
        return found if current and counts == [count] * 3 else None

    return wait_until(available, what=f"{count} operators are available", timeout=90)


def arguments(deployment: dict[str, Any]) -> list[str]:
    found: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


def columns(cluster: ControlPlane) -> int:
    return len(cluster.request("GET", DEFINITION)["spec"]["versions"][0]["additionalPrinterColumns"])


def test_it_installs_upgrades_and_rolls_back(cluster: ControlPlane, tmp_path: Path) -> None:
    earlier = shutil.copytree(CHART, tmp_path / "edgewright")
    file = earlier / "files/crds/flashjob/application.flashjob.nbfc.io_flashjobs.yaml"
    definition = yaml.safe_load(file.read_text(encoding="utf-8"))
    definition["spec"]["versions"][0]["additionalPrinterColumns"].pop()
    file.write_text(yaml.safe_dump(definition), encoding="utf-8")
    on(cluster, "install", chart=str(earlier), values=VALUES)
    assert "--probe" not in arguments(until_available(cluster, 2))
    before = columns(cluster)
    on(cluster, "upgrade", values={**VALUES, "replicas": 1, "flashjob": {"probe": True}})
    assert "--probe" in arguments(until_available(cluster, 1))
    assert columns(cluster) == before + 1, "an upgrade brings the definitions of its chart"
    on(cluster, "rollback", version=1)
    assert "--probe" not in arguments(until_available(cluster, 2))
    assert len(on(cluster, "history")) == 3


def test_it_refuses_to_go_while_there_are_custom_resources(cluster: ControlPlane) -> None:
    spec = {"uuid": ["nobody"], "firmware": "registry.example/firmware:1", "version": "1"}
    job = {"apiVersion": "application.flashjob.nbfc.io/v1alpha1", "kind": "FlashJob"}
    cluster.request("POST", JOBS, {**job, "metadata": {"name": "job", "namespace": "default"}, "spec": spec})
    assert "pre-delete" in on(cluster, "uninstall", fails=True)
    until_available(cluster, 2)
    shown = cluster.kubectl("get", "pods", "-n", NAMESPACE, "-o", "name").stdout
    assert "pre-delete" in shown, "the Pod of the hook stays, and its log says what is left"


def test_a_release_that_did_not_go_is_rolled_back_to_itself_before_it_is_upgraded(cluster: ControlPlane) -> None:
    # Helm writes down that it goes before it asks the hook, and upgrades only what is deployed or has failed.
    assert "has no deployed releases" in on(cluster, "upgrade", values=VALUES, fails=True)
    last = max(each["revision"] for each in on(cluster, "history"))
    on(cluster, "rollback", version=last)
    on(cluster, "upgrade", values={**VALUES, "replicas": 1})
    until_available(cluster, 1)


def test_it_goes_when_nothing_is_left_and_the_definitions_stay(cluster: ControlPlane) -> None:
    cluster.kubectl("delete", "flashjob", "job", "-n", "default", "--timeout=240s")
    on(cluster, "uninstall")
    assert not cluster.exists(DEPLOYMENT)
    assert cluster.exists(DEFINITION)
    for kind in ("clusterroles", "clusterrolebindings"):
        found = cluster.request("GET", f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]
        assert [each for each in found if each["metadata"]["name"].startswith("edgewright-")] == []
