"""The loop of MiniClusters on an API server in this process: a whole life, deaths, shared names, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewright.api.job import Job
from edgewright.api.minicluster import MiniCluster
from edgewright.api.service import Service
from edgewright.controllers.minicluster.certificate_secret import SECRET
from edgewright.controllers.minicluster.objects import ConfigMap
from edgewright.runtime.conditions import find
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, Kind
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.minicluster.plane import POD, Site, operating, site

SERVICES = [{"name": "web", "image": "x", "command": "sleep 1000"}]
END = {
    "ConfigMap": ["one-entrypoint"],
    "Secret": ["one-curve-certificate"],
    "Service": ["flux-service"],
    "Job": ["one"],
}


async def there(at: Site) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for kind in (ConfigMap.kind, SECRET, Service.kind, Job.kind):
        page = await at.client.raw(kind).list("default")
        names = (each["metadata"]["name"] for each in page.items)
        found[kind.kind] = sorted(name for name in names if name not in {"kube-root-ca.crt", "kubernetes"})
    return found


def ready(found: MiniCluster) -> tuple[str, str, str]:
    condition = find(found.status.conditions, "Ready")
    return (condition.status, condition.reason, condition.message) if condition else ("", "", "")


def is_over(found: MiniCluster) -> bool:
    return found.status.phase in {"Succeeded", "Failed"}


async def test_a_mini_cluster_runs_to_its_end_and_then_nothing_is_written(tmp_path: Path) -> None:
    async with site(tmp_path, code=3) as at, operating(at.config) as mortal:
        await at.add_minicluster(services=SERVICES)
        done = await at.until_minicluster(is_over, what="it has ended")
        assert (done.status.phase, done.status.exit_code, ready(done)[1]) == ("Failed", 3, "CommandFailed")
        assert await there(at) == END
        writes = len(mortal.writes)
        for number in range(2):
            change = {"metadata": {"annotations": {"look": str(number)}}}
            await at.client.of(MiniCluster).patch(done.key, change, uid=done.metadata.uid)
        await at.add_minicluster("marker", flux={"brokerConfig": "= no"})
        await at.until_minicluster(is_over, "marker", what="the marker is refused")
        assert [path for _, path in mortal.writes[writes:] if "marker" not in path] == []


@pytest.mark.parametrize("number", range(1, 13))
async def test_killed_at_every_write_it_comes_to_the_same_end(tmp_path: Path, number: int) -> None:
    async with site(tmp_path, code=5) as at:
        await at.add_minicluster(services=SERVICES)
        async with operating(at.config, at=number) as mortal:
            await at.until_minicluster(lambda each: mortal.died.is_set() or is_over(each), what="it has died, or ended")
        async with operating(at.config):
            done = await at.until_minicluster(is_over, what="it has come to its end")
            await wait_until_async(lambda: _no_services_pod(at), what="the services are gone")
        assert (done.status.exit_code, ready(done)[1]) == (5, "CommandFailed")
        assert await there(at) == END
        assert len(set(at.controllers.ran)) == 1


async def _no_services_pod(at: Site) -> bool:
    try:
        pod = await at.client.raw(POD).get(Key("default", "one-services"))
    except NotFound:
        return True
    return "deletionTimestamp" in pod["metadata"]


async def test_status_wiped_it_says_the_same_again(tmp_path: Path) -> None:
    async with site(tmp_path, code=4) as at:
        await at.add_minicluster()
        async with operating(at.config):
            before = await at.until_minicluster(is_over, what="it has ended")
        version = (await at.minicluster()).metadata.resource_version
        await at.client.of(MiniCluster).patch(
            before.key, {"status": None}, resource_version=version, subresource="status"
        )
        at.controllers.code = None  # nothing is run again
        async with operating(at.config):
            after = await at.until_minicluster(is_over, what="it says so again")
        assert (after.status.exit_code, after.status.message) == (4, before.status.message)
        assert len(set(at.controllers.ran)) == 1


async def test_status_wiped_while_it_watches_it_says_the_same_again(tmp_path: Path) -> None:
    async with site(tmp_path, code=4) as at, operating(at.config):
        await at.add_minicluster()
        before = await at.until_minicluster(is_over, what="it has ended")
        wipe = [{"op": "replace", "path": "/status", "value": {}}]
        await at.client.of(MiniCluster).patch(before.key, wipe, subresource="status")

        async def said_again() -> bool:
            found = await at.minicluster()
            return found.metadata.resource_version != before.metadata.resource_version and is_over(found)

        await wait_until_async(said_again, what="it says so again")
        assert (await at.minicluster()).status.exit_code == 4


async def test_scaling_changes_the_job_and_nothing_else(tmp_path: Path) -> None:
    async with site(tmp_path, code=None) as at, operating(at.config) as mortal:
        made = await at.add_minicluster(maxSize=4)
        await at.until_minicluster(lambda each: each.status.pods == "2/2", what="two Pods are ready")
        writes = len(mortal.writes)
        await at.client.of(MiniCluster).patch(made.key, {"spec": {"size": 4}}, uid=made.metadata.uid)
        await at.until_minicluster(lambda each: each.status.pods == "4/4", what="four Pods are ready")
        job = await at.client.of(Job).get(Key("default", "one"))
        assert (job.spec.completions, job.spec.parallelism) == (4, 4)
        others = {path.rsplit("/", 2)[-2] for _, path in mortal.writes[writes:]} - {"miniclusters", "jobs", "one"}
        assert others == set()


async def test_without_max_size_it_grows_back_to_its_first_size_and_no_further(tmp_path: Path) -> None:
    async with site(tmp_path, code=None) as at, operating(at.config):
        made = await at.add_minicluster(size=3)
        await at.until_minicluster(lambda each: each.status.pods == "3/3", what="three Pods are ready")
        config = await at.client.raw(ConfigMap.kind).get(Key("default", "one-entrypoint"))
        await at.client.of(MiniCluster).patch(made.key, {"spec": {"size": 1}}, uid=made.metadata.uid)
        await at.until_minicluster(lambda each: each.status.size == 1, what="it has one")
        await at.client.of(MiniCluster).patch(made.key, {"spec": {"size": 3}}, uid=made.metadata.uid)
        await at.until_minicluster(lambda each: each.status.size == 3, what="it has three again")
        assert await at.client.raw(ConfigMap.kind).get(Key("default", "one-entrypoint")) == config


async def test_two_share_the_service_and_both_own_it(tmp_path: Path) -> None:
    async with site(tmp_path) as at, operating(at.config):
        await at.add_minicluster("one")
        await at.until_minicluster(is_over, "one", what="the first has ended")
        await at.add_minicluster("two")
        await at.until_minicluster(is_over, "two", what="the second has ended")
        service = await at.client.of(Service).get(Key("default", "flux-service"))
        assert [each.name for each in service.metadata.owner_references] == ["one", "two"]
        assert not [each for each in service.metadata.owner_references if each.controller]
        assert service.spec.selector == {"flux-framework.org/service": "flux-service"}


async def test_of_those_that_start_together_one_makes_the_service_and_the_others_join_it(tmp_path: Path) -> None:
    names = ["one", "two", "three", "four"]
    async with site(tmp_path) as at:
        for name in names:
            await at.add_minicluster(name)
        async with operating(at.config) as mortal:
            for name in names:
                await at.until_minicluster(is_over, name, what=f"{name} has ended")
        service = await at.client.of(Service).get(Key("default", "flux-service"))
        assert sorted(each.name for each in service.metadata.owner_references) == sorted(names)
        assert len([path for method, path in mortal.writes if method == "POST" and path.endswith("/services")]) == 1


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (ConfigMap.kind, {"metadata": {"name": "one-entrypoint"}}),
        (SECRET, {"metadata": {"name": "one-curve-certificate"}}),
        (Service.kind, {"metadata": {"name": "flux-service"}, "spec": {"ports": [{"port": 80}]}}),
        (Job.kind, {"metadata": {"name": "one"}, "spec": {}}),
    ],
    ids=lambda each: each.kind if isinstance(each, Kind) else "",
)
async def test_a_name_that_another_has_is_said_and_left_alone(tmp_path: Path, kind: Kind, body: Any) -> None:
    async with site(tmp_path) as at, operating(at.config):
        taken = await at.put(kind, body)
        await at.add_minicluster()
        found = await at.until_minicluster(lambda each: ready(each)[1] == "NameTaken", what="it says so")
        name = body["metadata"]["name"]
        assert f"{kind.kind} {name} in namespace default belongs to something else" in ready(found)[2]
        await at.client.raw(kind).delete(Key("default", name), uid=taken["metadata"]["uid"])
        await at.until_minicluster(is_over, what="it goes on once the name is free")


async def test_cleanup_deletes_it_when_its_command_has_ended(tmp_path: Path) -> None:
    async with site(tmp_path) as at, operating(at.config):
        await at.add_minicluster(cleanup=True)

        async def gone() -> bool:
            try:
                await at.minicluster()
            except NotFound:
                return True
            return False

        await wait_until_async(gone, what="it is gone")
        assert len(set(at.controllers.ran)) == 1


async def test_a_changed_command_is_run_again(tmp_path: Path) -> None:
    async with site(tmp_path, code=None) as at, operating(at.config):
        made = await at.add_minicluster()
        await at.until_minicluster(lambda each: ready(each)[1] == "Running", what="it runs")
        job = await at.client.of(Job).get(made.key)
        containers = [{"image": "x", "command": "other"}]
        await at.client.of(MiniCluster).patch(made.key, {"spec": {"containers": containers}}, uid=made.metadata.uid)

        async def again() -> bool:
            found = (await at.client.of(Job).list("default")).items
            return bool(found) and found[0].metadata.uid != job.metadata.uid

        await wait_until_async(again, what="there is another Job")
        config = await at.client.of(ConfigMap).get(Key("default", "one-entrypoint"))
        assert config.data["lead-0.sh"].endswith("--watch other\n")
