"""A board that runs Zephyr, flashed by a FlashJob: operator, node, flash Pod and registry are there as in real life."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from smpclient import SMPClient
from smpclient.generics import success
from smpclient.requests.os_management import MCUMgrParametersRead

from edgewright.api.device import Device
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FlashJob
from edgewright.devices.drivers.smp import SmpTcp
from edgewright.devices.drivers.smp_wire import SerialOnTcp
from edgewright.devices.simulated.registry import Registry as Images
from tests.e2e.registry import RealRegistry
from tests.e2e.zephyr import Board
from tests.e2e.zephyr_firmware import (
    MICROBIT,
    MPS2_SMALL,
    damaged,
    image_of,
    load_address_of,
    pretend_encrypted,
    program_of,
    program_that_restarts_at_once,
    signed,
)
from tests.harness import LocalPlane
from tests.harness.fixtures import run
from tests.harness.waiting import wait_until_async

NAMESPACE = "default"
OLD = "0.0.0"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    """A registry over plain HTTP that lets everybody in."""
    with RealRegistry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest, registry: RealRegistry) -> Iterator[LocalPlane]:
    """An `edgewright up` with a node and the operator."""
    arguments = ("--plain-registry", registry.host)
    yield from run(request, functools.partial(LocalPlane, node=True, operator=True, arguments=arguments))


def good() -> bytes:
    return image_of(program_of(signed(MICROBIT)), "1.2.3+4")


def restarting() -> bytes:
    return image_of(program_that_restarts_at_once(), "1.2.3+4")


@pytest.mark.parametrize(
    ("name", "content", "outcome", "runs", "told"),
    [
        pytest.param("good", good, Outcome.SUCCEEDED, "1.2.3.4", "1.2.3.4", id="a good image runs"),
        pytest.param(
            "damaged", lambda: damaged(good()), Outcome.CORRUPT, OLD, "does not match", id="a damaged image is not sent"
        ),
        pytest.param(
            "refused",
            lambda: pretend_encrypted(damaged(restarting())),
            Outcome.CORRUPT,
            OLD,
            "bootloader refused",
            id="a damaged image is refused by the bootloader",
        ),
        pytest.param(
            "reverting", restarting, Outcome.REVERTED, OLD, "went back to 0.0.0", id="an unconfirmed image is reverted"
        ),
    ],
)
async def test_a_board_is_flashed_by_a_flashjob(
    plane: LocalPlane,
    registry: RealRegistry,
    microbit_board: Board,
    name: str,
    content: Callable[[], bytes],
    outcome: Outcome,
    runs: str,
    told: str,
) -> None:
    status = await flash_by_job(
        plane, registry, microbit_board, name=name, content=content(), device="qemu_cortex_m0/nrf51822"
    )
    (device,) = status["devices"]
    assert (device["outcome"], status["phase"]) == (outcome, "Completed" if outcome.good else "Failed")
    assert told in device["message"]
    assert (await SmpTcp().inspect(microbit_board.endpoint)).version == runs
    # A restart does not bring back what was left, or lose what was confirmed.
    microbit_board.reset()
    assert (await SmpTcp().inspect(microbit_board.endpoint)).version == runs


async def test_a_new_program_runs_and_behaves_differently(
    plane: LocalPlane, registry: RealRegistry, mps2_board: Board
) -> None:
    assert await buffer_of(mps2_board) == 2048
    other = signed(MPS2_SMALL)
    content = image_of(program_of(other), "1.2.3+4", load_address=load_address_of(other))
    status = await flash_by_job(plane, registry, mps2_board, name="other", content=content, device="mps2/an385")
    (device,) = status["devices"]
    assert (device["outcome"], status["phase"]) == (Outcome.SUCCEEDED, "Completed")
    assert await buffer_of(mps2_board) == 400


async def flash_by_job(
    plane: LocalPlane, registry: RealRegistry, board: Board, *, name: str, content: bytes, device: str
) -> dict[str, Any]:
    """Declares a Device and a FlashJob, and gives the job's status once it has ended and left nothing behind."""
    images = Images()
    images.add_image("zephyr/server", name, content)
    await registry.push(images)
    plane.request("POST", Device.kind.path(), document(Device, name, protocol="smp-tcp", endpoint=board.endpoint))
    job = document(
        FlashJob,
        name,
        uuid=[name],
        firmware=f"{registry.host}/zephyr/server:{name}",
        version="1.2.3.4",
        device=device,
        allowInsecure=True,
        retries=0,
        timeoutSeconds=100,
    )
    plane.request("POST", FlashJob.kind.path(NAMESPACE), job)

    def ended() -> dict[str, Any] | None:
        status: dict[str, Any] = plane.request("GET", FlashJob.kind.path(NAMESPACE, name)).get("status", {})
        return status if status.get("phase") in {"Completed", "Failed"} else None

    def clean() -> bool:
        return not plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]

    status = await wait_until_async(ended, timeout=120, what="the FlashJob has ended", interval=0.2)
    await wait_until_async(clean, what="no Pod is left")
    return status


async def buffer_of(board: Board) -> int:
    """The size of the buffer that the program on the board has, as it says."""
    wire = SerialOnTcp("127.0.0.1", board.port)
    await wire.connect("", 3)
    try:
        answer = await SMPClient(wire, board.endpoint).request(MCUMgrParametersRead())
    finally:
        await wire.disconnect()
    assert success(answer)
    return answer.buf_size


def document(kind: type[Device | FlashJob], name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": kind.kind.api_version, "kind": kind.kind.kind, "metadata": metadata, "spec": spec}
