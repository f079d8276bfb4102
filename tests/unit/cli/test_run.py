"""`edgewright run`: how it begins, what it refuses and how it ends; what it does has tests of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from edgewright.api.capabilities import FLASHJOB, Capability
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.cli import operator_options, run
from edgewright.cli.failure import Failed
from edgewright.controllers.settings import Settings
from edgewright.runtime import config, logs
from edgewright.runtime.errors import Forbidden, NotFound, Status
from edgewright.runtime.lease import Lease
from edgewright.runtime.objects import Key, ObjectMeta
from tests.harness import wait_until_async
from tests.unit.cli.planes import planes


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


async def test_kinds_that_are_not_served_are_one_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        with pytest.raises(Failed, match="is not served: run `edgewright crds install` first, or add --install-crds"):
            await run.operate(client.config, Settings(), serving=run.Serving(), leader_elect=False, install_crds=False)
        with pytest.raises(NotFound):
            await client.of(FlashJob).list()


@pytest.mark.parametrize("leader_elect", [True, False], ids=["with a Lease", "without one"])
async def test_it_works_until_a_signal_comes(leader_elect: bool, tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:

        async def use() -> None:
            job = FlashJob(
                metadata=ObjectMeta(name="job", namespace="default"),
                spec=FlashJobSpec(uuid=("nobody",), firmware="no reference", version="1"),
            )

            async def told() -> bool:
                try:
                    status = (await client.of(FlashJob).get(Key("default", "job"))).status
                except NotFound:
                    await client.of(FlashJob).create(job)
                    return False
                return status.phase == "Failed" and "spec.firmware" in status.message

            await wait_until_async(served, what="the kinds are served")
            await wait_until_async(told, what="the job is told that it cannot be")
            leases = await client.of(Lease).list("default")
            assert [each.metadata.name for each in leases.items] == (["edgewright"] if leader_elect else [])
            os.kill(os.getpid(), signal.SIGTERM)

        async def served() -> bool:
            try:
                await client.of(FlashJob).list()
            except NotFound:
                return False
            return True

        await asyncio.gather(
            run.operate(client.config, Settings(), serving=run.Serving(), leader_elect=leader_elect, install_crds=True),
            use(),
        )


async def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            serving = run.Serving(health_port=taken.getsockname()[1])
            with pytest.raises(Failed, match="another program listens there already"):
                await run.operate(client.config, Settings(), serving=serving, leader_elect=False, install_crds=True)


@pytest.mark.parametrize("option", ["health_port", "metrics_port"])
@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_is_none_is_wrong_usage_before_anything_is_asked_or_written(
    option: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed: dict[str, Any] = {option: port}
    monkeypatch.setattr(config, "load", lambda **_: pytest.fail("it has gone on"))
    with pytest.raises(typer.BadParameter, match=f"{port} is no port"):
        run.run(install_crds=True, **typed)


def test_what_was_typed_is_what_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    logged: list[Any] = []

    async def operate(*given: Any, **more: Any) -> None:
        asked.append((given, more))

    monkeypatch.setattr(run, "operate", operate)
    monkeypatch.setattr(config, "load", lambda **typed: typed)
    monkeypatch.setattr(logs, "setup", lambda **chosen: logged.append(chosen))
    run.run(context="site", lease_namespace="edge", health_port=8081, leader_elect=False, nat=True, probe=True)
    assert asked == [
        (
            (
                {"kubeconfig": None, "context": "site", "namespace": "edge"},
                operator_options.settings(plain_registries=None, attestation="", nat=True, probe=True),
            ),
            {
                "serving": run.Serving(health_port=8081),
                "leader_elect": False,
                "install_crds": False,
                "wanted": None,
                "charts": None,
                "lease_name": "edgewright",
                "namespaces": (),
            },
        )
    ]
    assert logged == [{"level": "info", "format": "auto"}], (
        "in a cluster its log is JSON, which a fixed format would not be"
    )


async def test_with_the_kinds_of_an_older_release_alone_it_starts_and_says_what_is_off_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: dict[str, str] = {}

    class Log:
        def info(self, message: str, *, controller: str, **_: object) -> None:
            said[controller] = message

    monkeypatch.setattr(run, "_log", Log())
    async with planes(tmp_path / "data") as client:
        await operator_options.install_kinds(client, (FLASHJOB,))
        assert await run.served_capabilities(client, None) == (FLASHJOB,)
    missing = dict.fromkeys(("rollout", "flux", "edge"), "controller disabled: kinds not installed")
    assert said == {"flashjob": "controller enabled", **missing, "charts": "controller disabled: no --watches"}


async def test_a_capability_without_rights_is_off_unless_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Capability(name="other", summary="something else")
    monkeypatch.setattr("edgewright.api.capabilities.CAPABILITIES", (FLASHJOB, other))

    async def missing(_: object, capability: Capability, _namespaces: object) -> list[str]:
        if capability is other:
            raise Forbidden(Status(code=403, message="no rights"))
        return []

    monkeypatch.setattr(run, "missing_kinds", missing)
    async with planes(tmp_path / "data") as client:
        assert await run.served_capabilities(client, None) == (FLASHJOB,)
        with pytest.raises(Forbidden):
            await run.served_capabilities(client, (other,))
        assert await run.served_capabilities(client, (FLASHJOB,)) == (FLASHJOB,)


def test_a_certificate_for_metrics_is_for_tls_alone(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="is for --metrics-secure alone"):
        run.run(metrics_cert_path=tmp_path)


def test_metrics_are_served_over_tls_where_that_is_asked_for() -> None:
    assert run.Serving(metrics_port=8443).metrics_tls() is None
    assert run.Serving(metrics_secure=True).metrics_tls() is None
    assert run.Serving(metrics_secure=True, metrics_port=8443).metrics_tls() is not None


async def test_in_one_namespace_nothing_is_asked_of_the_others(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        await operator_options.install_kinds(client, (FLASHJOB,))
        asked: list[str] = []
        send = client.transport.request

        async def request(method: str, path: str, **given: Any) -> bytes:
            asked.append(path)
            return await send(method, path, **given)

        client.transport.request = request  # type: ignore[method-assign] # the one door to the server
        assert await run.missing_kinds(client, FLASHJOB, ("here",)) == []
        assert [path for path in asked if "flashjobs" in path and "/namespaces/here/" not in path] == []
