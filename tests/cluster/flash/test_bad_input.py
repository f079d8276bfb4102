"""Bad input on the whole product: each mistake is told by its field with what to do, flashes nothing, leaves nothing.

And once it is fixed, the job goes on. What the schema refuses is asked of both servers as people ask: with kubectl.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from edgewright.api import FlashJob
from edgewright.api.flashjob import MAX_DEVICES, FlashedDevice
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.journal import Did
from edgewright.runtime.conditions import find
from edgewright.runtime.objects import RawObject
from tests.cluster.flash.stage import APPLICATION, QUICK, Stage
from tests.harness import ApiServer
from tests.harness.apiserver import KubectlError, RequestError
from tests.unit.devices.oci.keys import ecdsa_key

GOOD: Final[RawObject] = {"uuid": ["one"], "firmware": "registry.example/fleet/firmware:1.0", "version": "1.0"}
REFUSED: Final[dict[str, tuple[RawObject, str, str]]] = {
    "a number for a version": ({"version": 1.0}, "spec.version", "string"),
    "no version": ({"version": None}, "spec.version", ""),
    "no firmware": ({"firmware": ""}, "spec.firmware", "at least 1 chars"),
    "no device": ({"uuid": []}, "spec.uuid", "at least 1 items"),
    "a device without a name": ({"uuid": ["one", ""]}, "spec.uuid[1]", "at least 1 chars"),
    "a number for a device": ({"uuid": [17]}, "spec.uuid[0]", "string"),
    "too many devices": ({"uuid": [f"u{n}" for n in range(MAX_DEVICES + 1)]}, "spec.uuid", "at most 5000 items"),
    "none at once": ({"maxConcurrent": 0}, "spec.maxConcurrent", "greater than or equal to 1"),
    "an unknown exposure": ({"exposure": "Ingress"}, "spec.exposure", '"LoadBalancer", "None"'),
}
"""What the schema refuses: the mistake, the field that is named, and what is said of it."""


UNQUOTED: Final = """
apiVersion: application.flashjob.nbfc.io/v1alpha1
kind: FlashJob
metadata:
  name: unquoted
spec:
  uuid: [one]
  firmware: registry.example/fleet/firmware:1.0
  version: 1.0
"""


async def test_what_the_schema_refuses_is_named_by_its_field_and_never_stored(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, operator=False) as stage:
        path = FlashJob.kind.path(stage.namespace)
        for mistake, where, what in REFUSED.values():
            body = {"apiVersion": FlashJob.kind.api_version, "kind": "FlashJob", "metadata": {"name": "refused"}}
            with pytest.raises(RequestError) as refusal:
                await asyncio.to_thread(flash_server.request, "POST", path, {**body, "spec": {**GOOD, **mistake}})
            message = json.loads(refusal.value.answer)["message"]
            assert refusal.value.code == 422
            assert where in message
            assert what in message
        with pytest.raises(KubectlError, match=r"spec\.version"):
            await asyncio.to_thread(flash_server.kubectl, "apply", "-n", stage.namespace, "-f", "-", input=UNQUOTED)
        assert await stage.jobs_are_gone()


# --- what only the operator can tell --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mistake:
    """A job that cannot be acted on, what is said of it, and how it is fixed: by its spec, or by a Secret."""

    spec: RawObject
    field: str
    reason: str
    todo: str
    corrected: RawObject | None = None
    secret: tuple[str, dict[str, str], str] | None = None


def mistakes(stage: Stage, uids: dict[int, str]) -> dict[str, Mistake]:
    """A job for each device, each wrong in another way."""
    firmware = stage.firmware("0.2.0")
    key = ecdsa_key()
    digest = stage.registry.add_image("fleet/signed", "0.2.0", esp_image(version="0.2.0", project=APPLICATION))
    stage.registry.sign("fleet/signed", digest, key.sign)
    signed = f"{stage.registry.host}/fleet/signed:0.2.0"
    tls = {"tls.crt": stage.pair.certificate, "tls.key": stage.pair.key}
    login = {".dockerconfigjson": json.dumps({"auths": {"registry.example": {"auth": "dTpw"}}})}
    opaque, docker = "Opaque", "kubernetes.io/dockerconfigjson"

    def missing(spec_field: str, name: str, data: dict[str, str], kind: str = opaque, **spec: Any) -> Mistake:
        where = f"there is no Secret {name} in namespace {stage.namespace}: make it"
        return Mistake(
            {spec_field: name, **spec}, f"spec.{spec_field}", "SecretMissing", where, secret=(name, data, kind)
        )

    return {
        "reference": Mistake(
            {"firmware": "fsdsdsd"}, "spec.firmware", "InvalidFirmware", "right is, for example", {"firmware": firmware}
        ),
        "twice": Mistake(
            {"uuid": [uids[2], uids[2]]}, "spec.uuid", "DuplicateDevices", "name each device once", {"uuid": [uids[2]]}
        ),
        "blank": Mistake(
            {"uuid": [uids[3], " "]}, "spec.uuid[1]", "NoDevices", "take it out or name a device", {"uuid": [uids[3]]}
        ),
        "endpoint": Mistake(
            {"hostEndpoint": "300.1.2.3"},
            "spec.hostEndpoint",
            "InvalidEndpoint",
            "looks like an IP address and is none",
            {"hostEndpoint": None},
        ),
        "address": Mistake(
            {"externalIP": "gateway.example"},
            "spec.externalIP",
            "InvalidAddress",
            "give the one at which devices must find",
            {"externalIP": None},
        ),
        "tls": missing("tlsSecretName", "own-tls", tls),
        "pull": missing("firmwarePullSecret", "registry-login", login, docker),
        "signature": missing(
            "signaturePublicKeySecret", "signers", {"cosign.pub": key.public.decode()}, firmware=signed
        ),
    }


async def test_a_job_that_cannot_be_acted_on_says_what_to_do_and_goes_on_once_it_is_fixed(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=8) as stage:
        uids = await stage.uids()
        wrong = mistakes(stage, uids)
        for number, (name, mistake) in enumerate(wrong.items(), start=1):
            spec = {"firmware": stage.firmware("0.2.0"), **mistake.spec}
            await stage.job(name, uuids=spec.pop("uuid", [uids[number]]), **spec)
        for name, mistake in wrong.items():
            await refused(stage, name, mistake)
        assert (await stage.pods(), await stage.services()) == ([], [])
        assert [each.status.claim for each in await stage.devices()] == [None] * 8
        assert [len(each.journal) for each in stage.fleet] == [0] * 8

        for name, mistake in wrong.items():
            if mistake.secret is not None:
                await stage.make_secret(*mistake.secret)
            else:
                await stage.change(name, **(mistake.corrected or {}))
        for name in wrong:
            job = await stage.until_phase("Completed", name)
            accepted = find(job.status.conditions, "Accepted")
            assert accepted is not None
            assert accepted.status == "True"
        assert [each.running.version for each in stage.fleet] == ["0.2.0"] * 8
        assert [each.journal.count(Did.ASKED) for each in stage.fleet] == [1] * 8
        await stage.until_clean()


async def refused(stage: Stage, name: str, mistake: Mistake) -> None:
    """Waits until the job says what is wrong, and sees that it has begun nothing."""

    async def told() -> FlashJob | None:
        job = await stage.get(name)
        accepted = find(job.status.conditions, "Accepted")
        return job if accepted is not None and accepted.status == "False" else None

    job = await stage.until(told, f"{name} is not accepted")
    accepted = find(job.status.conditions, "Accepted")
    assert accepted is not None
    assert (accepted.reason, accepted.message.partition(":")[0]) == (mistake.reason, mistake.field)
    assert mistake.todo in accepted.message
    assert mistake.todo in job.status.message
    assert job.metadata.finalizers == ()


async def test_no_device_on_the_machine_itself_is_flashed_in_a_cluster(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=1, local=False) as stage:
        endpoints = {"loopback": stage.fleet[1].endpoint, "link-local": "169.254.169.254"}
        for name, endpoint in endpoints.items():
            await stage.job(name, uuids=[f"{name}-{stage.configuration}"], hostEndpoint=endpoint)
            what = f"a {name} address"
            await refused(stage, name, Mistake({}, "spec.hostEndpoint", "InvalidEndpoint", what))
        # What discovery says is not believed either.
        await stage.job("discovered")
        job = await stage.until_phase("Failed", "discovered")
        (shown,) = job.status.devices
        assert shown.outcome == "refused"
        assert f"spec.endpoint of Device {shown.device}: " in shown.message
        assert "give the address of the device" in shown.message
        assert len(stage.fleet[1].journal) == 0
        assert len(await stage.devices()) == 1
        await stage.until_clean()


async def test_a_device_of_another_type_than_the_job_names_is_not_written_until_the_field_is_right(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=1) as stage:
        await stage.job("toaster", device="toaster", retries=0)
        job = await stage.until_phase("Failed", "toaster")
        (shown,) = job.status.devices
        assert shown.outcome == "incompatible"
        assert "spec.device: the job is for toaster, and the device says it is " in shown.message
        assert stage.fleet[1].journal.count(Did.ASKED) == 0
        await stage.change("toaster", device=None)
        await stage.until_phase("Completed", "toaster")
        assert stage.fleet[1].running.version == "0.2.0"
        await stage.until_clean()


# --- images that are not there --------------------------------------------------------------------------------------


async def test_images_that_nobody_has_are_told_by_name_and_the_next_attempt_takes_what_is_fixed(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    timing = replace(QUICK, start_grace=5.0, foreign_grace=1.0)
    async with Stage(flash_server, flash_namespace, devices=3, timing=timing) as stage:
        uids = await stage.uids()
        nobody = "registry.example/nobody/flasher:1.0"
        # On a busy machine a node takes its time to say that it has no such image: the deadline must come after that.
        await stage.job("flasher", uuids=[uids[1]], flashjobPodImage=nobody, timeoutSeconds=15, retries=1)
        await stage.job("given-up", uuids=[uids[2]], flashjobPodImage=nobody, timeoutSeconds=15, retries=0)
        untagged = f"{stage.registry.host}/fleet/firmware:nobody"
        await stage.job("firmware", uuids=[uids[3]], firmware=untagged, retries=0)

        await waiting_for(stage, "flasher", nobody)
        await stage.change("flasher", flashjobPodImage=None, timeoutSeconds=60)
        job = await stage.until_phase("Failed", "firmware")
        assert f"{stage.registry.host} has no nobody of fleet/firmware" in job.status.devices[0].message
        await stage.change("firmware", firmware=stage.firmware("0.2.0"))
        await stage.until_phase("Completed", "firmware")

        job = await stage.until_phase("Failed", "given-up")
        assert nobody in job.status.devices[0].message
        assert stage.fleet[2].journal.count(Did.ASKED) == 0
        # Final is final, until somebody asks for it again.
        await stage.change("given-up", flashjobPodImage=None, force=True, timeoutSeconds=60)
        await stage.until_phase("Completed", "given-up")
        job = await stage.until_phase("Completed", "flasher")
        assert job.status.devices[0].attempts == 2
        assert [each.running.version for each in stage.fleet] == ["0.2.0"] * 3
        assert [each.journal.count(Did.ASKED) for each in stage.fleet] == [1] * 3
        await stage.until_clean()


async def waiting_for(stage: Stage, name: str, image: str) -> FlashedDevice:
    """The device as the job shows it, once it says that it waits for this image."""

    async def said() -> FlashedDevice | None:
        return next((each for each in (await stage.get(name)).status.devices if image in each.message), None)

    return await stage.until(said, f"{name} says that it waits for {image}")
