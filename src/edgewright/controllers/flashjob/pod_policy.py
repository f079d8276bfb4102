"""What a job may give its flash Pods, as whoever runs the operator allows it: images, Secrets, accounts, labels.

`validation` asks it for every spec. Lists that are empty allow all, so that published manifests work; labels and
annotations by which other programs give Pods networks, identities or further containers are refused by default. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from edgewright.api.flashjob import FlashJobSpec, PodTemplate
from edgewright.controllers.settings import Settings

_EDGES: Final = frozenset("/:@")
_OURS: Final = frozenset({"app", "uuid"})
"""Labels that the operator sets itself, whatever a job says."""
_ACTING: Final = (
    # What the node, its runtime and Kubernetes itself act on.
    "kubernetes.io",
    "k8s.io",
    "cri-o.io",
    "katacontainers.io",
    "kubevirt.io",
    "nvidia.com",
    "openshift.io",
    # Networks.
    "antrea.io",
    "cilium.io",
    "cncf.io",
    "multus-cni.io",
    "ovn.org",
    "projectcalico.org",
    "tailscale.com",
    # Identities and secrets.
    "amazonaws.com",
    "azure.com",
    "azure.workload.identity",
    "gke.io",
    "google.com",
    "hashicorp.com",
    "spiffe.io",
    # Sidecars.
    "dapr.io",
    "datadoghq.com",
    "dynatrace.com",
    "istio.io",
    "kuma.io",
    "linkerd.io",
    "opentelemetry.io",
    # Ourselves.
    "edgewright.dev",
)
"""The domains, with all below them, of labels and annotations on which programs in the cluster act."""
_HARMLESS: Final = ("cluster-autoscaler.kubernetes.io/", "container.apparmor.security.beta.kubernetes.io/")
"""Of these domains; `validation` looks at the values of the second."""
_REVERSED: Final = ("io.", "run.oci.")
"""How runtimes begin annotations that have no domain before a slash."""
_SELECTED: Final = frozenset(
    {
        *("app", "aadpodidbinding", "component", "controller-uid", "instance", "job-name", "k8s-app", "name"),
        *("pod-template-hash", "role", "run", "service", "tier"),
    }
)
"""Labels without a domain by which Services and controllers usually choose their Pods."""


def policy_problems(spec: FlashJobSpec, settings: Settings) -> Iterator[tuple[str, str]]:
    """What is not allowed: the field, and what to do."""
    template = spec.pod_template or PodTemplate()
    image = spec.flashjob_pod_image or settings.flasher_image
    allowed = settings.flasher_images
    if allowed and image != settings.flasher_image and not any(_begins(image, prefix) for prefix in allowed):
        yield "spec.flashjobPodImage", f"{image[:200]} is not allowed here: leave it out, or use {_listed(allowed)}"
    for number, secret in enumerate(template.image_pull_secrets):
        if settings.pull_secrets and secret.name not in settings.pull_secrets:
            field = f"spec.podTemplate.imagePullSecrets[{number}]"
            yield field, f"{secret.name} is not allowed here: use {_listed(settings.pull_secrets)}"
    account = template.service_account_name
    if account and settings.service_accounts and account not in settings.service_accounts:
        use = _listed(settings.service_accounts)
        yield "spec.podTemplate.serviceAccountName", f"{account} is not allowed here: leave it out, or use {use}"
    for number, toleration in enumerate(template.tolerations):
        if settings.tolerations and toleration.key not in settings.tolerations:
            field = f"spec.podTemplate.tolerations[{number}].key"
            what = toleration.key or "a toleration of every taint"
            yield field, f"{what} is not allowed here: tolerate {_listed(settings.tolerations)}"
    for field, names, prefixes in (
        ("labels", template.labels, settings.pod_labels),
        ("annotations", template.annotations, settings.pod_annotations),
    ):
        for name in names:
            why = _refused(name, prefixes, label=field == "labels")
            if why:
                yield f"spec.podTemplate.{field}[{name[:80]}]", why


def _refused(name: str, prefixes: Sequence[str] | None, *, label: bool) -> str:
    """Why a label or an annotation may not be given to flash Pods; empty where it may."""
    if label and name in _OURS:
        return ""
    if prefixes is not None:
        allowed = name.startswith(tuple(prefixes))
        return "" if allowed else f"it is not allowed here: use names that begin with {_listed(prefixes)}"
    domain, slash, _ = name.rpartition("/")
    if slash:
        acting = any(domain == each or domain.endswith(f".{each}") for each in _ACTING)
        if acting and not name.startswith(_HARMLESS):
            return f"programs of the cluster act on names of {domain}: whoever runs the operator has to allow it"
    elif name.startswith(_REVERSED):
        return "container runtimes act on such names: whoever runs the operator has to allow it"
    elif label and name in _SELECTED:
        return "Services and controllers choose Pods by it: use a name with a domain of your own"
    return ""


def _begins(image: str, prefix: str) -> bool:
    """Whether an image is in that registry or repository: a name that only begins alike is another."""
    rest = image.removeprefix(prefix)
    return image.startswith(prefix) and (not rest or prefix.endswith("/") or rest[0] in _EDGES)


def _listed(words: Iterable[str]) -> str:
    return " or ".join(words) or "none"
