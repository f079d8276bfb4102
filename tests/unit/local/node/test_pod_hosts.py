"""The hosts file of a Pod: whose names are in it, and that it is the same file after a change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.local.controllers.resources import Service
from edgewright.local.node.pod_hosts import HostsFiles, host_name, hosts_file, rewrite, service_names
from edgewright.local.node.pods import Pod
from edgewright.runtime.cache import Cache
from tests.harness.waiting import wait_until_async
from tests.unit.local.node.fakeapi import FakeApi
from tests.unit.local.node.podspecs import pod
from tests.unit.runtime.fakeserver import running

READY = [{"type": "Ready", "status": "True"}]


def headless(**spec: Any) -> Service:
    body = {
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"clusterIP": "None", "selector": {"app": "flux"}, **spec},
    }
    return msgspec.convert(body, Service)


def member(number: int = 0, **changes: Any) -> Pod:
    status = {"podIP": f"127.130.0.{number + 1}", "conditions": READY, **changes.pop("status", {})}
    metadata = {"name": f"w-{number}", "labels": {"app": "flux"}, **changes.pop("metadata", {})}
    return pod(metadata=metadata, status=status, **{"hostname": f"w-{number}", "subdomain": "w", **changes})


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (pod(metadata={"name": "one"}), "one"),
        (pod(metadata={"name": "one"}, hostname="two"), "two"),
        (pod(metadata={"name": "a" * 62 + "-b"}), "a" * 62),
    ],
)
def test_a_pod_is_called_as_it_says_or_as_its_object(given: Pod, name: str) -> None:
    assert host_name(given) == name


def test_a_file_has_the_machines_lines_the_pods_own_its_aliases_and_names() -> None:
    aliases = [{"ip": "10.1.1.1", "hostnames": ["a", "b"]}]
    written = hosts_file("127.0.0.1 localhost\n\n", member(hostAliases=aliases), "127.130.0.1", ["127.130.0.2 x"])
    assert written.splitlines() == [
        "127.0.0.1 localhost",
        "127.130.0.1 w-0.w.default.svc.cluster.local w-0",
        "10.1.1.1 a b",
        "127.130.0.2 x",
    ]


def test_a_headless_service_gives_names_to_its_pods_and_to_all_of_them_together() -> None:
    assert service_names([headless()], [member(1), member(0)], "default") == [
        "127.130.0.1 w-0.w.default.svc.cluster.local w-0.w.default.svc w-0.w.default w-0.w",
        "127.130.0.1 w.default.svc.cluster.local w.default.svc w.default w",
        "127.130.0.2 w-1.w.default.svc.cluster.local w-1.w.default.svc w-1.w.default w-1.w",
        "127.130.0.2 w.default.svc.cluster.local w.default.svc w.default w",
    ]


def test_a_pod_of_another_namespace_must_say_the_namespace() -> None:
    (first, _) = service_names([headless()], [member()], "other")
    assert first == "127.130.0.1 w-0.w.default.svc.cluster.local w-0.w.default.svc w-0.w.default"


@pytest.mark.parametrize(
    ("service", "unnamed"),
    [
        pytest.param(headless(), member(metadata={"labels": {}}), id="not selected"),
        pytest.param(headless(), member(metadata={"namespace": "other"}), id="of another namespace"),
        pytest.param(headless(), member(status={"phase": "Succeeded"}), id="ended"),
        pytest.param(headless(), member(status={"podIP": ""}), id="without an address"),
        pytest.param(headless(), member(status={"conditions": []}), id="not ready"),
        pytest.param(headless(clusterIP="10.0.0.1"), member(), id="not headless"),
        pytest.param(headless(selector={}), member(), id="without a selector"),
    ],
)
def test_others_are_not_named(service: Service, unnamed: Pod) -> None:
    assert service_names([service], [unnamed], "default") == []


def test_a_service_with_an_address_of_this_machine_is_named_and_others_lead_nowhere() -> None:
    assert service_names([headless(clusterIP="127.96.0.9")], [], "default") == [
        "127.96.0.9 w.default.svc.cluster.local w.default.svc w.default w"
    ]
    (line,) = service_names([headless(clusterIP="127.96.0.9")], [], "other")
    assert line.endswith(" w.default")


def test_a_service_may_name_pods_before_they_are_ready() -> None:
    assert service_names([headless(publishNotReadyAddresses=True)], [member(status={"conditions": []})], "default")


def test_a_pod_on_its_way_out_comes_after_its_successor() -> None:
    old = member(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    new = member(metadata={"name": "z"}, status={"podIP": "127.130.0.9"})
    assert service_names([headless()], [old, new], "default")[0].startswith("127.130.0.9 w-0.w.")


def test_a_file_stays_the_same_file_and_is_left_alone_where_nothing_changed(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    rewrite(file, "one line and more\n")
    before = file.stat()
    rewrite(file, "one\n")
    assert (file.read_text(), file.stat().st_ino) == ("one\n", before.st_ino)
    changed = file.stat().st_mtime_ns
    rewrite(file, "one\n")
    assert file.stat().st_mtime_ns == changed


async def test_files_follow_what_comes_and_one_that_cannot_be_written_hurts_no_other(tmp_path: Path) -> None:
    api = FakeApi()
    pods, services = Cache(api.client().of(Pod)), Cache(api.client().of(Service))
    file = tmp_path / "hosts"
    files = HostsFiles(pods, services, lambda: {"one": file, "two": tmp_path})
    async with running(pods.run()), running(services.run()), running(files.keep()):
        status = {"podIP": "127.130.0.1", "conditions": READY}
        for name in ("two", "one"):
            api.add_pod(name, metadata={"uid": name, "labels": {"app": "flux"}}, status=status)
        await wait_until_async(file.exists, what="the file is written")
        service = {"metadata": {"name": "w", "namespace": "default"}, "spec": headless().spec.to_raw()}
        api.put("/api/v1/namespaces/default/services/w", service)
        await wait_until_async(lambda: " w.default.svc " in file.read_text(), what="the Service's name is there")
        api.remove("/api/v1/namespaces/default/services/w")
        await wait_until_async(lambda: " w.default.svc " not in file.read_text(), what="the name is gone")
        await asyncio.sleep(0)
