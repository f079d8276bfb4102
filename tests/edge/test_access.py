"""Logs of, and commands in, a workload on a real podman, as the agent gives them."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from edgewright.agent.access import Access
from edgewright.agent.settings import Settings
from edgewright.api.edge_protocol import AccessReport, CommandContent
from tests.edge.support import DEVICE, configuration, workload
from tests.edge.test_workloads import devices, until
from tests.harness.waiting import wait_until_async


async def test_the_logs_of_a_workload_and_commands_in_it_come_from_podman(image: Path, tmp_path: Path) -> None:
    async with devices(image, tmp_path, DEVICE) as (device,):
        script = "echo one; echo two >&2; echo three; exec /bin/busybox httpd -f -p 80"
        wanted = configuration(workload(script=script))
        device.gateway.serve(DEVICE, wanted)
        await until(lambda: device.seen.statuses == {"nginx": "Running"}, "nginx runs")
        settings = Settings(server="a", cert_file="", key_file="", ca_root=[], remote_logs=True, remote_exec=True)
        access = Access(settings, device.machine.podman, lambda: wanted)

        async def ask(what: str, **arguments: str) -> AccessReport:
            given = {"request": "r", "workload": "nginx", "container": "", "timeout": "20", "lines": "100"}
            return await access.answer(CommandContent(command=what, arguments=given | arguments))

        async def execute(*words: str, **arguments: str) -> AccessReport:
            return await ask("exec", command=msgspec.json.encode(words).decode(), **arguments)

        async def printed() -> bool:
            return len((await ask("logs")).output.splitlines()) == 3

        await until(printed, "all lines are there")
        assert set((await ask("logs")).output.splitlines()) == {"one", "two", "three"}
        assert len((await ask("logs", lines="1", container="web")).output.splitlines()) == 1
        done = await execute("/bin/sh", "-c", "echo $DEVICE_ID; echo no >&2; exit 3")
        assert (set(done.output.splitlines()), done.exit_code, done.error) == ({DEVICE, "no"}, 3, "")
        quiet = await execute("/bin/busybox", "true")
        assert (quiet.output, quiet.exit_code, quiet.truncated) == ("", 0, False)
        much = await execute("/bin/sh", "-c", "/bin/busybox yes | /bin/busybox head -c 200000")
        assert (len(much.output), much.truncated, much.exit_code) == (60_000, True, 0)
        missing = await execute("/no/such/program")
        assert missing.error or missing.exit_code
        began = time.monotonic()
        late = await execute("/bin/busybox", "sleep", "3600", timeout="1")
        assert late.error == "it took too long"

        async def ended() -> bool:
            return "sleep 3600" not in (await execute("/bin/busybox", "ps")).output

        await wait_until_async(ended, what="what took too long is ended", timeout=60)
        assert time.monotonic() - began < 60
        foreign = await ask("logs", workload="foreign")
        assert foreign.error == "the device has no workload 'foreign'"
