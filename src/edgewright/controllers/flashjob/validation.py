"""Whether a FlashJob's spec can be acted on, and what to change where it cannot.

The loop over FlashJobs asks it before anything is claimed. The schema refuses most of this already; an object that an
older schema let through is told here. Pure: what only a request can tell (a Secret that is missing) is not its matter.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from edgewright.api.endpoint import endpoint_problem, unfit
from edgewright.api.flash_pod import VersionPolicy
from edgewright.api.flashjob import (
    MAX_DEVICE_NAME,
    MAX_DEVICES,
    MAX_TTL,
    MAX_VERSION,
    Exposure,
    FlashJob,
    FlashJobSpec,
    PodTemplate,
)
from edgewright.api.reference import BadReference, parse_reference
from edgewright.controllers.flashjob.manifests import loosened, own_flasher
from edgewright.controllers.flashjob.pod_policy import policy_problems
from edgewright.controllers.flashjob.reasons import Reason
from edgewright.controllers.settings import Settings
from edgewright.runtime.text import cut

MAX_UUIDS: Final = 400_000
"""How many characters all entries of spec.uuid may have together: they stand in the object two or three times."""
_SHOWN: Final = 5
_LETTERS_SHOWN: Final = 40
_MAX_PROBLEM: Final = 1024
_MAX_TEXT: Final = 32_768
"""As much as the message of a condition takes."""
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
"""Annotations that do what a security context does, as the server still takes them."""
_NUMBERS: Final = (
    ("max_concurrent", 1, MAX_DEVICES),
    ("timeout_seconds", 1, 86_400),
    ("retries", 0, 20),
    ("discovery_timeout_seconds", 0, 604_800),
    ("ttl_seconds_after_finished", 0, MAX_TTL),
)


@dataclass(frozen=True)
class Problem:
    """Why a spec is not acted on: the field, a word for programs, and a sentence that says what to do."""

    field: str
    reason: Reason
    message: str

    def __str__(self) -> str:
        """As it stands in a condition."""
        return f"{self.field}: {self.message}"


def problems(job: FlashJob, settings: Settings) -> list[Problem]:
    """What is wrong with the spec; empty where it can be acted on."""
    spec = job.spec
    return [
        *_firmware_problems(spec, settings),
        *_uuid_problems(spec),
        *_endpoint_problems(spec, settings),
        *_choice_problems(spec),
        *_number_problems(spec),
        *_template_problems(spec),
        *(Problem(field, Reason.NOT_ALLOWED, message) for field, message in policy_problems(spec, settings)),
    ]


def in_a_sentence(found: Iterable[Problem]) -> str:
    """All that is wrong, as it stands in the message of a condition, however long what people wrote is."""
    return cut("; ".join(cut(str(problem), _MAX_PROBLEM) for problem in found), _MAX_TEXT)


def _firmware_problems(spec: FlashJobSpec, settings: Settings) -> list[Problem]:
    found = []
    try:
        pinned = bool(parse_reference(spec.firmware).digest)
    except BadReference as error:
        found.append(Problem("spec.firmware", Reason.INVALID_FIRMWARE, str(error)))
    else:
        if spec.signature_public_key_secret and not pinned and not own_flasher(spec, settings):
            message = (
                "with spec.signaturePublicKeySecret the firmware must be named by its digest (…@sha256:…) here, for"
                " spec.flashjobPodImage is a flasher of others, which pulls it itself after the signature was checked:"
                " a tag may stand for something else by then. Pin it, or leave spec.flashjobPodImage out"
            )
            found.append(Problem("spec.firmware", Reason.FIRMWARE_NOT_PINNED, message))
    if not spec.version.strip():
        found.append(Problem("spec.version", Reason.INVALID_VERSION, "it is empty: name what the devices must report"))
    elif len(spec.version) > MAX_VERSION:
        message = f"it has {len(spec.version)} characters and may have {MAX_VERSION}: no device reports such a one"
        found.append(Problem("spec.version", Reason.INVALID_VERSION, message))
    return found


def _uuid_problems(spec: FlashJobSpec) -> list[Problem]:
    uuids = spec.uuids
    field = "spec.uuid"
    if not uuids:
        return [Problem(field, Reason.NO_DEVICES, "it is empty: name the devices to flash")]
    found = []
    blank = next((place for place, uuid in enumerate(uuids) if not uuid.strip()), None)
    if blank is not None:
        found.append(Problem(f"{field}[{blank}]", Reason.NO_DEVICES, "it is empty: take it out or name a device"))
    long = next((place for place, uuid in enumerate(uuids) if len(uuid) > MAX_DEVICE_NAME), None)
    if long is not None:
        message = (
            f"{cut(uuids[long], _LETTERS_SHOWN)} has {len(uuids[long])} characters and may have"
            f" {MAX_DEVICE_NAME}: name the device by its Instance's uid or its Device's name"
        )
        found.append(Problem(f"{field}[{long}]", Reason.INVALID_NAME, message))
    if len(uuids) > MAX_DEVICES:
        message = f"it names {len(uuids)} devices and may name {MAX_DEVICES}: make several jobs"
        found.append(Problem(field, Reason.TOO_MANY_DEVICES, message))
    elif sum(map(len, uuids)) > MAX_UUIDS:
        message = f"its entries have more than {MAX_UUIDS} characters together: make several jobs or use uids"
        found.append(Problem(field, Reason.TOO_MANY_DEVICES, message))
    if len(set(uuids)) < len(uuids):
        twice = [uuid for uuid, times in Counter(uuids).items() if times > 1]
        more = f" and {len(twice) - _SHOWN} more" if len(twice) > _SHOWN else ""
        message = f"{', '.join(twice[:_SHOWN])}{more} stands in it more than once: name each device once"
        found.append(Problem(field, Reason.DUPLICATE_DEVICES, message))
    return found


def _endpoint_problems(spec: FlashJobSpec, settings: Settings) -> list[Problem]:
    found = []
    if spec.host_endpoint:
        field = "spec.hostEndpoint"
        if len(spec.uuids) > 1:
            message = f"it is the address of one device, and spec.uuid names {len(spec.uuids)}: leave one of them out"
            found.append(Problem(field, Reason.INVALID_ENDPOINT, message))
        problem = endpoint_problem(spec.host_endpoint, local=settings.local)
        if problem:
            found.append(Problem(field, Reason.INVALID_ENDPOINT, problem))
    if spec.external_ip:
        problem = _address_problem(spec.external_ip, local=settings.local)
        if problem:
            found.append(Problem("spec.externalIP", Reason.INVALID_ADDRESS, problem))
    return found


def _address_problem(text: str, *, local: bool) -> str | None:
    advice = "give the one at which devices must find the flash Pod"
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        address = None
    if address is None or "%" in text:
        shown = cut(repr(text), _LETTERS_SHOWN)
        return f"{shown} is no IP address: {advice}, such as 192.0.2.1, with nothing around it"
    why = unfit(address, local=local)
    return f"{text} {why}: {advice}" if why else None


def _choice_problems(spec: FlashJobSpec) -> list[Problem]:
    choices = (
        ("spec.versionPolicy", spec.version_policy, [each.value for each in VersionPolicy]),
        ("spec.exposure", spec.exposure, [each.value for each in Exposure]),
    )
    return [
        Problem(field, Reason.INVALID_VALUE, f"it is {value!r} and must be {' or '.join(allowed)}")
        for field, value, allowed in choices
        if value is not None and value not in allowed
    ]


def _number_problems(spec: FlashJobSpec) -> list[Problem]:
    found = []
    for name, least, most in _NUMBERS:
        value = getattr(spec, name)
        if value is not None and not least <= value <= most:
            message = f"it is {value} and must be from {least} to {most}"
            found.append(Problem(f"spec.{_published(name)}", Reason.INVALID_VALUE, message))
    return found


def _template_problems(spec: FlashJobSpec) -> list[Problem]:
    template = spec.pod_template or PodTemplate()
    field = loosened(template.security_context)
    fields = [f"securityContext.{field}"] if field is not None else []
    fields += [
        f"annotations[{name}]"
        for name, value in template.annotations.items()
        if name.startswith(_APPARMOR) and value != "runtime/default"
    ]
    message = "it would give flash Pods more than the operator does: they may only be given less"
    return [Problem(f"spec.podTemplate.{field}", Reason.SECURITY_CONTEXT_LOOSENED, message) for field in fields]


def _published(name: str) -> str:
    """A field's name as people write it."""
    return next(field.encode_name for field in msgspec.structs.fields(FlashJobSpec) if field.name == name)
