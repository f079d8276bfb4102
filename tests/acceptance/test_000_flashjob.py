"""Document 000, FlashJob: its steps in their order, with its own commands, on a real API server with a node of ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.acceptance.flashjob_stage import (
    ACCOUNT,
    IMAGE,
    JOBS,
    NAMESPACE,
    ROOT,
    Place,
    container_tools,
    debian_base,
    devices,
    filled_in,
    operating,
    page,
    pulled,
    real_cluster,
    refused,
    require_packages,
    used,
)
from tests.e2e.registry import RealRegistry
from tests.harness import ControlPlane, wait_until

FILE: Final = "config/crd/bases/application.flashjob.nbfc.io_flashjobs.yaml"
EXAMPLE: Final = """\
apiVersion: application.flashjob.nbfc.io/v1alpha1
kind: FlashJob
metadata:
  name: flashjob
  namespace: default
spec:
  uuid: 2559ad7a-543d-41d2-b285-82eab2a8589a
  device: esp32
  hostEndpoint: 
  firmware: harbor.nbfc.io/nubificus/esp32:x.x.xxxxxxx
  version: 0.2.0
  applicationType: thermo
  externalIP:
  flashjobPodImage: harbor.nbfc.io/nubificus/iot/esp32-sota:xxx.x-debug
"""  # noqa: W291 - as the document has it
SPEC: Final = {
    "uuid",
    "firmware",
    "version",
    "hostEndpoint",
    "device",
    "applicationType",
    "externalIP",
    "flashjobPodImage",
}
STATUS: Final = {"conditions", "message", "hostEndpoint", "phase"}
DEFINITION: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/flashjobs.application.flashjob.nbfc.io"
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/edgewright-controller-manager"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ROLES_WITH_PODS: Final = tuple(
    f"/apis/rbac.authorization.k8s.io/v1/clusterroles/edgewright-{name}-role" for name in ("flashjob", "flux")
)
"""Those with which the right to create Pods comes."""


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    with real_cluster(request) as server:
        yield server


@pytest.fixture(scope="module")
def place(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with devices(cluster, tmp_path_factory.mktemp("000"), count=4) as found:
        yield found


def schema() -> dict[str, Any]:
    document = yaml.safe_load((ROOT / FILE).read_text(encoding="utf-8"))
    found: dict[str, Any] = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return found


def deployed(place: Place) -> bool:
    status = place.get(DEPLOYMENT)
    observed = status["status"].get("observedGeneration") == status["metadata"]["generation"]
    counts = (status["status"].get("availableReplicas"), status["status"].get("replicas"))
    return bool(observed) and counts == (2, 2)


def apply_example(place: Place, number: int, *, further: str = "") -> str:
    """Applies the document's example, with further fields at its end, for one of the devices; its uuid."""
    uuid = list(place.instances().values())[number]
    place.typed("kubectl apply -f -", answers=filled_in(EXAMPLE, place, [uuid]) + further)
    return uuid


# --- 1 to 4: what is there -----------------------------------------------------------------------------------------


@pytest.mark.plain
def test_the_definition_is_in_the_documents_file_and_has_its_fields() -> None:
    assert schema()["spec"]["properties"].keys() >= SPEC
    assert schema()["status"]["properties"].keys() >= STATUS
    assert {"uuid", "firmware", "version"} == set(schema()["spec"]["required"])


def test_the_sample_is_in_the_documents_file(place: Place) -> None:
    sample = yaml.safe_load((ROOT / "config/samples/application_v1alpha1_flashjob.yaml").read_text(encoding="utf-8"))
    assert sample["metadata"] == {"name": "flashjob", "namespace": "default"}
    assert sample["spec"].keys() == SPEC
    assert yaml.safe_load((ROOT / "config/samples/single/application_v1alpha1_flashjob.yaml").read_text()) == (
        yaml.safe_load(EXAMPLE)
    )
    for folder in ("config/samples", "config/samples/single", "config/samples/list"):
        assert "kind: FlashJob" in place.typed(f"kubectl kustomize {folder}")


# --- debugging and testing -----------------------------------------------------------------------------------------


@pytest.fixture(scope="class")
def log(place: Place) -> Iterator[Path]:
    """What `make run` says, while the tests of a class run."""
    with operating(place) as said:
        yield said


class TestDebugging:
    """`make install`, then `make run`, which runs while these tests do."""

    def test_make_install_installs_the_definitions(self, place: Place) -> None:
        said = place.typed("make install")
        assert "flashjobs.application.flashjob.nbfc.io serverside-applied" in said
        assert place.server.exists(DEFINITION)
        assert place.typed("kubectl get flashjobs -A", timeout=240) == ""

    def test_make_install_leaves_bin_kustomize_there(self, place: Place) -> None:
        place.typed("make install")
        samples = [each["kind"] for each in yaml.safe_load_all(place.typed("bin/kustomize build config/samples"))]
        assert samples.count("FlashJob") == 1
        kustomized = place.typed("bin/kustomize build config/samples/list | kubectl apply --dry-run=server -f -")
        assert kustomized.startswith("flashjob.application.flashjob.nbfc.io/")

    def test_make_run_serves_metrics_and_health_on_loopback(self, log: Path) -> None:
        assert page("http://127.0.0.1:8081/healthz") == "ok"
        assert page("http://127.0.0.1:8081/readyz") == "ok"
        assert "# HELP " in page("http://127.0.0.1:8080/metrics")
        wait_until(lambda: "leading" in log.read_text(), what="it leads")

    def test_the_example_is_flashed_by_a_pod_behind_a_load_balancer(self, place: Place, log: Path) -> None:
        uuid = apply_example(place, 0)
        pods = "/api/v1/namespaces/default/pods"
        pod = place.seen(pods, lambda each: each["metadata"]["labels"].get("uuid") == uuid, "there is a flash Pod")
        service = place.seen(
            "/api/v1/namespaces/default/services",
            lambda each: each["metadata"].get("labels", {}).get("uuid") == uuid,
            "there is a Service",
        )
        (endpoint,) = (address for address, each in place.instances().items() if each == uuid)
        (container,) = pod["spec"]["containers"]
        variables = {each["name"]: each.get("value", "") for each in container["env"]}
        assert container["image"] == "edgewright/flasher"
        assert variables["FIRMWARE"].startswith(place.firmware.rpartition(":")[0])
        assert (variables["UUID"], variables["HOST_ENDPOINT"], variables["DEVICE"]) == (uuid, endpoint, "esp32")
        assert variables["EXTERNAL_IP"] == service["status"]["loadBalancer"]["ingress"][0]["ip"]
        assert (service["spec"]["type"], service["spec"]["ports"][0]["port"]) == ("LoadBalancer", 4433)
        job = place.until_phase("Completed")
        assert job["status"]["hostEndpoint"] == endpoint
        assert job["status"]["message"] == "All flashing pods completed successfully"
        assert {each["type"]: each["status"] for each in job["status"]["conditions"]}["Ready"] == "True"
        assert json.loads(page(f"http://{endpoint}/info"))["version"] == "0.2.0"
        assert job["spec"].get("externalIP") is None  # ours never writes the spec

    def test_a_deleted_job_leaves_nothing_behind(self, place: Place, log: Path) -> None:
        uuid = apply_example(place, 1)
        pods = "/api/v1/namespaces/default/pods"
        place.seen(pods, lambda each: each["metadata"]["labels"].get("uuid") == uuid, "there is a flash Pod")
        place.typed("kubectl delete flashjob flashjob --timeout=240s")
        assert not place.server.exists(f"{JOBS}/flashjob")
        place.until_no_flash_objects()

    def test_the_documents_sample_is_applied_as_it_is_and_says_what_it_waits_for(self, place: Place, log: Path) -> None:
        place.typed("kubectl apply -f config/samples/application_v1alpha1_flashjob.yaml")
        waits = wait_until(
            lambda: next((each for each in place.job().get("status", {}).get("devices", ())), None),
            what="the status tells of the devices",
        )
        assert waits["state"] == "Waiting"
        place.typed("kubectl delete -f config/samples/application_v1alpha1_flashjob.yaml --timeout=240s")


def test_make_uninstall_refuses_while_there_are_objects_and_by_force_removes_both(place: Place) -> None:
    place.typed("make install")
    assert place.get("/apis/edgewright.dev/v1alpha1/devices")["items"], "the operator has found devices before"
    done = place.type("make uninstall")
    assert done.returncode != 0
    assert "devices.edgewright.dev" in done.stderr
    assert "FORCE=yes" in done.stderr
    assert place.server.exists(DEFINITION)
    place.typed("make uninstall FORCE=yes")
    assert not place.server.exists(DEFINITION)
    place.typed("make install")


# --- deploying -----------------------------------------------------------------------------------------------------


def test_make_docker_build_docker_push_makes_an_image_that_is_not_root_and_writes_nothing(
    place: Place, tmp_path: Path
) -> None:
    require_packages("buildah", "mmdebstrap", "docker-registry")
    (tmp_path / "registry").mkdir()
    with RealRegistry(tmp_path / "registry") as registry:
        tools = container_tools(tmp_path / "containers", registry.host)
        base = debian_base(tmp_path, tools)
        image = f"{registry.host}/some-project/edgewright:tag"
        place.typed(f"make docker-build docker-push IMG={image}", env={**tools, "BASE_IMAGE": base})
        root = tmp_path / "root"
        config = pulled(registry.host, image, root)
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == (
        "65532:65532",
        ["python3", "-m", "edgewright"],
        ["run"],
    )
    variables = dict(each.split("=", 1) for each in config["Env"])
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec chroot --userspec 65532:65532 "$0" "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, root, *config["Entrypoint"], "version"],
        env={**variables, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "edgewright" in done.stdout.lower()


def test_a_container_client_without_its_daemon_is_not_chosen(place: Place, tmp_path: Path) -> None:
    for name, code in (("docker", 1), ("podman", 1), ("buildah", 0)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\ntest $1 = info && exit {code}\necho {name} $*\n")
        program.chmod(0o755)
    path = f"{tmp_path}:{place.environment()['PATH']}"
    assert "buildah push registry.example/a:1" in place.typed(
        "make docker-push IMG=registry.example/a:1", env={"PATH": path}
    )


def may_create_pods(cluster: ControlPlane) -> bool:
    """Whether the API server lets the deployed operator create Pods."""
    asked = {"namespace": "default", "verb": "create", "resource": "pods"}
    spec = {"user": ACCOUNT, "resourceAttributes": asked}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool(cluster.request("POST", REVIEWS, review)["status"]["allowed"])


class TestDirectDeployment:
    """`make deploy IMG=…`, the sample, `make undeploy`."""

    def deploy(self, place: Place, more: str = "") -> str:
        said = place.typed(f"make deploy IMG={IMAGE} ARGS='{' '.join(place.operator)}' {more}")
        wait_until(lambda: deployed(place), what="the Deployment is available")
        return said

    def test_make_deploy_runs_the_operator_with_the_rights_of_config_rbac_alone(
        self, place: Place, cluster: ControlPlane
    ) -> None:
        self.deploy(place)
        (container,) = place.get(DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
        assert (container["name"], container["image"]) == ("manager", IMAGE)
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        apply_example(place, 2)
        place.until_phase("Completed")
        place.typed("kubectl delete flashjob flashjob --timeout=240s")
        assert refused(cluster) == []
        assert {("create", "pods"), ("create", "services"), ("patch", "devices/status")} <= used(cluster)

    def test_a_missing_right_is_refused_and_the_job_does_not_complete(
        self, place: Place, cluster: ControlPlane
    ) -> None:
        for role in ROLES_WITH_PODS:
            rules = place.get(role)["rules"]
            less = [rule for rule in rules if "pods" not in rule["resources"]]
            assert less != rules
            cluster.request("PATCH", role, {"rules": less}, content_type="application/merge-patch+json")
        # The API server hears of its own roles a moment later.
        wait_until(lambda: not may_create_pods(cluster), what="the right is gone")
        # With its usual retries it may have failed for good before `make deploy` is done.
        apply_example(place, 3, further="  retries: 20\n")
        wait_until(lambda: refused(cluster), what="the API server refuses something", interval=0.5)
        assert any("/pods" in each for each in refused(cluster))
        assert place.job().get("status", {}).get("phase") != "Completed"
        self.deploy(place)  # which gives the right back
        place.until_phase("Completed")

    def test_an_installation_of_flashjob_alone_has_no_right_of_another_capability(
        self, place: Place, cluster: ControlPlane
    ) -> None:
        self.deploy(place, "CONTROLLERS=flashjob")
        (container,) = place.get(DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
        assert "--controllers=flashjob" in container["args"]
        rendered = list(yaml.safe_load_all(place.typed("kubectl kustomize build/config/default")))
        roles = {each["metadata"]["name"] for each in rendered if each["kind"] == "ClusterRole"}
        ours = {"edgewright-manager-role", "edgewright-flashjob-role", "edgewright-metrics-auth-role"}
        people = {f"edgewright-{kind}-{who}-role" for kind in ("flashjob", "device") for who in ("viewer", "editor")}
        assert roles == ours | people | {"edgewright-metrics-reader"}
        kinds = {each["spec"]["names"]["kind"] for each in rendered if each["kind"] == "CustomResourceDefinition"}
        assert kinds == {"FlashJob", "Device"}

    def test_the_example_for_shared_clusters_is_the_same_operator_closed(self, place: Place) -> None:
        rendered = list(yaml.safe_load_all(place.typed("kubectl kustomize config/shared-cluster")))
        named = {(each["kind"], each["metadata"]["name"]): each for each in rendered}
        deployment = named["Deployment", DEPLOYMENT.rpartition("/")[2]]
        arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        assert {"--leader-elect", "--allow-flasher-image=edgewright/edgewright"} <= set(arguments)

    def test_an_unknown_capability_or_image_is_one_sentence(self, place: Place) -> None:
        done = place.type("make deploy CONTROLLERS=flashjobs")
        assert done.returncode != 0
        assert "make: CONTROLLERS: 'flashjobs' is not one of " in done.stderr
        done = place.type("make deploy IMG=registry.example/a:")
        assert "make: IMG: 'registry.example/a:' is not the name of an image" in done.stderr

    def test_make_undeploy_refuses_while_there_are_custom_resources(self, place: Place) -> None:
        done = place.type("make undeploy")
        assert done.returncode != 0
        assert "1 flashjobs.application.flashjob.nbfc.io" in done.stderr
        assert "FORCE=yes" in done.stderr
        assert deployed(place)

    def test_make_undeploy_by_force_removes_all_that_deploy_created(self, place: Place) -> None:
        place.typed("make undeploy FORCE=yes")
        assert not place.server.exists(f"/api/v1/namespaces/{NAMESPACE}")
        assert not place.server.exists(DEFINITION)
        for kind in ("clusterroles", "clusterrolebindings"):
            found = place.get(f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]
            assert [each for each in found if each["metadata"]["name"].startswith("edgewright-")] == []
        place.typed("make undeploy")  # nothing is left, which is no error


class TestInstaller:
    """`make build-installer IMG=…`, `kubectl apply -f dist/install.yaml`, the sample."""

    def test_make_build_installer_writes_one_file_that_names_its_image(self, place: Place) -> None:
        place.typed(f"make build-installer IMG={IMAGE} ARGS='{' '.join(place.operator)}'")
        text = (place.folder / "dist/install.yaml").read_text()
        assert text.splitlines()[0].startswith(f"# Edgewright with the image {IMAGE}.")
        kinds = {each["kind"] for each in yaml.safe_load_all(text)}
        assert kinds >= {"Namespace", "CustomResourceDefinition", "Deployment", "ClusterRole", "ServiceAccount"}

    def test_kubectl_apply_of_the_installer_brings_an_operator_that_flashes(
        self, place: Place, cluster: ControlPlane
    ) -> None:
        before = len(refused(cluster))
        place.typed("kubectl apply -f dist/install.yaml")
        wait_until(lambda: deployed(place), what="the Deployment is available")
        apply_example(place, 0)
        place.until_phase("Completed")
        assert refused(cluster)[before:] == []
        place.typed("kubectl delete flashjob flashjob --timeout=240s")

    def test_the_committed_installer_is_what_the_target_makes(self, place: Place) -> None:
        place.typed("make build-installer")
        for name in ("install", "console"):
            made = list(yaml.safe_load_all((place.folder / f"dist/{name}.yaml").read_text()))
            assert made == list(yaml.safe_load_all((ROOT / f"dist/{name}.yaml").read_text(encoding="utf-8")))
