"""The Service and the Pod of a device, field for field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewright.api.device import Claim, Device, DeviceStatus, Firmware, Mark
from edgewright.api.flash_pod import PLACES
from edgewright.api.flashjob import Exposure, FlashJob, PodTemplate, SecretName, Toleration
from edgewright.api.node import NODE_TAINT
from edgewright.api.pod import Pod
from edgewright.controllers.flashjob.manifests import (
    OUTCOME_FINALIZER,
    exposure_of,
    firmware_of,
    loosened,
    made_for,
    pod_for,
    secrets_of,
    service_for,
    tightened,
)
from edgewright.controllers.settings import Settings
from edgewright.runtime.objects import RawObject
from tests.unit.controllers.flashjob.flash_samples import UUID, a_claim, a_device, a_job, a_pod, a_service

PUBLISHED = ["FIRMWARE", "UUID", "HOST_ENDPOINT", "DEVICE", "APPLICATION_TYPE", "VERSION", "EXTERNAL_IP"]
THEIRS = "registry.example/their/flasher:1"
PINNED = "sha256:" + "a" * 64


def made(
    job: FlashJob,
    device: Device | None = None,
    *,
    address: str = "198.51.100.1",
    digest: str = "",
    settings: Settings | None = None,
    **claim: Any,
) -> RawObject:
    asked: Claim = a_claim(job, **claim)
    return pod_for(
        job, device or a_device(asked), asked, address=address, digest=digest, settings=settings or Settings()
    )


def environment(pod: RawObject, container: str = "flash-container") -> dict[str, str]:
    spec = pod["spec"]
    every = [*spec["containers"], *spec.get("initContainers", [])]
    found = next(each for each in every if each["name"] == container)
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in found["env"]}


# --- the Service ----------------------------------------------------------------------------------------------------


def test_the_service_is_the_published_one_and_lets_only_the_device_in() -> None:
    job = a_job()
    claim = a_claim(job)
    service = service_for(job, a_device(claim), claim, Settings())
    labels = {"app": "job", "uuid": UUID}
    assert service["metadata"]["name"] == f"job-service-{UUID}"
    assert service["metadata"]["labels"] == {**labels, Mark.JOB_UID: "job-1"}
    (owner,) = service["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
        "kind": "FlashJob",
        "name": "job",
        "uid": "job-1",
        "controller": True,
    }
    assert service["spec"] == {
        "type": "LoadBalancer",
        "selector": labels,
        "ports": [{"port": 4433, "targetPort": 4433, "protocol": "TCP"}],
        "loadBalancerSourceRanges": ["192.0.2.7/32"],
    }


@pytest.mark.parametrize(
    ("endpoint", "ranges"),
    [
        ("192.0.2.7:8080", ["192.0.2.7/32"]),
        ("http://192.0.2.7", ["192.0.2.7/32"]),
        ("2001:db8::7", ["2001:db8::7/128"]),
        ("[2001:db8::7]:80", ["2001:db8::7/128"]),
        ("sensor.example", None),
        ("", None),
    ],
)
def test_the_source_range_is_the_devices_address_where_it_is_one(endpoint: str, ranges: list[str] | None) -> None:
    job = a_job()
    claim = a_claim(job)
    device = a_device(claim, endpoint=endpoint)
    assert service_for(job, device, claim, Settings())["spec"].get("loadBalancerSourceRanges") == ranges
    assert "loadBalancerSourceRanges" not in service_for(job, device, claim, Settings(nat=True))["spec"]


def test_an_address_that_the_job_asks_for_is_asked_of_the_load_balancer() -> None:
    job = a_job(external_ip="198.51.100.9")
    claim = a_claim(job)
    assert service_for(job, a_device(claim), claim, Settings())["spec"]["loadBalancerIP"] == "198.51.100.9"


@pytest.mark.parametrize(
    ("exposure", "protocol", "expected"),
    [
        (None, "", Exposure.LOAD_BALANCER),
        (None, "esp32", Exposure.LOAD_BALANCER),
        (None, "smp-udp", Exposure.NONE),
        (None, "of-my-own", Exposure.NONE),
        ("None", "esp32", Exposure.NONE),
        ("LoadBalancer", "smp-udp", Exposure.LOAD_BALANCER),
    ],
)
def test_the_exposure_is_the_jobs_or_as_the_protocol_needs_it(
    exposure: str | None, protocol: str, expected: Exposure
) -> None:
    assert exposure_of(a_job(exposure=exposure).spec, a_device(protocol=protocol)) is expected


# --- the Pod --------------------------------------------------------------------------------------------------------


def test_the_pod_is_marked_owned_bounded_and_has_no_token() -> None:
    job = a_job()
    pod = made(job, attempt=2)
    metadata, spec = pod["metadata"], pod["spec"]
    assert metadata["name"] == f"job-flashing-pod-{UUID}"
    assert metadata["labels"] == {"app": "job", "uuid": UUID, Mark.JOB_UID: "job-1"}
    assert metadata["annotations"][Mark.DEVICE] == "device-1"
    assert metadata["annotations"][Mark.ATTEMPT] == "2"
    assert metadata["annotations"][Mark.STATE] == a_claim(job).state
    assert metadata["finalizers"] == [OUTCOME_FINALIZER]
    assert "blockOwnerDeletion" not in metadata["ownerReferences"][0]
    assert spec["restartPolicy"] == "Never"
    assert spec["activeDeadlineSeconds"] == 720
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["automountServiceAccountToken"] is False
    assert "enableServiceLinks" not in spec
    (container,) = spec["containers"]
    assert (container["name"], container["image"]) == ("flash-container", "edgewright/flasher")
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_the_seven_published_variables_are_there_even_where_they_are_empty() -> None:
    device = a_device(type="", endpoint="")
    values = environment(made(a_job(), device, address=""))
    assert {name: values[name] for name in PUBLISHED} == {
        "FIRMWARE": "registry.example/firmware:1.1.0",
        "UUID": UUID,
        "HOST_ENDPOINT": "",
        "DEVICE": "",
        "APPLICATION_TYPE": "",
        "VERSION": "1.1.0",
        "EXTERNAL_IP": "",
    }


def test_what_the_job_says_goes_before_what_the_device_is_known_to_be() -> None:
    values = environment(made(a_job(device="esp32c6", application_type="thermo", host_endpoint="192.0.2.99")))
    assert (values["DEVICE"], values["APPLICATION_TYPE"]) == ("esp32c6", "thermo")
    assert (values["HOST_ENDPOINT"], values["EXTERNAL_IP"]) == ("192.0.2.99", "198.51.100.1")
    assert environment(made(a_job()))["DEVICE"] == "esp32s3"
    assert environment(made(a_job(external_ip="203.0.113.5"), address=""))["EXTERNAL_IP"] == "203.0.113.5"


def test_what_only_our_flasher_knows_is_told_by_variables_of_ours() -> None:
    settings = Settings(
        plain_registries=("registry.example", "other.example"),
        attestation="http://192.0.2.1:8000",
        local=True,
        token_hosts=("a.example", "b.example"),
    )
    device = a_device()
    known = Firmware(reference="registry.example/firmware:1", digest="sha256:0", version="1")
    device = type(device)(
        metadata=device.metadata, spec=device.spec, status=type(device.status)(firmware=known, application="lamp")
    )
    job = a_job(force=True, allow_insecure=True, version_policy="Strict", timeout_seconds=90)
    values = environment(made(job, device, digest="sha256:1", settings=settings))
    assert values == {
        **{name: values[name] for name in PUBLISHED},
        "APPLICATION_TYPE": "lamp",
        "TMPDIR": "/scratch",
        "EDGEWRIGHT_ROLE": "flash",
        "EDGEWRIGHT_PROTOCOL": "esp32",
        "EDGEWRIGHT_POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}},
        "EDGEWRIGHT_DIGEST": "sha256:1",
        "EDGEWRIGHT_RECORDED_DIGEST": "sha256:0",
        "EDGEWRIGHT_TIMEOUT": "90",
        "EDGEWRIGHT_FORCE": "true",
        "EDGEWRIGHT_VERSION_POLICY": "Strict",
        "EDGEWRIGHT_ALLOW_INSECURE": "true",
        "EDGEWRIGHT_PLAIN_REGISTRIES": "registry.example,other.example",
        "EDGEWRIGHT_ATTESTATION": "http://192.0.2.1:8000",
        "EDGEWRIGHT_LOCAL": "true",
        "EDGEWRIGHT_TOKEN_HOSTS": "a.example,b.example",
    }


def test_a_device_that_others_have_flashed_is_checked() -> None:
    assert environment(made(a_job(), check=True))["EDGEWRIGHT_ROLE"] == "check"


def test_secrets_are_mounted_where_the_flasher_looks_for_them() -> None:
    job = a_job(firmware_pull_secret="pull", signature_public_key_secret="cosign", tls_secret_name="mine")
    pod = made(job)
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    mounts = {each["name"]: each["mountPath"] for each in pod["spec"]["containers"][0]["volumeMounts"]}
    assert {name: volumes[name]["secret"]["secretName"] for name in ("tls", "pull", "signature")} == {
        "tls": "mine",
        "pull": "pull",
        "signature": "cosign",
    }
    assert mounts["tls"] == "/etc/edgewright/tls"
    assert mounts["pull"] == "/etc/edgewright/pull"
    assert mounts["signature"] == "/etc/edgewright/signature"
    assert environment(pod)["EDGEWRIGHT_VERIFY_SIGNATURE"] == "true"


@pytest.mark.parametrize("image", [None, THEIRS], ids=["our flasher", "a foreign flasher"])
def test_whatever_is_mounted_the_flasher_can_be_told_of_where_nothing_can_be_mounted(image: str | None) -> None:
    job = a_job(
        flashjob_pod_image=image,
        firmware_pull_secret="pull",
        signature_public_key_secret="cosign",
        exposure="LoadBalancer",
    )
    spec = made(job)["spec"]
    mounts = [
        each for part in (*spec["containers"], *spec.get("initContainers", ())) for each in part.get("volumeMounts", ())
    ]
    assert mounts
    assert {each["mountPath"] for each in mounts} <= PLACES.keys()


def test_no_volume_covers_a_folder_in_which_a_node_of_ours_may_have_its_programs() -> None:
    for container in (pod := made(a_job(flashjob_pod_image=THEIRS))["spec"])["initContainers"] + pod["containers"]:
        for mount in container.get("volumeMounts", ()):
            assert mount["mountPath"] == "/scratch" or mount["mountPath"].startswith("/etc/edgewright/")


@pytest.mark.parametrize(
    ("spec", "protocol", "secrets"),
    [
        ({}, "esp32", {"spec.tlsSecretName": "ota-agent-tls"}),
        ({}, "smp-udp", {}),
        ({"exposure": "LoadBalancer"}, "of-my-own", {"spec.tlsSecretName": "ota-agent-tls"}),
        ({"exposure": "None"}, "esp32", {"spec.tlsSecretName": "ota-agent-tls"}),
        ({"flashjob_pod_image": THEIRS}, "esp32", {}),
        ({"firmware_pull_secret": "p"}, "smp-udp", {"spec.firmwarePullSecret": "p"}),
    ],
)
def test_a_pod_needs_the_key_only_where_a_device_dials_our_flasher(
    spec: dict[str, Any], protocol: str, secrets: dict[str, str]
) -> None:
    assert secrets_of(a_job(**spec).spec, a_device(protocol=protocol), Settings()) == secrets


def test_a_foreign_flasher_runs_between_our_inspection_and_our_verification() -> None:
    pod = made(a_job(flashjob_pod_image=THEIRS), digest="sha256:1")
    spec = pod["spec"]
    (inspect,) = spec["initContainers"]
    theirs, verify = spec["containers"]
    assert [each["name"] for each in (inspect, theirs, verify)] == [
        "edgewright-inspect",
        "flash-container",
        "edgewright-verify",
    ]
    assert theirs["image"] == THEIRS
    assert sorted(environment(pod)) == sorted(PUBLISHED)
    assert environment(pod, "edgewright-inspect")["EDGEWRIGHT_ROLE"] == "inspect"
    assert environment(pod, "edgewright-verify")["EDGEWRIGHT_ROLE"] == "verify"
    assert "runAsNonRoot" not in theirs["securityContext"]
    assert theirs["securityContext"]["allowPrivilegeEscalation"] is False
    assert inspect["securityContext"]["runAsNonRoot"] is True
    assert "volumeMounts" not in theirs
    assert spec["activeDeadlineSeconds"] == 780


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://attest.example:8000", "attest.example"),
        ("http://10.77.0.40:8000/", "10.77.0.40"),
        ("https://[fd00::7]", "fd00::7"),
    ],
)
def test_a_foreign_flasher_finds_the_attestation_service_where_the_published_ones_look(url: str, host: str) -> None:
    named = Settings(attestation=url)
    pod = made(a_job(flashjob_pod_image=THEIRS), settings=named)
    assert environment(pod)["DICE_AUTH_SERVICE_SERVICE_HOST"] == host
    assert environment(pod, "edgewright-verify")["EDGEWRIGHT_ATTESTATION"] == url
    assert "DICE_AUTH_SERVICE_SERVICE_HOST" not in environment(made(a_job(), settings=named))


def test_a_flash_pod_may_have_a_service_account_and_never_its_token() -> None:
    template = PodTemplate(service_account_name="flashers")
    for image in (None, THEIRS):
        spec = made(a_job(flashjob_pod_image=image, pod_template=template))["spec"]
        assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("flashers", False)
        assert "serviceAccountName" not in made(a_job(flashjob_pod_image=image))["spec"]


@pytest.mark.parametrize(
    ("firmware", "digest", "pulled"),
    [
        ("registry.example:5000/team/fw:1.1.0", PINNED, f"registry.example:5000/team/fw@{PINNED}"),
        ("registry.example/fw", PINNED, f"registry.example/fw@{PINNED}"),
        ("registry.example/fw:1.1.0", "", "registry.example/fw:1.1.0"),
        (f"registry.example/fw:1@{PINNED}", "sha256:" + "b" * 64, f"registry.example/fw:1@{PINNED}"),
        ("fsdsdsd", PINNED, "fsdsdsd"),
    ],
    ids=["a tag", "no tag", "not known yet", "the job pins it", "no reference"],
)
def test_a_foreign_flasher_pulls_what_the_tag_stood_for_and_ours_keep_the_jobs_name(
    firmware: str, digest: str, pulled: str
) -> None:
    pod = made(a_job(flashjob_pod_image=THEIRS, firmware=firmware), digest=digest)
    assert environment(pod)["FIRMWARE"] == pulled
    for ours in ("edgewright-inspect", "edgewright-verify"):
        assert environment(pod, ours)["FIRMWARE"] == firmware
        assert environment(pod, ours).get("EDGEWRIGHT_DIGEST", "") == digest
    assert firmware_of(msgspec.convert(pod, Pod)) == firmware
    assert environment(made(a_job(firmware=firmware), digest=digest))["FIRMWARE"] == firmware


def test_the_flasher_is_told_by_which_certificate_the_device_is_known() -> None:
    device = a_device()
    known = msgspec.structs.replace(device, status=DeviceStatus(certificate="ab" * 32))
    assert environment(made(a_job(), known))["EDGEWRIGHT_RECORDED_CERTIFICATE"] == "ab" * 32
    assert "EDGEWRIGHT_RECORDED_CERTIFICATE" not in environment(made(a_job(), device))


def test_our_own_flasher_named_by_its_name_is_no_foreign_one() -> None:
    assert len(made(a_job(flashjob_pod_image="edgewright/flasher"))["spec"]["containers"]) == 1
    elsewhere = Settings(flasher_image="registry.example/edgewright:1")
    (container,) = made(a_job(flashjob_pod_image="edgewright/flasher"), settings=elsewhere)["spec"]["containers"]
    assert (container["image"], container["args"]) == ("registry.example/edgewright:1", ["flasher"])


def test_a_pod_template_adds_what_it_may_and_the_operators_labels_win() -> None:
    template = PodTemplate(
        labels={"team": "lights", "app": "mine", Mark.JOB_UID.value: "x"},
        annotations={"note": "yes", Mark.DEVICE.value: "x"},
        node_selector={"edge": "true"},
        tolerations=(Toleration(key="edge", operator="Exists"),),
        affinity={"nodeAffinity": {}},
        image_pull_secrets=(SecretName(name="hub"),),
        resources={"limits": {"memory": "64Mi"}},
        security_context={"runAsUser": 1000, "capabilities": {"drop": ["NET_RAW"]}, "procMount": None},
    )
    pod = made(a_job(pod_template=template))
    spec = pod["spec"]
    assert pod["metadata"]["labels"] == {"team": "lights", "app": "job", "uuid": UUID, Mark.JOB_UID: "job-1"}
    assert pod["metadata"]["annotations"]["note"] == "yes"
    assert pod["metadata"]["annotations"][Mark.DEVICE] == "device-1"
    assert spec["nodeSelector"] == {"edge": "true"}
    assert spec["tolerations"] == [
        {"key": NODE_TAINT, "operator": "Exists", "effect": "NoSchedule"},
        {"key": "edge", "operator": "Exists"},
    ]
    assert spec["affinity"] == {"nodeAffinity": {}}
    assert spec["imagePullSecrets"] == [{"name": "hub"}]
    assert spec["containers"][0]["resources"] == {"limits": {"memory": "64Mi"}}
    foreign = made(a_job(pod_template=template, flashjob_pod_image="registry.example/other:1"))["spec"]
    for each in (*foreign["initContainers"], *foreign["containers"]):
        assert each["resources"] == {"limits": {"memory": "64Mi"}}, each["name"]
    context = spec["containers"][0]["securityContext"]
    assert (context["runAsUser"], context["runAsNonRoot"]) == (1000, True)
    assert context["capabilities"] == {"drop": ["ALL", "NET_RAW"]}
    assert "procMount" not in context


def test_labels_of_names_that_are_too_long_for_one_are_the_same_on_pod_and_service() -> None:
    job = a_job("j" * 100)
    claim = a_claim(job)
    device = a_device(claim)
    pod, service = a_pod(job, device, claim), a_service(job, device, claim)
    assert len(service.spec.selector["app"]) <= 63
    assert service.spec.selector.items() <= pod.metadata.labels.items()
    assert made_for(pod, device, claim)
    assert not made_for(pod, a_device(name="another"), claim)
    assert not made_for(service, device, a_claim(a_job(uid="job-2")))


# --- security contexts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "field"),
    [
        (None, None),
        ({}, None),
        ({"runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": True}, None),
        ({"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "privileged": False}, None),
        ({"capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}, None),
        ({"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}, "seccompProfile"),
        ({"appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}}, "appArmorProfile"),
        ({"seLinuxOptions": {"type": "container_t"}}, None),
        ({"seLinuxOptions": {"type": "container_kvm_t"}}, "seLinuxOptions"),
        ({"seLinuxOptions": {"type": "container_engine_t"}}, "seLinuxOptions"),
        ({"seLinuxOptions": {"level": "s0:c1"}, "appArmorProfile": {"type": "RuntimeDefault"}}, None),
        ({"procMount": "Default", "privileged": None}, None),
        ({"privileged": True}, "privileged"),
        ({"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation"),
        ({"readOnlyRootFilesystem": False}, "readOnlyRootFilesystem"),
        ({"runAsNonRoot": False}, "runAsNonRoot"),
        ({"runAsUser": 0}, "runAsUser"),
        ({"runAsUser": "1000"}, "runAsUser"),
        ({"runAsUser": True}, "runAsUser"),
        ({"runAsGroup": 0}, "runAsGroup"),
        ({"capabilities": {"add": ["SYS_ADMIN"]}}, "capabilities"),
        ({"capabilities": ["ALL"]}, "capabilities"),
        ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile"),
        ({"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile"),
        ({"seLinuxOptions": {"type": "spc_t"}}, "seLinuxOptions"),
        ({"seLinuxOptions": {"user": "system_u"}}, "seLinuxOptions"),
        ({"procMount": "Unmasked"}, "procMount"),
        ({"windowsOptions": {"hostProcess": True}}, "windowsOptions"),
        ({"ofTheFuture": True}, "ofTheFuture"),
        ({"runAsUser": 1, "privileged": 1}, "privileged"),
    ],
)
def test_a_security_context_may_only_tighten(context: dict[str, Any] | None, field: str | None) -> None:
    assert loosened(context) == field


def test_capabilities_that_either_side_drops_are_dropped() -> None:
    assert tightened({}, {"capabilities": {"drop": ["NET_RAW"]}}) == {"capabilities": {"drop": ["NET_RAW"]}}
    assert tightened({"capabilities": {"drop": ["ALL"]}}, None) == {"capabilities": {"drop": ["ALL"]}}
