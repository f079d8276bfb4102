"""The operator in `edgewright up`: what it adds to a control plane, whose Leases it holds, and the charts it serves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgewright.api.device import Device
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.cli import chart_watches, operator_options, up_operator
from edgewright.cli.failure import Failed
from edgewright.controllers.chart.helm import Access
from edgewright.local import control_plane
from edgewright.local.control_plane import Running
from edgewright.runtime import config as configs
from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.config import Config
from edgewright.runtime.definitions import install
from edgewright.runtime.errors import NotFound
from edgewright.runtime.lease import Lease, LeaseSpec
from edgewright.runtime.manager import LeaseSettings
from edgewright.runtime.objects import Key, ObjectMeta
from edgewright.runtime.tls import ConfigError
from tests.harness import wait_until_async
from tests.unit.controllers.chart.charts import CONFIG_MAP, FakeHelm, write_chart
from tests.unit.controllers.chart.stage import DEFINITION, SHOP

SETTINGS = operator_options.settings(plain_registries=None, attestation="", nat=False, local=True)
WATCHES = "- {group: charts.example.com, version: v1alpha1, kind: Shop, chart: shop}\n"
OURS, OF_CHARTS = Key("default", "edgewright"), Key("default", "edgewright-charts")


@asynccontextmanager
async def plane(folder: Path) -> AsyncIterator[tuple[Running, Client]]:
    """A control plane in this process, and a client of it."""
    async with control_plane.open(control_plane.Settings(data=folder / "data", port=0)) as running:
        config = Config(server=running.url, tls=running.entrance.component("test"), source="test")
        async with Client(config) as client:
            yield running, client


def project(folder: Path, **definitions: Any) -> chart_watches.Charts:
    """A chart and its watches file, with these definitions next to it, read as `up` reads it."""
    write_chart(folder / "shop")
    (folder / "watches.yaml").write_text(WATCHES)
    bases = folder / "config" / "crd" / "bases"
    bases.mkdir(parents=True)
    for name, definition in definitions.items():
        (bases / f"{name}.yaml").write_text(yaml.safe_dump(definition))
    charts = chart_watches.read_project(folder / "watches.yaml")
    assert charts is not None
    return charts


async def holder(client: Client, key: Key) -> str | None:
    """Who has a Lease."""
    try:
        return (await client.of(Lease).get(key)).spec.holder_identity
    except NotFound:
        return None


async def until_held(client: Client, key: Key) -> None:
    """Waits until the operator in `up` has a Lease."""

    async def held() -> bool:
        return await holder(client, key) == "edgewright-up"

    await wait_until_async(held, what=f"{key} is held by it")


def lease_of(key: Key, who: str) -> Lease:
    """A Lease that somebody holds for a day, and nobody renews."""
    return Lease(
        metadata=ObjectMeta(name=key.name, namespace=key.namespace),
        spec=LeaseSpec(holder_identity=who, lease_duration_seconds=86_400),
    )


async def test_the_operator_is_added_with_our_kinds_and_ends_with_the_control_plane(tmp_path: Path) -> None:
    async with plane(tmp_path) as (running, client):
        await up_operator.add_operator(running, SETTINGS)
        await client.of(FlashJob).create(
            FlashJob(
                metadata=ObjectMeta(name="job", namespace="default"),
                spec=FlashJobSpec(uuid=("nobody",), firmware="registry.example/a:1", version="1"),
            )
        )

        async def accepted() -> bool:
            job = await client.of(FlashJob).get(Key("default", "job"))
            return job.status.phase == "InProgress"

        await wait_until_async(accepted, what="the operator has seen the job")
        assert (await client.of(Device).list()).items == []


async def test_an_operator_that_lost_its_lease_works_again_once_it_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = LeaseSettings(
        name="edgewright", namespace="default", identity="edgewright-up", duration=30, renew_within=20, retry_every=0.1
    )
    monkeypatch.setattr(up_operator, "_lease", lambda *_: quick)
    async with plane(tmp_path) as (running, client):
        await up_operator.add_operator(running, SETTINGS)

        async def leads() -> bool:
            try:
                lease = await client.of(Lease).get(Key("default", "edgewright"))
            except NotFound:
                return False
            return lease.spec.holder_identity == "edgewright-up"

        await wait_until_async(leads, what="the operator leads")
        taken = {"holderIdentity": "somebody", "leaseDurationSeconds": 1}
        await client.of(Lease).patch(Key("default", "edgewright"), {"spec": taken})
        await wait_until_async(leads, what="the operator leads again")
        await client.of(FlashJob).create(
            FlashJob(
                metadata=ObjectMeta(name="job", namespace="default"),
                spec=FlashJobSpec(uuid=("nobody",), firmware="no reference", version="1"),
            )
        )

        async def told() -> bool:
            return (await client.of(FlashJob).get(Key("default", "job"))).status.phase == "Failed"

        await wait_until_async(told, what="the operator works again")


async def test_the_next_one_on_the_same_data_takes_over_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.setup(level="warning", format="text")
    charts = project(tmp_path / "project", shop=DEFINITION)
    async with plane(tmp_path) as (_, client):
        for key in (OURS, OF_CHARTS):
            await client.of(Lease).create(lease_of(key, "edgewright-up"))
    async with plane(tmp_path) as (running, client):
        await up_operator.add_operator(running, SETTINGS, charts)

        async def taken() -> bool:
            leases = [await client.of(Lease).get(key) for key in (OURS, OF_CHARTS)]
            return all(each.spec.lease_transitions == 1 for each in leases)

        await wait_until_async(taken, what="it has both Leases, which nobody else could have for a day")
    assert "waiting for leadership" not in capsys.readouterr().err


async def test_it_says_whom_it_waits_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.setup(level="warning", format="text")
    text = ""

    def said() -> bool:
        nonlocal text
        text += capsys.readouterr().err
        return "waiting for leadership" in text

    async with plane(tmp_path) as (running, client):
        await client.of(Lease).create(lease_of(OURS, "somebody-else"))
        await up_operator.add_operator(running, SETTINGS)
        await wait_until_async(said, what="it says so")
        assert "somebody-else" in text
        assert await holder(client, OURS) == "somebody-else"


async def test_leases_that_are_not_wanted_any_more_are_given_back(tmp_path: Path) -> None:
    async with plane(tmp_path) as (running, client):
        await up_operator.leave_to_others(running)
        assert await holder(client, OURS) is None
        await client.of(Lease).create(lease_of(OURS, "somebody-else"))
        await client.of(Lease).create(lease_of(OF_CHARTS, "edgewright-up"))
        await up_operator.leave_to_others(running)
        assert (await holder(client, OURS), await holder(client, OF_CHARTS)) == ("somebody-else", None)
        await client.of(Lease).patch(OF_CHARTS, {"spec": {"holderIdentity": "edgewright-up"}})
        await up_operator.add_operator(running, SETTINGS)
        assert await holder(client, OF_CHARTS) is None


async def test_charts_are_served_with_the_definitions_of_their_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charts = project(tmp_path / "project", shop=DEFINITION)
    async with plane(tmp_path) as (running, client):
        found: list[Access] = []

        class Helm(FakeHelm):
            def __init__(self, access: Access, **_: object) -> None:
                found.append(access)
                super().__init__(client)

            async def run(self) -> None:
                await asyncio.Event().wait()

        monkeypatch.setattr("edgewright.controllers.chart.operator.HelmProcess", Helm)
        await up_operator.add_operator(running, SETTINGS, charts)
        await client.raw(SHOP).create(
            {
                "apiVersion": SHOP.api_version,
                "kind": "Shop",
                "metadata": {"name": "corner", "namespace": "default"},
                "spec": {"greeting": "good evening"},
            }
        )

        async def greets() -> bool:
            try:
                made = await client.raw(CONFIG_MAP).get(Key("default", "corner"))
            except NotFound:
                return False
            return bool(made["data"]["greeting"] == "good evening")

        await wait_until_async(greets, what="the chart is installed")
        await until_held(client, OF_CHARTS)
        file = found[0].kubeconfig
        assert file is not None
        assert file.stat().st_mode & 0o777 == 0o600
        async with Client(configs.load(kubeconfig=file)) as helms:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
            answer = await helms.transport.request("POST", path, body=json.dumps(review).encode())
            assert b"system:operator" in answer


async def test_kinds_that_are_not_installed_are_named_and_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.setup(level="warning", format="text")
    text = ""

    def said() -> bool:
        nonlocal text
        text += capsys.readouterr().err
        return "no chart is served yet" in text

    charts = project(tmp_path / "project")
    async with plane(tmp_path) as (running, client):
        await up_operator.add_operator(running, SETTINGS, charts)
        await wait_until_async(said, what="it says what is missing")
        assert "charts.example.com/v1alpha1, Kind=Shop is not served: install its definition first" in text
        assert await holder(client, OF_CHARTS) is None
        await install(client, DEFINITION)
        await until_held(client, OF_CHARTS)


async def test_a_definition_that_is_installed_stays_as_it_is(tmp_path: Path) -> None:
    names = {**DEFINITION["spec"]["names"], "shortNames": ["sh"]}
    charts = project(tmp_path / "project", shop={**DEFINITION, "spec": {**DEFINITION["spec"], "names": names}})
    async with plane(tmp_path) as (_, client):
        assert await install(client, DEFINITION) == "created"
        await charts.install_missing(client)
        assert await install(client, DEFINITION) == "unchanged"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not YAML"),
        ("kind: CustomResourceDefinition\nspec: {}\n", "is not the definition of a kind: 'group'"),
    ],
)
def test_a_definition_that_cannot_be_read_is_one_sentence(text: str, problem: str, tmp_path: Path) -> None:
    project(tmp_path)
    (tmp_path / "config" / "crd" / "bases" / "bad.yaml").write_text(text)
    with pytest.raises(Failed, match=f"bad.yaml: {problem}"):
        chart_watches.read_project(tmp_path / "watches.yaml")


def test_the_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"which charts need: pip install 'edgewright\[charts\]'"):
        chart_watches.require_library()
