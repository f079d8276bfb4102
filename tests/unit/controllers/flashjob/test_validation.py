"""Which specs are acted on, and what is said of the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.api.flashjob import MAX_DEVICES, FlashJob, FlashJobSpec, PodTemplate
from edgewright.controllers.flashjob import validation
from edgewright.controllers.flashjob.validation import MAX_UUIDS, Problem, in_a_sentence, problems
from edgewright.controllers.settings import Settings

APPARMOR = "container.apparmor.security.beta.kubernetes.io/flash-container"


def found(settings: Settings | None = None, **spec: Any) -> list[Problem]:
    good: dict[str, Any] = {"uuid": ("one",), "firmware": "registry.example/esp32:1.0.0", "version": "1.0.0"}
    return problems(FlashJob(spec=FlashJobSpec(**{**good, **spec})), settings or Settings())


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"uuid": "one"},
        {"host_endpoint": "192.0.2.1:8080"},
        {"host_endpoint": ""},
        {"external_ip": "192.0.2.1"},
        {"external_ip": "2001:db8::1"},
        {"max_concurrent": MAX_DEVICES, "timeout_seconds": 1, "retries": 0, "discovery_timeout_seconds": 0},
        {"version_policy": "Strict", "exposure": "None", "ttl_seconds_after_finished": 0},
        {"pod_template": PodTemplate()},
        {"pod_template": PodTemplate(security_context={"readOnlyRootFilesystem": True})},
        {"uuid": tuple(f"d95c7c2d-7dc5-427b-9bf7-{number:012}" for number in range(MAX_DEVICES))},
        {"uuid": ("x" * 253,), "ttl_seconds_after_finished": 2**31 - 1},
    ],
    ids=lambda spec: ",".join(spec) or "the least",
)
def test_a_good_spec_has_no_problem(spec: dict[str, Any]) -> None:
    assert found(**spec) == []


@pytest.mark.parametrize(
    ("spec", "field", "says"),
    [
        ({"firmware": "fsdsdsd"}, "spec.firmware", "fsdsdsd"),
        ({"firmware": ""}, "spec.firmware", "empty"),
        ({"version": ""}, "spec.version", "empty"),
        ({"version": "  "}, "spec.version", "empty"),
        ({"uuid": None}, "spec.uuid", "empty"),
        ({"uuid": ()}, "spec.uuid", "empty"),
        ({"uuid": ("one", " ")}, "spec.uuid[1]", "empty"),
        ({"uuid": ("one", "two", "one")}, "spec.uuid", "one stands in it more than once"),
        ({"uuid": tuple(f"{n}" for n in range(9)) * 2}, "spec.uuid", "0, 1, 2, 3, 4 and 4 more"),
        ({"uuid": tuple(f"{n}" for n in range(5001))}, "spec.uuid", "5001 devices and may name 5000"),
        ({"uuid": tuple(f"{n:0200}" for n in range(2001))}, "spec.uuid", f"{MAX_UUIDS} characters"),
        ({"uuid": ("one", "two"), "host_endpoint": "192.0.2.1"}, "spec.hostEndpoint", "names 2"),
        ({"host_endpoint": "no address"}, "spec.hostEndpoint", "neither an IP address nor a host name"),
        ({"host_endpoint": "127.0.0.1"}, "spec.hostEndpoint", "loopback"),
        ({"host_endpoint": "169.254.0.1"}, "spec.hostEndpoint", "link-local"),
        ({"external_ip": "board.example"}, "spec.externalIP", "no IP address"),
        ({"external_ip": "192.0.2.1:80"}, "spec.externalIP", "nothing around it"),
        ({"external_ip": "nothing like it"}, "spec.externalIP", "no IP address"),
        ({"external_ip": "http://192.0.2.1"}, "spec.externalIP", "nothing around it"),
        ({"external_ip": "[2001:db8::1]"}, "spec.externalIP", "nothing around it"),
        ({"external_ip": " 192.0.2.1 "}, "spec.externalIP", "nothing around it"),
        ({"external_ip": "2001:db8::1%eth0"}, "spec.externalIP", "nothing around it"),
        ({"external_ip": "0.0.0.0"}, "spec.externalIP", "0.0.0.0 stands for all addresses: give the one"),
        ({"external_ip": "::"}, "spec.externalIP", "all addresses"),
        ({"external_ip": "224.0.0.1"}, "spec.externalIP", "multicast"),
        ({"external_ip": "255.255.255.255"}, "spec.externalIP", "broadcast"),
        ({"external_ip": "127.0.0.1"}, "spec.externalIP", "127.0.0.1 is a loopback address: give the one"),
        ({"external_ip": "::ffff:127.0.0.1"}, "spec.externalIP", "loopback"),
        ({"external_ip": "169.254.0.1"}, "spec.externalIP", "link-local"),
        ({"version_policy": "Lax"}, "spec.versionPolicy", "must be Image or Strict"),
        ({"exposure": "NodePort"}, "spec.exposure", "must be LoadBalancer or None"),
        ({"max_concurrent": 0}, "spec.maxConcurrent", "from 1 to 5000"),
        ({"timeout_seconds": 86_401}, "spec.timeoutSeconds", "from 1 to 86400"),
        ({"retries": -1}, "spec.retries", "from 0 to 20"),
        ({"discovery_timeout_seconds": -1}, "spec.discoveryTimeoutSeconds", "from 0 to"),
        ({"ttl_seconds_after_finished": -1}, "spec.ttlSecondsAfterFinished", "from 0 to 2147483647"),
        ({"ttl_seconds_after_finished": 10**12}, "spec.ttlSecondsAfterFinished", "from 0 to 2147483647"),
        ({"uuid": ("one", "x" * 254)}, "spec.uuid[1]", "254 characters and may have 253"),
        (
            {"pod_template": PodTemplate(security_context={"privileged": True})},
            "spec.podTemplate.securityContext.privileged",
            "only be given less",
        ),
        (
            {"pod_template": PodTemplate(annotations={APPARMOR: "unconfined"})},
            f"spec.podTemplate.annotations[{APPARMOR}]",
            "only be given less",
        ),
    ],
)
def test_a_bad_field_is_named_with_what_to_do(spec: dict[str, Any], field: str, says: str) -> None:
    (problem,) = found(**spec)
    assert problem.field == field
    assert says in problem.message
    assert str(problem) == f"{field}: {problem.message}"


PINNED = "registry.example/esp32:1.0.0@sha256:" + "a" * 64


@pytest.mark.parametrize(
    "spec",
    [
        {"signature_public_key_secret": "key", "flashjob_pod_image": "example/theirs", "firmware": PINNED},
        {"signature_public_key_secret": "key"},
        {"signature_public_key_secret": "key", "flashjob_pod_image": FLASHER_IMAGE},
        {"flashjob_pod_image": "example/theirs"},
    ],
    ids=["pinned", "our flasher", "our flasher by name", "no signature"],
)
def test_a_signature_goes_with_our_flasher_or_a_digest(spec: dict[str, Any]) -> None:
    assert found(**spec) == []


def test_a_signature_is_worth_nothing_where_others_pull_a_tag_after_it_was_checked() -> None:
    (problem,) = found(signature_public_key_secret="key", flashjob_pod_image="example/theirs")
    assert (problem.field, problem.reason) == ("spec.firmware", "FirmwareNotPinned")
    for part in ("spec.signaturePublicKeySecret", "spec.flashjobPodImage", "@sha256:"):
        assert part in problem.message


def test_all_problems_are_told_at_once() -> None:
    fields = [problem.field for problem in found(firmware="x", uuid=("a", "a"), retries=21)]
    assert fields == ["spec.firmware", "spec.uuid", "spec.retries"]


def test_a_device_may_be_on_this_machine_where_the_operator_says_so() -> None:
    assert found(Settings(local=True), host_endpoint="127.32.0.1") == []
    assert found(Settings(local=True), external_ip="127.60.0.1") == []


def test_a_name_that_is_too_long_is_told_short() -> None:
    (problem,) = found(uuid=("y" * 5000,))
    assert "yyyy" in problem.message
    assert len(problem.message) < 200


@pytest.mark.parametrize(
    "spec",
    [
        {"firmware": "x" * 100_000},
        {"uuid": tuple(f"{number:0300}" for number in range(600))},
        {"host_endpoint": "x" * 100_000},
        {"external_ip": "x" * 100_000},
        {"pod_template": PodTemplate(annotations={f"{APPARMOR}-{number}": "unconfined" for number in range(2000)})},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_what_is_told_fits_into_a_condition(spec: dict[str, Any]) -> None:
    text = in_a_sentence(found(**spec, version=""))
    assert len(text) <= 32_768
    assert text.startswith("spec.")
    if "pod_template" not in spec:
        assert "spec.version: it is empty" in text, "a long one does not drive out the others"


READ_AS = {
    "uuid": "uuids",
    "max_concurrent": "concurrency",
    "timeout_seconds": "timeout",
    "retries": "attempts",
    "discovery_timeout_seconds": "discovery_timeout",
    "tls_secret_name": "tls_secret",
}
"""The properties that say what counts where a field is absent, or whichever way it was written."""


def test_every_field_of_the_spec_is_read_by_a_controller() -> None:
    folder = Path(validation.__file__).parent
    code = "\n".join(path.read_text() for path in folder.glob("*.py"))
    names = [READ_AS.get(field.name, field.name) for field in msgspec.structs.fields(FlashJobSpec)]
    assert [name for name in names if not re.search(rf"spec\.{name}\b", code)] == []


def test_the_profile_of_the_runtime_may_be_named_the_old_way() -> None:
    assert found(pod_template=PodTemplate(annotations={APPARMOR: "runtime/default", "team": "plant"})) == []
