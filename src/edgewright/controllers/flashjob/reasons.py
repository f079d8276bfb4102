"""The reasons that FlashJob's conditions and events carry, each with its severity.

Both loops, `status`, `validation` and `events` take them from here; the names that the original operator published
stay as they are. Nothing here decides which reason applies.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.runtime.events import EventType
from edgewright.runtime.objects import Kind

_NORMAL: Final[EventType] = "Normal"
_WARNING: Final[EventType] = "Warning"


class Reason(StrEnum):
    """Why a FlashJob stands as it does, in a word for programs."""

    severity: EventType
    """The type of an event with this reason."""

    def __new__(cls, word: str, severity: EventType) -> Reason:
        """A reason with its severity."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.severity = severity
        return member

    # How the job goes.
    ACCEPTED = "Accepted", _NORMAL
    FLASHING = "Flashing", _NORMAL
    PAUSED = "Paused", _NORMAL
    COMPLETED = "Completed", _NORMAL
    DEVICES_FAILED = "DevicesFailed", _WARNING
    TAG_MOVED = "TagMoved", _WARNING
    """The firmware tag stood for different images while the job ran; a condition of its own."""
    VERSION_DIFFERS = "VersionDiffers", _WARNING
    """The firmware carries another version than the spec names; a condition of its own."""
    APPLICATION_DIFFERS = "ApplicationDiffers", _WARNING
    """Devices report another application than the spec names; a condition of its own."""
    ATTESTATION_UNPROTECTED = "AttestationUnprotected", _WARNING
    """The attestation service is asked over plain HTTP; a condition of its own."""

    # What keeps it from going on.
    FROZEN = "Frozen", _NORMAL
    """The fleet is frozen."""
    WINDOW_CLOSED = "WindowClosed", _NORMAL
    """No window of its rollout is open."""
    ROLLOUT_ABORTED = "RolloutAborted", _NORMAL
    """Its rollout is aborted, or gone."""
    ORIGINAL_OPERATOR_RUNS = "OriginalOperatorRuns", _WARNING
    SECRET_MISSING = "SecretMissing", _WARNING
    SECRET_UNREADABLE = "SecretUnreadable", _WARNING
    NO_ADDRESS = "NoAddress", _WARNING
    """None of its Services gets an address."""
    NOT_MADE = "NotMade", _WARNING
    """The server lets none of its Services or Pods be created for now."""

    # What is wrong with its spec.
    INVALID_FIRMWARE = "InvalidFirmware", _WARNING
    FIRMWARE_NOT_PINNED = "FirmwareNotPinned", _WARNING
    INVALID_VERSION = "InvalidVersion", _WARNING
    NO_DEVICES = "NoDevices", _WARNING
    INVALID_NAME = "InvalidName", _WARNING
    TOO_MANY_DEVICES = "TooManyDevices", _WARNING
    DUPLICATE_DEVICES = "DuplicateDevices", _WARNING
    INVALID_ENDPOINT = "InvalidEndpoint", _WARNING
    INVALID_ADDRESS = "InvalidAddress", _WARNING
    INVALID_VALUE = "InvalidValue", _WARNING
    NOT_ALLOWED = "NotAllowed", _WARNING
    """Whoever runs the operator does not allow it."""
    SECURITY_CONTEXT_LOOSENED = "SecurityContextLoosened", _WARNING

    # What did not work, as the original operator published it: of events only.
    FINALIZER_ERROR = "FinalizerError", _WARNING
    FINALIZER_REMOVAL_FAILED = "FinalizerRemovalFailed", _WARNING
    STATUS_UPDATE_FAILED = "StatusUpdateFailed", _WARNING
    DELETION_FAILED = "DeletionFailed", _WARNING
    SERVICE_IP_TIMEOUT = "ServiceIPTimeout", _WARNING
    POD_FAILED = "PodFailed", _WARNING
    NO_INSTANCE = "AkriInstanceError", _WARNING
    """The original's word for a device that it cannot find."""
    POD_CREATION_FAILED = "PodCreationFailed", _WARNING
    SERVICE_CREATION_FAILED = "ServiceCreationFailed", _WARNING
    FETCH_FAILED = "FetchFailed", _WARNING
    POD_FETCH_FAILED = "PodFetchFailed", _WARNING
    SERVICE_FETCH_FAILED = "ServiceFetchFailed", _WARNING
    POD_DELETION_FAILED = "PodDeletionFailed", _WARNING
    SERVICE_DELETION_FAILED = "ServiceDeletionFailed", _WARNING
    POD_CLEANUP_FAILED = "PodCleanupFailed", _WARNING
    SERVICE_CLEANUP_FAILED = "ServiceCleanupFailed", _WARNING


WARNINGS: Final = frozenset(str(reason) for reason in Reason if reason.severity == _WARNING)
"""The reasons whose events are warnings, whichever condition they stand in."""


def creation_failed(kind: Kind) -> Reason:
    """The reason of the event that a Pod or Service could not be created."""
    return Reason.POD_CREATION_FAILED if kind == Pod.kind else Reason.SERVICE_CREATION_FAILED


def fetch_failed(kind: Kind) -> Reason:
    """The reason of the event that an object could not be read; the original told FlashJobs by no name."""
    known = {Pod.kind: Reason.POD_FETCH_FAILED, Service.kind: Reason.SERVICE_FETCH_FAILED}
    return known.get(kind, Reason.FETCH_FAILED)


def removal_failed(kind: Kind, *, job_goes: bool) -> Reason:
    """The reason of the event that a Pod or Service could not be deleted: with its job, or because it is done."""
    if kind == Pod.kind:
        return Reason.POD_DELETION_FAILED if job_goes else Reason.POD_CLEANUP_FAILED
    return Reason.SERVICE_DELETION_FAILED if job_goes else Reason.SERVICE_CLEANUP_FAILED
