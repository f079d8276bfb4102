"""What the operator and the flash Pod say to each other: the environment that goes in and the report that comes out.

The FlashJob controller writes the environment and reads the report; the flasher in `devices` does the reverse. The
names without a prefix are the original operator's and stay as they are; those with EDGEWRIGHT_ are ours. Pure.
"""

from __future__ import annotations

import math
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from edgewright.runtime.objects import Struct
from edgewright.runtime.text import cut

REPORT_LIMIT: Final = 4096
"""As many bytes as Kubernetes keeps of a termination message; a report is always shorter."""
LOG_LINES: Final = 20
"""How many of the last log lines a report carries at most."""
FLASHER_IMAGE: Final = "edgewright/flasher"
"""The image of our flasher, where a FlashJob names none."""
FLASHER_WORD: Final = "flasher"
"""What the image of the operator is told to be our flasher; an image that is nothing else does not mind it."""
OTA_PORT: Final = 4433
"""Where a device dials in for its firmware; the published firmware knows no other."""
FLASH_CONTAINER: Final = "flash-container"
INSPECT_CONTAINER: Final = "edgewright-inspect"
VERIFY_CONTAINER: Final = "edgewright-verify"
TLS_FOLDER: Final = "/etc/edgewright/tls"
"""Where the flasher finds tls.crt and tls.key."""
PULL_FOLDER: Final = "/etc/edgewright/pull"
"""Where the flasher finds .dockerconfigjson."""
SIGNATURE_FOLDER: Final = "/etc/edgewright/signature"
"""Where the flasher finds cosign.pub."""
SCRATCH_FOLDER: Final = "/scratch"
"""What our containers in a flash Pod may write to, and share. Not /tmp: on a node of ours our program may lie there."""
ATTESTATION_HOST: Final = "DICE_AUTH_SERVICE_SERVICE_HOST"
"""Where Kubernetes tells the address of the published attestation service; the published flashers know no other way."""
TERMINATION_LOG: Final = "/dev/termination-log"
"""Where the flasher writes its report."""
TLS_FOLDER_VARIABLE: Final = "EDGEWRIGHT_TLS_FOLDER"
PULL_FOLDER_VARIABLE: Final = "EDGEWRIGHT_PULL_FOLDER"
SIGNATURE_FOLDER_VARIABLE: Final = "EDGEWRIGHT_SIGNATURE_FOLDER"
NOTE_FOLDER_VARIABLE: Final = "EDGEWRIGHT_NOTE_FOLDER"
TERMINATION_LOG_VARIABLE: Final = "EDGEWRIGHT_TERMINATION_LOG"
PLACES: Final = {
    TLS_FOLDER: (TLS_FOLDER_VARIABLE,),
    PULL_FOLDER: (PULL_FOLDER_VARIABLE,),
    SIGNATURE_FOLDER: (SIGNATURE_FOLDER_VARIABLE,),
    SCRATCH_FOLDER: (NOTE_FOLDER_VARIABLE, "TMPDIR"),
    TERMINATION_LOG: (TERMINATION_LOG_VARIABLE,),
}
"""By which variables the flasher is told of another place, where a node can mount nothing at the usual ones."""


class Outcome(StrEnum):
    """How the flash of one device ended."""

    SUCCEEDED = "succeeded"
    """The device was written and runs what was asked for: read back from it after a reboot that was seen."""
    ALREADY_CURRENT = "already-current"
    """It ran the wanted version of the same firmware before; nothing was written."""
    UNREACHABLE = "unreachable"
    """It could not be asked, or never came to fetch its firmware."""
    REFUSED = "refused"
    """The attestation service, the device, the registry's signature check or a policy said no."""
    INCOMPATIBLE = "incompatible"
    """The firmware is for another device."""
    CORRUPT = "corrupt"
    """The firmware is damaged, or the device found it so."""
    TIMED_OUT = "timed-out"
    """It took longer than a device may take."""
    REVERTED = "reverted"
    """The device started the new firmware and went back to the old one."""
    CANCELLED = "cancelled"
    """Somebody called it off before anything was written."""
    FAILED = "failed"
    """Anything else; the message says what."""
    NOT_FOUND = "not-found"
    """No such device was discovered in time: told by the operator, never by a flasher."""

    @property
    def good(self) -> bool:
        """Whether the device runs what was asked for."""
        return self in {Outcome.SUCCEEDED, Outcome.ALREADY_CURRENT}

    @property
    def worth_another_try(self) -> bool:
        """Whether the same thing tried again may end otherwise."""
        return self in {Outcome.UNREACHABLE, Outcome.TIMED_OUT, Outcome.FAILED, Outcome.REVERTED, Outcome.CORRUPT}


EXIT_CODES: Final = {
    Outcome.SUCCEEDED: 0,
    Outcome.ALREADY_CURRENT: 0,
    Outcome.FAILED: 1,
    Outcome.UNREACHABLE: 10,
    Outcome.REFUSED: 11,
    Outcome.INCOMPATIBLE: 12,
    Outcome.CORRUPT: 13,
    Outcome.TIMED_OUT: 14,
    Outcome.REVERTED: 15,
    Outcome.CANCELLED: 16,
}
"""What the flasher ends with, by outcome."""
INSPECTED_EXIT_CODE: Final = 20
"""What the inspecting init container ends with where there is nothing to flash: it keeps the others from starting."""


class Role(StrEnum):
    """What one run of the flasher program does."""

    FLASH = "flash"
    """All of it."""
    INSPECT = "inspect"
    """Before a foreign flasher: ends the Pod where there is nothing to do, or where nothing may be done."""
    VERIFY = "verify"
    """Next to a foreign flasher: waits until the device runs what was asked for."""
    CHECK = "check"
    """After somebody else's flash: says whether the device runs the wanted version, and flashes it if not."""


class VersionPolicy(StrEnum):
    """What to do where the image carries another version than the FlashJob names."""

    IMAGE = "Image"
    """The version in the image is what is proven, and a condition names both."""
    STRICT = "Strict"
    """The device is not flashed: refused."""


class Protocol(StrEnum):
    """How a device is flashed; each is a driver in `devices.drivers`, and more may be added by entry points."""

    ESP32 = "esp32"
    """ESP32 secure OTA: the device dials back over TLS."""
    ESP32_PLAIN = "esp32-plain"
    """ESP32 plain OTA: raw bytes to a TCP port of the device, without any protection."""
    SMP_UDP = "smp-udp"
    """MCUboot devices by SMP over UDP."""
    SMP_TCP = "smp-tcp"
    """MCUboot devices by SMP over a serial line that is served on TCP."""


class Variable(StrEnum):
    """The environment of the flash Pod."""

    FIRMWARE = "FIRMWARE"
    UUID = "UUID"
    HOST_ENDPOINT = "HOST_ENDPOINT"
    DEVICE = "DEVICE"
    APPLICATION_TYPE = "APPLICATION_TYPE"
    VERSION = "VERSION"
    EXTERNAL_IP = "EXTERNAL_IP"

    ROLE = "EDGEWRIGHT_ROLE"
    PROTOCOL = "EDGEWRIGHT_PROTOCOL"
    POD_IP = "EDGEWRIGHT_POD_IP"
    """By the downward API: the address that the flasher listens on, and no other."""
    DIGEST = "EDGEWRIGHT_DIGEST"
    """The digest that the firmware's tag stood for when the job's first device ended; pulled instead of the tag."""
    RECORDED_DIGEST = "EDGEWRIGHT_RECORDED_DIGEST"
    """The digest of the firmware that the Device is known to run; empty: not known."""
    RECORDED_CERTIFICATE = "EDGEWRIGHT_RECORDED_CERTIFICATE"
    """The SHA-256 of the certificate that the Device is known by: RECORDED_DIGEST is about the board that shows it."""
    TIMEOUT = "EDGEWRIGHT_TIMEOUT"
    """Seconds that the whole run may take."""
    CHECK = "EDGEWRIGHT_CHECK"
    """`true`: the original operator had the device before, so one that runs the wanted version is done; for INSPECT."""
    FORCE = "EDGEWRIGHT_FORCE"
    """`true`: a device that is current is flashed all the same."""
    VERSION_POLICY = "EDGEWRIGHT_VERSION_POLICY"
    ALLOW_INSECURE = "EDGEWRIGHT_ALLOW_INSECURE"
    """`true`: a protocol without protection may be used."""
    PLAIN_REGISTRIES = "EDGEWRIGHT_PLAIN_REGISTRIES"
    """The registry hosts, comma-separated, that are spoken to over plain HTTP, and then without credentials."""
    TOKEN_HOSTS = "EDGEWRIGHT_TOKEN_HOSTS"  # noqa: S105 - hosts, and no token
    """The hosts, comma-separated, that may see credentials for registries of other domains to give tokens for them."""
    ATTESTATION = "EDGEWRIGHT_ATTESTATION"
    """The URL of the attestation service; where it is empty, DICE_AUTH_SERVICE_SERVICE_HOST names its host."""
    LOCAL = "EDGEWRIGHT_LOCAL"
    """`true`: devices may be on this machine, so that the name of one may stand for a loopback address."""
    VERIFY_SIGNATURE = "EDGEWRIGHT_VERIFY_SIGNATURE"
    """`true`: the key in SIGNATURE_FOLDER must have signed the image."""


class Phase(StrEnum):
    """What a flasher does, one after the other; a report tells how long each took."""

    INSPECT = "inspect"
    """The device is asked what it is."""
    FETCH = "fetch"
    """The firmware is pulled and looked at."""
    SEND = "send"
    """The device gets it."""
    VERIFY = "verify"
    """The device restarts, and is asked until its answers prove something."""


class Attestation(StrEnum):
    """What the attestation service said of the device."""

    NONE = ""
    """It was not asked."""
    RECOGNISED = "recognised"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    """It gave no verdict."""


class Report(Struct, frozen=True, kw_only=True):
    """The termination message of a flasher: what it did and what it saw."""

    outcome: Outcome = Outcome.FAILED
    message: str = ""
    """One sentence for people."""
    digest: str = ""
    """The digest of the firmware image that was pulled: of what the reference stands for, an index or a manifest."""
    image_version: str = ""
    """The version that the image itself carries, by its app descriptor or label; empty where it carries none."""
    version_before: str = ""
    version_after: str = ""
    device: str = ""
    """What the device says it is."""
    application: str = ""
    """What it says it runs, after the flash where there was one."""
    certificate: str = ""
    """The SHA-256 of the device's certificate, where it has one."""
    rebooted: bool = False
    """Whether a reboot was seen after the writing."""
    observed: datetime | None = None
    """When the device last said what stands here, by the clock of the flasher."""
    written: bool = False
    """Whether anything was sent to the device that may have changed it."""
    attestation: Attestation = Attestation.NONE
    sent: int = 0
    """Bytes of firmware that were sent to the device."""
    seconds: float = 0.0
    phases: dict[str, float] = {}
    """How many seconds each phase took, by its name, as far as the run came."""
    log: tuple[str, ...] = ()
    """The last lines of the log, where it did not go well."""

    @property
    def attested(self) -> bool:
        """Whether the attestation service recognised the device."""
        return self.attestation is Attestation.RECOGNISED


_MESSAGE_LIMIT: Final = 1024
_FIELD_LIMIT: Final = 256
_TEXTS: Final = ("digest", "image_version", "version_before", "version_after", "device", "application", "certificate")


def encode_report(report: Report) -> bytes:
    """The report as JSON of less than 4,096 bytes, whatever a device made it hold: old log lines go first."""
    texts = {name: cut(_encodable(getattr(report, name)), _FIELD_LIMIT) for name in _TEXTS}
    told = report.phases
    report = msgspec.structs.replace(
        report,
        message=cut(_encodable(report.message), _MESSAGE_LIMIT),
        log=tuple(map(_encodable, report.log[-LOG_LINES:])),
        seconds=report.seconds if math.isfinite(report.seconds) else 0.0,
        phases={phase.value: told[phase] for phase in Phase if math.isfinite(told.get(phase, math.nan))},
        **texts,
    )
    while len(body := msgspec.json.encode(report)) >= REPORT_LIMIT:
        if report.log:
            report = msgspec.structs.replace(report, log=report.log[1:])
        else:  # long only by escapes: what is left is cut until it fits
            halves = {name: getattr(report, name)[: len(getattr(report, name)) // 2] for name in (*_TEXTS, "message")}
            report = msgspec.structs.replace(report, **halves)
    return body


def decode_report(text: str) -> Report | None:
    """The report in a termination message; None where it is none of ours."""
    try:
        return msgspec.json.decode(text, type=Report)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _encodable(text: str) -> str:
    """The text without lone surrogates, which Python makes of undecodable bytes and no UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode()
