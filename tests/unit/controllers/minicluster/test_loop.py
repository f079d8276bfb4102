"""The loops at work on an API server in this process: a whole life, deaths, names that are taken, and what is told."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.flux import Flux
from edgewright.api.fluxsetup import FluxSetup
from edgewright.api.job import Job
from edgewright.api.service import Service
from edgewright.api.statefulset import StatefulSet
from edgewright.controllers.minicluster.certificate_secret import SECRET
from edgewright.controllers.minicluster.curve import generated, is_certificate
from edgewright.controllers.minicluster.loop import setup_outcome
from edgewright.controllers.minicluster.objects import ConfigMap
from edgewright.runtime.conditions import find
from edgewright.runtime.events import Event
from edgewright.runtime.objects import Key, Kind, ObjectMeta
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.minicluster.plane import Site, operating, site
from tests.unit.controllers.minicluster.samples import flux, setup

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ALL = (ConfigMap.kind, Service.kind, SECRET, StatefulSet.kind, Job.kind)

NAMESPACE = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)


def ready(found: Flux) -> tuple[str, str, str]:
    condition = find(found.status.conditions, "Ready")
    return ("", "", "") if condition is None else (condition.status, condition.reason, condition.message)


async def there(at: Site) -> dict[str, list[str]]:
    """The names of what belongs to mini-clusters."""
    found = {}
    for kind in ALL:
        page = await at.client.raw(kind).list("default", labels="flux-framework.org/cluster")
        found[kind.kind] = sorted(each["metadata"]["name"] for each in page.items)
    return found


END = {
    "ConfigMap": ["one-flux-config"],
    "Service": ["one-workers"],
    "Secret": ["one-curve-certificate"],
    "StatefulSet": ["one"],
    "Job": ["one-launcher"],
}


async def test_a_command_runs_to_its_end_and_its_workers_go(tmp_path: Path) -> None:
    async with site(tmp_path, code=3) as at, operating(at.config) as mortal:
        await at.add()
        done = await at.until(lambda each: each.status.phase == "Failed", what="it has ended")
        assert (done.status.exit_code, ready(done)[1]) == (3, "CommandFailed")
        assert await there(at) == END
        await at.until(lambda each: each.status.workers == "0/1", what="the workers are gone")
        job = await at.client.of(Job).get(Key("default", "one-launcher"))
        assert job.metadata.annotations["flux-framework.org/exit-code"] == "3"
        secret = await at.client.raw(SECRET).get(Key("default", "one-curve-certificate"))
        assert is_certificate(base64.b64decode(secret["data"]["curve.cert"]).decode())
        # Whoever looks again writes nothing.
        writes = len(mortal.writes)
        for number in range(2):
            current = await at.flux()
            change = {"metadata": {"annotations": {"look": str(number)}}}
            await at.client.of(Flux).patch(current.key, change, uid=current.metadata.uid)
        await at.add("marker", command="'")
        await at.until(lambda each: each.status.phase == "Failed", "marker", what="the marker is refused")
        assert [path for _, path in mortal.writes[writes:] if "marker" not in path] == []


async def test_events_tell_each_change_of_the_summary_once(tmp_path: Path) -> None:
    async with site(tmp_path) as at, operating(at.config):
        await at.add()
        await at.until(lambda each: each.status.phase == "Succeeded", what="it has ended")

        async def told() -> list[tuple[str, int]] | None:
            found = [(each.reason, each.count) for each in (await at.client.of(Event).list("default")).items]
            return sorted(found) if ("Succeeded", 1) in found else None

        events = await wait_until_async(told, what="the end is told")
        assert {count for _, count in events} == {1}
        assert {reason for reason, _ in events} <= {"WorkersStarting", "Launching", "Running", "Succeeded"}


@pytest.mark.parametrize("number", range(1, 11))
async def test_a_death_after_any_write_changes_nothing(tmp_path: Path, number: int) -> None:
    async with site(tmp_path) as at:
        await at.add()
        async with operating(at.config, at=number) as mortal:
            await at.until(lambda each: mortal.died.is_set() or is_over(each), what="it has died, or come to its end")
        async with operating(at.config):
            done = await at.until(is_over, what="it has come to its end")
        assert done.status.exit_code == 0
        assert await there(at) == END
        assert len(set(at.controllers.ran)) == 1


def is_over(found: Flux) -> bool:
    return (found.status.phase, found.status.workers) == ("Succeeded", "0/1")


async def test_a_changed_spec_is_run_again_and_a_port_gets_its_service(tmp_path: Path) -> None:
    async with site(tmp_path, code=None) as at, operating(at.config):
        first = await at.add()
        await at.until(lambda each: ready(each)[1] == "Running", what="it runs")
        job = await at.client.of(Job).get(Key("default", "one-launcher"))
        await at.client.of(Flux).patch(first.key, {"spec": {"port": 8080}}, uid=first.metadata.uid)

        async def again() -> bool:
            found = await at.client.of(Job).list("default")
            return bool(found.items) and found.items[0].metadata.uid != job.metadata.uid

        await wait_until_async(again, what="there is another launcher")
        service = await at.client.raw(Service.kind).get(Key("default", "one"))
        assert service["spec"]["type"] == "NodePort"
        await at.client.of(Flux).patch(first.key, {"spec": {"port": None}}, uid=first.metadata.uid)

        async def gone() -> bool:
            return (await there(at))["Service"] == ["one-workers"]

        await wait_until_async(gone, what="the Service is gone")


async def test_a_set_up_is_followed_and_says_that_it_is_in_use(tmp_path: Path) -> None:
    async with site(tmp_path, code=None) as at, operating(at.config):
        body = {"metadata": {"name": "one"}, "spec": {"size": 3}}
        await at.put(FluxSetup.kind, body)

        async def said(reason: str) -> bool:
            found = await at.client.of(FluxSetup).get(Key("default", "one"))
            condition = find(found.status.conditions, "Ready")
            return condition is not None and condition.reason == reason

        async def says_missing() -> bool:
            return await said("FluxMissing")

        async def says_in_use() -> bool:
            return await said("InUse")

        await wait_until_async(says_missing, what="it misses its Flux")
        await at.add()
        await wait_until_async(says_in_use, what="it is in use")
        await at.until(lambda each: each.status.workers == "3/3", what="there are three workers")
        current = await at.client.of(FluxSetup).get(Key("default", "one"))
        await at.client.of(FluxSetup).delete(current.key, uid=current.metadata.uid)
        await at.until(lambda each: each.status.workers == "1/1", what="without it there is one")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (ConfigMap.kind, {"metadata": {"name": "one-flux-config"}}),
        (SECRET, {"metadata": {"name": "one-curve-certificate"}}),
        (StatefulSet.kind, {"metadata": {"name": "one"}, "spec": {}}),
    ],
    ids=lambda each: each.kind if isinstance(each, Kind) else "",
)
async def test_a_name_that_another_has_is_said_and_left_alone(tmp_path: Path, kind: Kind, body: Any) -> None:
    async with site(tmp_path) as at, operating(at.config):
        taken = await at.put(kind, body)
        await at.add()
        found = await at.until(lambda each: ready(each)[1] == "NameTaken", what="it says so")
        assert (
            f"{kind.kind} {body['metadata']['name']} in namespace default belongs to something else" in ready(found)[2]
        )
        key = Key("default", body["metadata"]["name"])
        assert await at.client.raw(kind).get(key) == taken or kind is StatefulSet.kind
        await at.client.raw(kind).delete(key, uid=taken["metadata"]["uid"])
        await at.until(lambda each: each.status.phase == "Succeeded", what="it goes on once the name is free")


async def test_what_is_left_of_a_predecessor_is_waited_for(tmp_path: Path) -> None:
    async with site(tmp_path) as at:
        owner = {"apiVersion": "flux-framework.org/v1alpha1", "kind": "Flux", "name": "one", "uid": "another"}
        metadata = {"name": "one-launcher", "labels": {"flux-framework.org/cluster": "one"}}
        left = await at.put(Job.kind, {"metadata": {**metadata, "ownerReferences": [{**owner, "controller": True}]}})
        at.controllers.code = None
        async with operating(at.config):
            await at.add()
            await at.until(lambda each: ready(each)[1] == "WaitingForDeletion", what="it waits")
            await at.client.raw(Job.kind).delete(Key("default", "one-launcher"), uid=left["metadata"]["uid"])
            await at.until(lambda each: ready(each)[1] == "Running", what="it goes on")


async def test_what_the_server_refuses_is_said_with_its_words_and_tried_again(tmp_path: Path) -> None:
    async with site(tmp_path) as at:
        # A namespace that is going takes nothing new.
        gone = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going", "finalizers": ["test/holds"]}}
        await at.client.raw(NAMESPACE).create(gone)
        await at.put(Flux.kind, {"metadata": {"name": "one", "namespace": "going"}, "spec": {"command": "hostname"}})
        await at.client.raw(NAMESPACE).delete(Key("", "going"))
        async with operating(at.config):

            async def refused() -> Flux | None:
                found = await at.client.of(Flux).get(Key("going", "one"))
                return found if ready(found)[1] == "ApplyFailed" else None

            found = await wait_until_async(refused, what="it says what was refused")
            assert ": 403 " in ready(found)[2]
            assert "because it is being terminated" in ready(found)[2]


async def test_a_given_certificate_takes_the_place_of_the_generated_one(tmp_path: Path) -> None:
    text = generated("mine", NOW)
    async with site(tmp_path, code=None) as at, operating(at.config):
        await at.add()
        await at.until(lambda each: ready(each)[1] == "Running", what="it runs")
        await at.put(FluxSetup.kind, {"metadata": {"name": "one"}, "spec": {"cert": {"config": text}}})

        async def given() -> bool:
            secret = await at.client.raw(SECRET).get(Key("default", "one-curve-certificate"))
            return base64.b64decode(secret["data"]["curve.cert"]).decode() == text

        await wait_until_async(given, what="the Secret has the given certificate")


async def test_a_secret_that_was_emptied_or_deleted_is_made_again_while_workers_wait(tmp_path: Path) -> None:
    async with site(tmp_path, starting=False) as at, operating(at.config):
        await at.add()
        await at.until(lambda each: ready(each)[1] == "WorkersStarting", what="the workers start")
        secrets, key = at.client.raw(SECRET), Key("default", "one-curve-certificate")

        async def whole() -> bool:
            page = await secrets.list("default")
            return any(
                is_certificate(base64.b64decode(each["data"].get("curve.cert", "")).decode()) for each in page.items
            )

        await wait_until_async(whole, what="the Secret is there")
        uid = (await secrets.get(key))["metadata"]["uid"]
        await secrets.patch(key, {"data": {"curve.cert": ""}}, uid=uid)
        await wait_until_async(whole, what="it has a certificate again")
        await secrets.delete(key, uid=uid)
        await wait_until_async(whole, what="it is there again")


async def test_a_flux_that_goes_is_left_to_the_garbage_collector(tmp_path: Path) -> None:
    async with site(tmp_path, code=None) as at, operating(at.config) as mortal:
        made = await at.add()
        await at.until(lambda each: ready(each)[1] == "Running", what="it runs")
        writes = len(mortal.writes)
        await at.client.of(Flux).delete(made.key, uid=made.metadata.uid)
        await at.add("marker", command="'")
        await at.until(lambda each: each.status.phase == "Failed", "marker", what="the marker is refused")
        assert [path for _, path in mortal.writes[writes:] if "marker" not in path] == []


@pytest.mark.parametrize(
    ("asked", "by", "reason"),
    [
        (setup(), None, "FluxMissing"),
        (setup(), flux(), "InUse"),
        (setup(broker="= no"), flux(), "InvalidSetup"),
        (setup(), flux(command="'"), "InUse"),
    ],
)
def test_a_set_up_says_what_is_wrong_with_itself_only(asked: FluxSetup, by: Flux | None, reason: str) -> None:
    outcome = setup_outcome(asked, by)
    assert outcome.reason == reason
    assert not outcome.message.startswith("FluxSetup")


def test_a_flux_that_goes_is_missing() -> None:
    going = Flux(metadata=ObjectMeta(name="one", namespace="n", deletion_timestamp=NOW))
    assert setup_outcome(setup(), going).reason == "FluxMissing"
