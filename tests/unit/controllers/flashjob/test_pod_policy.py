"""Finding 10 of the security audit: what a job may give its flash Pods, as whoever runs the operator allows it."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.api.flashjob import FlashJobSpec, PodTemplate, SecretName, Toleration
from edgewright.controllers.flashjob.pod_policy import policy_problems
from edgewright.controllers.flashjob.reasons import Reason
from edgewright.controllers.flashjob.validation import problems
from edgewright.controllers.settings import Settings
from tests.unit.controllers.flashjob.flash_samples import a_job

CLOSED = Settings(
    flasher_images=("registry.example/flashers", "harbor.example/"),
    pull_secrets=("harbor",),
    service_accounts=("flashers",),
    tolerations=("edge",),
    pod_labels=("team", "example.com/"),
    pod_annotations=("example.com/",),
)
TEMPLATE = "spec.podTemplate"


def fields(settings: Settings, spec: FlashJobSpec) -> list[str]:
    return [field for field, _ in policy_problems(spec, settings)]


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        (None, True),
        ("", True),
        (CLOSED.flasher_image, True),
        ("registry.example/flashers", True),
        ("registry.example/flashers:1.2", True),
        ("registry.example/flashers@sha256:aa", True),
        ("registry.example/flashers/esp32:1", True),
        ("harbor.example/anything/at:all", True),
        ("registry.example/flashers-of-others:1", False),
        ("registry.example.evil/flashers:1", False),
        ("busybox", False),
    ],
)
def test_a_flasher_is_of_an_allowed_registry_or_repository(image: str | None, allowed: bool) -> None:
    spec = FlashJobSpec(flashjob_pod_image=image)
    assert fields(CLOSED, spec) == ([] if allowed else ["spec.flashjobPodImage"])
    assert fields(Settings(), spec) == []


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({"image_pull_secrets": (SecretName(name="harbor"),)}, None),
        ({"image_pull_secrets": (SecretName(name="harbor"), SecretName(name="x"))}, "imagePullSecrets[1]"),
        ({"service_account_name": "flashers"}, None),
        ({"service_account_name": "default"}, "serviceAccountName"),
        ({"tolerations": (Toleration(key="edge", operator="Exists"),)}, None),
        ({"tolerations": (Toleration(operator="Exists"),)}, "tolerations[0].key"),
        ({"tolerations": (Toleration(key="control-plane"),)}, "tolerations[0].key"),
        ({"labels": {"team": "edge", "example.com/cost": "7"}}, None),
        ({"labels": {"tier": "web"}}, "labels[tier]"),
        ({"annotations": {"example.com/cost": "7"}}, None),
        ({"annotations": {"other.example/cost": "7"}}, "annotations[other.example/cost]"),
    ],
)
def test_what_a_closed_operator_does_not_list_is_refused_by_its_field(
    template: dict[str, Any], field: str | None
) -> None:
    spec = FlashJobSpec(pod_template=PodTemplate(**template))
    assert fields(CLOSED, spec) == ([] if field is None else [f"{TEMPLATE}.{field}"])
    if field != "labels[tier]":
        assert fields(Settings(), spec) == []


@pytest.mark.parametrize(
    "name",
    [
        "k8s.v1.cni.cncf.io/networks",
        "cni.projectcalico.org/ipAddrs",
        "sidecar.istio.io/inject",
        "linkerd.io/inject",
        "vault.hashicorp.com/agent-inject",
        "iam.amazonaws.com/role",
        "iam.gke.io/gcp-service-account",
        "azure.workload.identity/use",
        "seccomp.security.alpha.kubernetes.io/pod",
        "io.kubernetes.cri-o.userns-mode",
        "edgewright.dev/device",
    ],
)
def test_annotations_of_networks_identities_and_sidecars_are_refused_by_default(name: str) -> None:
    for field in ("annotations", "labels"):
        spec = FlashJobSpec(pod_template=PodTemplate(**{field: {name: "x"}}))  # type: ignore[arg-type]
        assert fields(Settings(), spec) == [f"{TEMPLATE}.{field}[{name}]"]


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("team", True),
        ("example.com/cost", True),
        ("app", True),
        ("uuid", True),
        ("tier", False),
        ("k8s-app", False),
        ("app.kubernetes.io/name", False),
        ("pod-template-hash", False),
    ],
)
def test_labels_by_which_services_choose_pods_are_refused_but_for_those_that_are_ours_anyway(
    name: str, allowed: bool
) -> None:
    spec = FlashJobSpec(pod_template=PodTemplate(labels={name: "x"}))
    assert (fields(Settings(), spec) == []) is allowed


def test_annotations_that_are_of_no_use_to_programs_may_be_given() -> None:
    given = {"team": "x", "example.com/cost": "7", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    assert fields(Settings(), FlashJobSpec(pod_template=PodTemplate(annotations=given))) == []


def test_what_is_not_allowed_is_a_problem_of_the_spec() -> None:
    (problem,) = problems(a_job(flashjob_pod_image="busybox"), CLOSED)
    assert (problem.field, problem.reason) == ("spec.flashjobPodImage", Reason.NOT_ALLOWED)
    assert "registry.example/flashers or harbor.example/" in problem.message
