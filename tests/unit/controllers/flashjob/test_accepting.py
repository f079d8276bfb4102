"""Which specs are acted on, and what is said of the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.api.flashjob import MAX_DEVICES, FlashJob, FlashJobSpec, PodTemplate
from edgewright.controllers.flashjob import accepting
from edgewright.controllers.flashjob.accepting import LONGEST_UUIDS, Problem, problems
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
        ({"uuid": None}, "spec.uuid", "empty"),
        ({"uuid": ()}, "spec.uuid", "empty"),
        ({"uuid": ("one", " ")}, "spec.uuid[1]", "empty"),
        ({"uuid": ("one", "two", "one")}, "spec.uuid", "one stands in it more than once"),
        ({"uuid": tuple(f"{n}" for n in range(9)) * 2}, "spec.uuid", "0, 1, 2, 3, 4 and 4 more"),
        ({"uuid": tuple(f"{n}" for n in range(5001))}, "spec.uuid", "5001 devices and may name 5000"),
        ({"uuid": tuple(f"{n:0200}" for n in range(2001))}, "spec.uuid", f"{LONGEST_UUIDS} characters"),
        ({"uuid": ("one", "two"), "host_endpoint": "192.0.2.1"}, "spec.hostEndpoint", "names 2"),
        ({"host_endpoint": "no address"}, "spec.hostEndpoint", "neither an IP address nor a host name"),
        ({"host_endpoint": "127.0.0.1"}, "spec.hostEndpoint", "loopback"),
        ({"host_endpoint": "169.254.0.1"}, "spec.hostEndpoint", "link-local"),
        ({"external_ip": "board.example"}, "spec.externalIP", "no IP address"),
        ({"external_ip": "192.0.2.1:80"}, "spec.externalIP", "without a port"),
        ({"external_ip": "nothing like it"}, "spec.externalIP", "neither"),
        ({"version_policy": "Lax"}, "spec.versionPolicy", "must be Image or Strict"),
        ({"exposure": "NodePort"}, "spec.exposure", "must be LoadBalancer or None"),
        ({"max_concurrent": 0}, "spec.maxConcurrent", "from 1 to 5000"),
        ({"timeout_seconds": 86_401}, "spec.timeoutSeconds", "from 1 to 86400"),
        ({"retries": -1}, "spec.retries", "from 0 to 20"),
        ({"discovery_timeout_seconds": -1}, "spec.discoveryTimeoutSeconds", "from 0 to"),
        ({"ttl_seconds_after_finished": -1}, "spec.ttlSecondsAfterFinished", "at least 0"),
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


def test_all_problems_are_told_at_once() -> None:
    fields = [problem.field for problem in found(firmware="x", uuid=("a", "a"), retries=21)]
    assert fields == ["spec.firmware", "spec.uuid", "spec.retries"]


def test_a_device_may_be_on_this_machine_where_the_operator_says_so() -> None:
    assert found(Settings(local=True), host_endpoint="127.32.0.1") == []


def test_every_field_of_the_spec_is_read_by_a_controller() -> None:
    folder = Path(accepting.__file__).parent
    code = "\n".join(path.read_text() for path in folder.glob("*.py"))
    names = [field.name for field in msgspec.structs.fields(FlashJobSpec)]
    unread = [name for name in names if not re.search(rf"spec\.{name}\b", code)]
    assert not set(unread) - {"uuid"}  # it is read as `uuids`, whichever way it was written


@pytest.mark.parametrize("profile", ["runtime/default", "localhost/tight"])
def test_a_profile_that_confines_may_be_named_the_old_way(profile: str) -> None:
    assert found(pod_template=PodTemplate(annotations={APPARMOR: profile, "team": "plant"})) == []
