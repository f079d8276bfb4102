"""Document 004, "Design": registration, heartbeats and workloads of Linux edge devices, step by step.

The numbers are those of the document's lists. Tests build on each other in their order, as the steps do; the second
device shows that what is asked of one happens to no other.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.acceptance.edge_stage import CLAIMS, DEPLOYMENTS, DEVICES, SAMPLE, Device, Stage
from tests.harness import ControlPlane
from tests.harness.fixtures import run

WORKLOAD = "edgedeployment-sample"


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    yield from run(request, functools.partial(ControlPlane, parts={"controller-manager"}))


@pytest.fixture(scope="module")
def stage(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(stack, cluster, tmp_path_factory.mktemp("edge"))


@pytest.fixture(scope="module")
def device(stage: Stage) -> Device:
    return stage.devices[0]


@pytest.fixture(scope="module")
def other(stage: Stage) -> Device:
    return stage.devices[1]


class TestRegistration:
    """Device registration/pairing."""

    def test_1_the_bundle_that_stands_for_the_iso_includes_registration_certificates(self, device: Device) -> None:
        assert {"ca.pem", "cert.pem", "key.pem", "config.toml"} <= {each.name for each in device.folder.iterdir()}
        certificate = x509.load_pem_x509_certificate((device.folder / "cert.pem").read_bytes())
        (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        assert name.value == "register"

    def test_2_the_agent_is_started(self, stage: Stage, device: Device, other: Device) -> None:
        assert stage.cluster.request("GET", DEVICES)["items"] == []
        for each in (device, other):
            each.agent.start()

    def test_3_and_4_its_request_makes_an_edge_device_with_its_hardware(self, stage: Stage, device: Device) -> None:
        stage.until(lambda: stage.cluster.exists(f"{DEVICES}/{device.name}"), "the EdgeDevice")
        hardware = stage.until(lambda: device.status.get("hardware"), "its hardware")
        assert hardware["cpu"]["count"] > 0
        assert hardware["memory"]["usableBytes"] > 0

    def test_5_the_device_switches_to_the_new_certificate(self, stage: Stage, device: Device) -> None:
        stage.until((device.state / "device.pem").is_file, "its certificate")
        certificate = x509.load_pem_x509_certificate((device.state / "device.pem").read_bytes())
        (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        assert name.value == device.name

    def test_6_and_7_a_bucket_is_claimed_and_the_status_names_the_claim(self, stage: Stage, device: Device) -> None:
        stage.until(lambda: device.status.get("dataObc"), "the claim in the status")
        claim = stage.cluster.request("GET", f"{CLAIMS}/{device.status['dataObc']}")
        assert claim["spec"]["generateBucketName"] == device.name

    def test_8_the_agent_downloads_its_configuration(self, stage: Stage, device: Device) -> None:
        path = device.state / "configuration.json"

        def bucket() -> str:
            content = json.loads(path.read_bytes()) if path.is_file() else {}
            storage = content.get("configuration", {}).get("storage") or {}
            return str(storage.get("s3", {}).get("bucket_name", ""))

        stage.until(lambda: bucket() == device.name, "its bucket in the configuration")

    def test_10_it_sends_heartbeats(self, stage: Stage, device: Device, other: Device) -> None:
        for each in (device, other):
            stage.until(lambda each=each: each.status.get("phase") == "up", "a heartbeat")  # type: ignore[misc]
            assert each.status["lastSeenTime"]

    def test_the_period_of_heartbeats_is_as_configured_without_a_restart(self, stage: Stage, device: Device) -> None:
        before = device.agent.pid
        patch = '{"spec": {"heartbeat": {"periodSeconds": 1}}}'
        stage.type(f"kubectl patch edgedevice {device.name} --type merge -p '{patch}'")
        path = device.state / "configuration.json"
        stage.until(
            lambda: json.loads(path.read_bytes())["configuration"]["heartbeat"]["period_seconds"] == 1, "the period"
        )
        version = json.loads(path.read_bytes())["version"]
        stage.until(lambda: device.status.get("lastSyncedResourceVersion") == version, "a heartbeat with it")
        assert device.agent.pid == before
        assert device.agent.running


class TestWorkload:
    """Workload deployment workflow."""

    def test_1_the_user_creates_the_workload(self, stage: Stage) -> None:
        assert "created" in stage.type(f"kubectl apply -f {SAMPLE}")

    def test_2_3_and_5_the_matching_device_gets_it_and_shows_deploying(
        self, stage: Stage, device: Device, other: Device
    ) -> None:
        device.agent.stop()  # so that Deploying can be seen
        stage.type(f"kubectl label edgedevice {device.name} foo=bar")
        stage.until(lambda: device.workloads == {WORKLOAD: "Deploying"}, "Deploying")
        assert device.object["metadata"]["labels"][f"workload/{WORKLOAD}"] == "true"
        assert other.workloads == {}

    def test_4_it_is_in_the_configuration_that_the_agent_downloads(self, stage: Stage, device: Device) -> None:
        device.agent.resume()
        path = device.state / "configuration.json"
        stage.until(lambda: WORKLOAD in path.read_text(), "the workload in the configuration")

    def test_6_the_agent_opens_its_host_port(self, stage: Stage, device: Device) -> None:
        table = ("nft", "list", "table", "inet", "edgewright_agent")
        stage.until(lambda: "tcp dport 9090" in device.machine.run(*table, check=False), "the port is opened")

    def test_7_the_pod_runs_and_answers_on_the_port_of_this_device_only(
        self, stage: Stage, device: Device, other: Device
    ) -> None:
        volume = device.state / "volumes" / WORKLOAD
        stage.until(volume.is_dir, "its data directory")
        (volume / "hello.txt").write_text("hello from the edge\n")
        page = "hello from the edge\n"
        stage.until(lambda: device.machine.fetch(9090, "/export/hello.txt") == page, "the page")
        assert other.machine.fetch(9090, "/export/hello.txt") == ""

    def test_8_and_9_heartbeats_bring_its_status_to_the_edge_device(self, stage: Stage, device: Device) -> None:
        stage.until(lambda: device.workloads == {WORKLOAD: "Running"}, "Running")
        assert device.status["workloads"] == device.status["deployments"]

    def test_kubectl_get_gives_a_nice_summary(self, stage: Stage, device: Device) -> None:
        def ready() -> list[str] | None:
            header, *rows = stage.type("kubectl get edgedeployment").splitlines()
            assert header.split() == ["NAME", "RUNNING", "READY", "AGE"]
            (row,) = rows
            return row.split() if row.split()[:3] == [WORKLOAD, "1/1", "True"] else None

        stage.until(ready, "the workload is shown to run")
        header, *rows = stage.type("kubectl get edgedevice").splitlines()
        assert header.split() == ["NAME", "PHASE", "ONLINE", "READY", "HOSTNAME", "SEEN", "AGE"]
        assert {row.split()[0]: row.split()[1] for row in rows}[device.name] == "up"

    def test_files_of_its_data_directory_are_uploaded_to_the_bucket(self, stage: Stage, device: Device) -> None:
        uploaded = stage.s3.bucket(device.name) / "nginx" / "hello.txt"
        stage.until(uploaded.is_file, "the file in the bucket")
        assert uploaded.read_text() == "hello from the edge\n"
        stage.until(lambda: device.status["deployments"][0].get("lastDataUpload"), "the time of the upload")

    def test_a_device_that_does_not_match_any_more_removes_it(self, stage: Stage, device: Device) -> None:
        stage.type(f"kubectl label edgedevice {device.name} foo-")
        stage.until(lambda: device.workloads == {}, "no workload in the status")
        stage.until(lambda: device.machine.fetch(9090, "/export/hello.txt") == "", "the page is gone")
        table = ("nft", "list", "table", "inet", "edgewright_agent")
        stage.until(lambda: "9090" not in device.machine.run(*table), "the port is closed")
        assert (stage.s3.bucket(device.name) / "nginx" / "hello.txt").is_file()

    def test_a_workload_that_podman_refuses_says_so_in_its_condition_and_in_an_event(
        self, stage: Stage, other: Device, tmp_path: Path
    ) -> None:
        manifest = stage.cluster.request("GET", f"{DEPLOYMENTS}/{WORKLOAD}")
        spec = {**manifest["spec"], "device": other.name}
        spec.pop("deviceSelector")
        spec["pod"]["spec"]["containers"][0]["image"] = "localhost/nowhere:1"
        bad = {
            "apiVersion": manifest["apiVersion"],
            "kind": manifest["kind"],
            "metadata": {"name": "refused"},
            "spec": spec,
        }
        (tmp_path / "refused.yaml").write_text(json.dumps(bad))
        stage.type(f"kubectl apply -f {tmp_path / 'refused.yaml'}")
        stage.until(lambda: other.workloads.get("refused") in {"Error", "Created"}, "the failure in the status")

        def told() -> bool:
            events = stage.cluster.request("GET", "/api/v1/namespaces/default/events")["items"]
            return any(
                each["reason"] == "WorkloadFailed" and "localhost/nowhere:1" in each["message"] for each in events
            )

        stage.until(told, "the event")

        def shown() -> bool:
            conditions = stage.cluster.request("GET", f"{DEPLOYMENTS}/refused").get("status", {}).get("conditions", ())
            return any(
                (each["type"], each["status"]) == ("Ready", "False") and "localhost/nowhere:1" in each["message"]
                for each in conditions
            )

        stage.until(shown, "the condition")

    def test_a_deleted_workload_leaves_every_device(self, stage: Stage, other: Device) -> None:
        stage.type("kubectl delete edgedeployment refused")
        stage.until(lambda: other.workloads == {}, "no workload in the status")


class TestCertificates:
    """What a registration certificate can do, and an expired one."""

    def test_an_agent_whose_certificate_is_lost_registers_with_the_same_key(self, stage: Stage, device: Device) -> None:
        device.agent.terminate()
        (device.state / "device.pem").unlink()
        device.agent.start()
        stage.until((device.state / "device.pem").is_file, "a new certificate")

    def test_a_deleted_device_removes_what_is_its_own_and_ends(self, stage: Stage, device: Device) -> None:
        stage.type(f"kubectl label edgedevice {device.name} foo=bar")
        stage.until(lambda: device.workloads == {WORKLOAD: "Running"}, "Running")
        stage.type(f"kubectl delete edgedevice {device.name} --wait=false")
        stage.until(lambda: not stage.cluster.exists(f"{DEVICES}/{device.name}"), "the EdgeDevice is gone")
        stage.until(lambda: not device.agent.running, "the agent ends")
        assert device.agent.returncode == 0
        assert "edgewright_agent" not in device.machine.run("nft", "list", "tables")
        assert (device.state / "volumes" / WORKLOAD / "hello.txt").is_file()
