"""The options of the commands that run the operator, worded once, and the two things that both do with them."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

import typer

from edgewright.api.flash_pod import FLASHER_IMAGE, PLACES
from edgewright.cli.failure import Failed

if TYPE_CHECKING:
    from edgewright.api.capabilities import Capability
    from edgewright.api.probe import Asks
    from edgewright.controllers.notifications.webhook import Webhook
    from edgewright.controllers.settings import Settings
    from edgewright.runtime import Client

LEASE: Final = "edgewright"
"""The Lease that makes one operator the leader."""
CHARTS_LEASE: Final = "edgewright-charts"
"""The same for an operator of charts alone: it serves other kinds, so it also works next to a leader of ours."""

PlainRegistries: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--plain-registry",
        metavar="HOST[:PORT]",
        help="A registry that flashers speak to over plain HTTP, and never with credentials; repeat it for more.",
        show_default=False,
    ),
]
TokenHosts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--token-host",
        metavar="HOST",
        help="A host that may see the credentials for registries of other domains, to give tokens for them; repeat it "
        "for more.",
        show_default=False,
    ),
]
Attestation: TypeAlias = Annotated[
    str,
    typer.Option(
        "--attestation",
        metavar="URL",
        help="The attestation service; default: the Service dice-auth-service in the job's namespace.",
        show_default=False,
    ),
]
Nat: TypeAlias = Annotated[
    bool,
    typer.Option("--nat", help="Devices dial in from other addresses than their own: their Services are open to all."),
]
Controllers: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--controllers",
        metavar="NAME[,NAME]",
        help="What to do, of flashjob, rollout, flux, edge and charts; default: everything whose kinds are there.",
        show_default=False,
    ),
]
Watches: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--watches",
        "--watches-file",
        metavar="FILE",
        help="Serve the kinds in this file by their Helm charts, in the namespaces of $WATCH_NAMESPACE or in all.",
        show_default=False,
    ),
]
WatchNamespaces: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--watch-namespace",
        metavar="NAMESPACE",
        help="Work on objects in this namespace alone, with rights there; repeat it for more; default: all.",
        show_default=False,
    ),
]
FlasherImage: TypeAlias = Annotated[
    str,
    typer.Option("--flasher-image", metavar="IMAGE", help="The flasher of FlashJobs that name none."),
]

FlasherImages: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-flasher-image",
        metavar="PREFIX",
        help="A registry or repository that spec.flashjobPodImage may be of; repeat it for more. Default: all.",
        show_default=False,
    ),
]
PullSecrets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-pull-secret",
        metavar="NAME",
        help="A Secret that flash Pods may have as imagePullSecret; repeat it for more. Default: all.",
        show_default=False,
    ),
]
ServiceAccounts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-service-account",
        metavar="NAME",
        help="A ServiceAccount that flash Pods may have; repeat it for more. Default: all.",
        show_default=False,
    ),
]
CheckSecrets: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--check-secrets/--no-check-secrets",
        help="Look whether the Secrets that a FlashJob names are there before its devices are claimed. Without it the "
        "operator needs no right on Secrets for FlashJobs, and the Events of a Pod that waits tell what it lacks.",
    ),
]
Tolerations: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-toleration",
        metavar="KEY",
        help="The key of a taint that flash Pods may tolerate; repeat it for more. Default: all.",
        show_default=False,
    ),
]
PodLabels: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-pod-label",
        metavar="PREFIX",
        help="How labels begin that a FlashJob may give its Pods; repeat it for more. Default: all but those on which "
        "programs of the cluster act.",
        show_default=False,
    ),
]
PodAnnotations: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-pod-annotation",
        metavar="PREFIX",
        help="The same for annotations.",
        show_default=False,
    ),
]
WebhookUrl: TypeAlias = Annotated[
    str,
    typer.Option(
        "--webhook",
        metavar="URL",
        help="Tell this receiver by signed requests when a rollout pauses, fails, needs approval or ends.",
        show_default=False,
    ),
]
WebhookSecrets: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--webhook-secret-file",
        metavar="FILE",
        help="What --webhook is signed with: a secret whsec_... per line; with two, both sign, until the receiver has "
        "the new one. Read again for every request.",
        show_default=False,
    ),
]
WebhookPlain: TypeAlias = Annotated[
    bool,
    typer.Option("--webhook-plain", help="Let --webhook be plain HTTP, and be on this machine.", show_default=False),
]

ProbeEvery: TypeAlias = Annotated[
    float,
    typer.Option("--probe-every", metavar="SECONDS", help="How often a Device is asked, where they are asked at all."),
]
PROBE_EVERY: Final = 60.0
"""How often a Device is asked what it runs, by default."""
_MAX_PERIOD: Final = 86_400
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")

_FLASHER: Final = (sys.executable, "-m", "edgewright.devices.flasher")
TOLD: Final = {FLASHER_IMAGE: PLACES}
"""The flasher runs on a node of ours also where nothing can be mounted: this is how it is told where things are."""


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """What FlashJobs may give their Pods, as it was typed; nothing typed is open."""

    flasher_images: Sequence[str] | None = None
    pull_secrets: Sequence[str] | None = None
    service_accounts: Sequence[str] | None = None
    tolerations: Sequence[str] | None = None
    pod_labels: Sequence[str] | None = None
    pod_annotations: Sequence[str] | None = None

    def given(self) -> dict[str, Sequence[str]]:
        """What was typed, by option."""
        return {
            "--allow-flasher-image": self.flasher_images or (),
            "--allow-pull-secret": self.pull_secrets or (),
            "--allow-service-account": self.service_accounts or (),
            "--allow-toleration": self.tolerations or (),
            "--allow-pod-label": self.pod_labels or (),
            "--allow-pod-annotation": self.pod_annotations or (),
        }


def settings(
    *,
    plain_registries: Sequence[str] | None,
    attestation: str,
    nat: bool,
    token_hosts: Sequence[str] | None = None,
    flasher_image: str = FLASHER_IMAGE,
    local: bool = False,
    probe: bool = False,
    probe_every: float = PROBE_EVERY,
    allowed: Allowed | None = None,
    check_secrets: bool = True,
    webhook: Webhook | None = None,
) -> Settings:
    """What was typed, checked."""
    from edgewright.controllers.settings import Settings, Timing  # noqa: PLC0415 - other commands need none of it

    for host in plain_registries or ():
        if not _is_place(host):
            raise typer.BadParameter(f"{host!r} is not HOST or HOST:PORT", param_hint="--plain-registry")
    for host in token_hosts or ():
        if not _is_place(host) or _HOST.sub(r"\1", host) != host:
            raise typer.BadParameter(f"{host!r} is not the name of a host", param_hint="--token-host")
    if attestation and not _is_url(attestation):
        raise typer.BadParameter(f"{attestation!r} is not a URL such as http://HOST:8000", param_hint="--attestation")
    if not 1 <= probe_every <= _MAX_PERIOD:
        raise typer.BadParameter(
            f"{probe_every:g} is not a number of seconds from 1 to {_MAX_PERIOD}", param_hint="--probe-every"
        )
    may = allowed or Allowed()
    for option, words in may.given().items():
        if not all(words):
            raise typer.BadParameter("it is empty: it would allow everything", param_hint=option)
    return Settings(
        flasher_image=flasher_image,
        flasher_images=tuple(may.flasher_images or ()),
        pull_secrets=tuple(may.pull_secrets or ()),
        service_accounts=tuple(may.service_accounts or ()),
        check_secrets=check_secrets,
        tolerations=tuple(may.tolerations or ()),
        pod_labels=tuple(may.pod_labels) if may.pod_labels else None,
        pod_annotations=tuple(may.pod_annotations) if may.pod_annotations else None,
        local=local,
        nat=nat,
        plain_registries=tuple(plain_registries or ()),
        token_hosts=tuple(host.strip("[]") for host in token_hosts or ()),
        attestation=attestation,
        probe=probe,
        timing=Timing(probe_every=probe_every),
        webhook=webhook,
    )


def webhook(url: str, secret_file: Path | None, *, plain: bool) -> Webhook | None:
    """What was typed of a webhook, checked; None where nothing was."""
    from edgewright.controllers.notifications.signatures import BadSecrets, read_secrets  # noqa: PLC0415
    from edgewright.controllers.notifications.webhook import BadWebhook, Webhook, target_of  # noqa: PLC0415

    if not url:
        given = {"--webhook-secret-file": secret_file is not None, "--webhook-plain": plain}
        for option in (option for option, is_given in given.items() if is_given):
            raise typer.BadParameter("is for --webhook alone", param_hint=option)
        return None
    if secret_file is None:
        raise typer.BadParameter("needs --webhook-secret-file, which it is signed with", param_hint="--webhook")
    made = Webhook(url=url, secret_file=secret_file.absolute(), plain=plain)
    try:
        target_of(made)
    except BadWebhook as error:
        raise typer.BadParameter(str(error), param_hint="--webhook") from None
    try:
        read_secrets(secret_file)
    except (BadSecrets, OSError) as error:
        why = f"{secret_file}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise typer.BadParameter(why, param_hint="--webhook-secret-file") from None
    return made


def lease_of(wanted: Collection[Capability] | None) -> str:
    """The name of the leader's Lease where nobody names one, for the capabilities that were asked for; None: all."""
    from edgewright.api.capabilities import CHARTS  # noqa: PLC0415 - other commands need none of it

    return CHARTS_LEASE if wanted is not None and set(wanted) == {CHARTS} else LEASE


def prober(settings: Settings) -> Asks | None:
    """What asks Devices for the operator; None where they are not to be asked."""
    if not settings.probe:
        return None
    from edgewright.devices.prober import Prober  # noqa: PLC0415 - only who asks needs it

    return Prober(local=settings.local)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and _has_good_port(parts)


def _is_place(text: str) -> bool:
    """Whether it is HOST or HOST:PORT and nothing else."""
    try:
        parts = urlsplit(f"//{text}")
    except ValueError:
        return False
    return bool(parts.hostname) and parts.netloc == text and _HOST.fullmatch(text) is not None and _has_good_port(parts)


def _has_good_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0 and not parts.netloc.endswith(":")
    except ValueError:
        return False


def capabilities(text: str | None) -> tuple[Capability, ...] | None:
    """What was typed as --controllers; None where nothing was."""
    from edgewright.api.capabilities import named  # noqa: PLC0415

    if text is None:
        return None
    try:
        return named(name.strip() for name in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--controllers") from None


def flasher_command(scale: float | None = None) -> list[str]:
    """What the flasher's image stands for on a node of ours.

    Its time runs as fast as that of the process which runs the node, or as `scale` says: simulated devices that were
    started in the same environment live as fast too.
    """
    from edgewright.devices.timescale import TIME_SCALE, time_scale  # noqa: PLC0415 - other commands need none of it

    try:
        chosen = time_scale() if scale is None else scale
    except ValueError as error:
        raise Failed(str(error)) from None
    return [*_FLASHER] if chosen == 1 else ["env", f"{TIME_SCALE}={chosen:g}", *_FLASHER]


async def install_kinds(client: Client, capabilities: Collection[Capability] | None = None) -> None:
    """Makes the server serve the kinds of these capabilities; by default of all."""
    from edgewright.api import custom_resource_definitions  # noqa: PLC0415
    from edgewright.api.capabilities import CAPABILITIES, kinds_of  # noqa: PLC0415
    from edgewright.runtime.definitions import install  # noqa: PLC0415

    for document in custom_resource_definitions(kinds_of(capabilities or CAPABILITIES)):
        await install(client, document)
