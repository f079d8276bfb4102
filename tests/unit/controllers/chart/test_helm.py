"""The Helm process from outside: started when needed and only while leading, told of the lease, ended with it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edgewright.controllers.chart import helm
from edgewright.controllers.chart.helm import Access, HelmError, HelmGone, HelmProcess, Order, Source
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import LeaseLost
from tests.harness.waiting import wait_until_async

PROGRAM = """
import json, os, sys
access = json.loads(sys.argv[2])
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    with open(access["kubeconfig_path"], "a") as heard:
        heard.write(line)
    release = request.get("release")
    if release == "die":
        os._exit(3)
    if release == "hang" or "verb" not in request:
        continue
    answer = {"id": request["id"]}
    if release == "bad":
        answer["error"] = "no such chart"
    if request["verb"] == "render":
        answer["templates"] = {"a.yaml": sys.orig_argv[0]}
    print(json.dumps({"id": None}), flush=True)
    print(json.dumps(answer), flush=True)
"""


class Lease:
    """A fence that a test owns."""

    def __init__(self, left: float) -> None:
        self.left = left

    def remaining(self) -> float:
        return self.left


def order(release: str, *, timeout: float = 60.0) -> Order:
    return Order(verb="install", namespace="default", release=release, chart=Path("shop"), timeout=timeout)


@asynccontextmanager
async def process(folder: Path, *, lease: Lease | None = None, grace: float = 30.0) -> AsyncIterator[HelmProcess]:
    """A Helm process whose program is ours, and that writes down what it hears."""
    made = HelmProcess(
        Access(kubeconfig=folder / "heard"),
        clock=SystemClock(),
        fence=lease,
        program=("-c", PROGRAM),
        timeout_grace=grace,
    )
    running = asyncio.create_task(made.run())
    await asyncio.sleep(0)
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert made.pid is None


def heard(folder: Path) -> str:
    return (folder / "heard").read_text() if (folder / "heard").exists() else ""


async def test_it_is_started_when_it_is_first_needed_and_kept(tmp_path: Path) -> None:
    async with process(tmp_path) as made:
        before = made.pid
        await made.carry_out(order("one"))
        first = made.pid
        await asyncio.gather(made.carry_out(order("two")), made.carry_out(order("three")))
        assert (before, first is None) == (None, False)
        assert made.pid == first
        assert '"until"' not in heard(tmp_path)


async def test_it_is_called_helm_because_its_field_manager_is(tmp_path: Path) -> None:
    async with process(tmp_path) as made:
        rendered = await made.render(Path("shop"), release="r", namespace="default", values={})
        assert rendered["a.yaml"].endswith("/helm")


async def test_a_chart_is_fetched_into_a_folder(tmp_path: Path) -> None:
    async with process(tmp_path) as made:
        await made.fetch(Source(chart="shop", repo="https://x"), tmp_path / "into")
    asked = json.loads(heard(tmp_path))
    assert (asked["verb"], asked["chart"], asked["repo"], asked["into"]) == (
        *("fetch", "shop", "https://x"),
        str(tmp_path / "into"),
    )


async def test_what_helm_says_is_raised(tmp_path: Path) -> None:
    async with process(tmp_path) as made:
        with pytest.raises(HelmError, match="no such chart"):
            await made.carry_out(order("bad"))
        await made.carry_out(order("good"))


async def test_a_process_that_dies_is_told_and_replaced(tmp_path: Path) -> None:
    async with process(tmp_path) as made:
        with pytest.raises(HelmGone, match="ended with 3 in the middle of an action"):
            await made.carry_out(order("die"))
        await made.carry_out(order("good"))


async def test_a_process_that_hangs_is_killed(tmp_path: Path) -> None:
    async with process(tmp_path, grace=0.2) as made:
        with pytest.raises(HelmGone, match="did not end within"):
            await made.carry_out(order("hang", timeout=0.1))
        assert made.pid is None


async def test_it_is_not_asked_without_a_lease(tmp_path: Path) -> None:
    async with process(tmp_path, lease=Lease(0.5)) as made:
        with pytest.raises(LeaseLost):
            await made.carry_out(order("one"))
        assert made.pid is None
    with pytest.raises(LeaseLost, match="about to end"):
        await made.carry_out(order("one"))


async def test_it_is_told_until_when_the_lease_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helm, "TOLD_EVERY", 0.01)
    lease = Lease(10.0)
    async with process(tmp_path, lease=lease) as made:
        await made.carry_out(order("one"))
        assert '"until"' in heard(tmp_path).splitlines()[0]
        await wait_until_async(lambda: len(heard(tmp_path).splitlines()) > 3, what="it is told again and again")
        lease.left = 0.0
        count = len(heard(tmp_path).splitlines())
        await wait_until_async(lambda: made.pid is not None, what="it is left to end by itself")
        assert count > 3


async def test_a_program_that_cannot_start_says_what_to_install(tmp_path: Path) -> None:
    made = HelmProcess(Access(), clock=SystemClock(), program=("-c", "raise SystemExit(1)"))
    with pytest.raises(HelmGone, match=r"pip install 'edgewright\[charts\]'"):
        await made.carry_out(order("one"))
    await made.close()


async def test_it_sees_no_more_of_the_environment_than_it_needs(tmp_path: Path) -> None:
    show = 'import json, os\nprint(json.dumps({"ready": 1}), flush=True)\ninput()\n'
    show += 'print(json.dumps({"id": 1, "templates": dict(os.environ)}), flush=True)\n'
    environ = {"PATH": os.environ["PATH"], "SECRET": "s", "KUBECONFIG": "k", "PYTHONPATH": str(tmp_path)}
    made = HelmProcess(Access(context="c"), clock=SystemClock(), program=("-c", show), environ=environ)
    seen = await made.render(Path("shop"), release="r", namespace="d", values={})
    await made.close()
    assert seen["KUBECONFIG"] == "k"
    assert seen["PYTHONPATH"] == str(tmp_path), "in the image, that is where Edgewright lies"
    assert "SECRET" not in seen


async def test_helms_limit_for_one_persons_commands_does_not_hold_for_hundreds_of_releases() -> None:
    show = 'import json, os\nprint(json.dumps({"ready": 1}), flush=True)\ninput()\n'
    show += 'print(json.dumps({"id": 1, "templates": dict(os.environ)}), flush=True)\n'
    for given, rate in (({}, "-1"), ({"HELM_QPS": "50"}, "50")):
        environ = {"PATH": os.environ["PATH"], **given}
        made = HelmProcess(Access(), clock=SystemClock(), program=("-c", show), environ=environ)
        seen = await made.render(Path("shop"), release="r", namespace="d", values={})
        await made.close()
        assert seen["HELM_QPS"] == rate


async def test_a_home_that_is_no_folder_is_not_passed_on(tmp_path: Path) -> None:
    show = 'import json, os\nprint(json.dumps({"ready": 1}), flush=True)\ninput()\n'
    show += 'print(json.dumps({"id": 1, "templates": dict(os.environ)}), flush=True)\n'
    for home, passed in ((os.devnull, False), (str(tmp_path), True)):
        environ = {"PATH": os.environ["PATH"], "HOME": home}
        made = HelmProcess(Access(), clock=SystemClock(), program=("-c", show), environ=environ)
        seen = await made.render(Path("shop"), release="r", namespace="d", values={})
        await made.close()
        assert ("HOME" in seen) is passed


def test_access_is_told_as_the_library_names_it() -> None:
    assert Access().options() == {}
    assert Access(kubeconfig=Path("k"), context="c").options() == {"kubeconfig_path": "k", "kube_context": "c"}
