"""docs/howto-backup.md on both servers: what its commands save and restore makes the operator write no device again."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

from edgewright.devices.simulated.journal import Did
from tests.cluster.flash.stage import Stage
from tests.harness import ApiServer, programs

PAGE = Path(__file__).parents[3] / "docs" / "howto-backup.md"
SAVE = "kubectl get devices.edgewright.dev -o yaml | sed '/^    \\(uid\\|resourceVersion\\):/d' > devices.yaml"
RESTORE = (
    "kubectl apply --server-side -f devices.yaml",
    "kubectl apply --server-side --subresource=status -f devices.yaml",
    "kubectl apply -f objects.yaml",
)


async def test_flashjobs_restored_without_their_status_write_no_device_again(
    flash_server: ApiServer, flash_namespace: str, tmp_path: Path
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(command in page for command in (SAVE, *RESTORE))

    async def typed(command: str) -> None:
        path = f"{programs.directory()}:{os.environ['PATH']}"
        settings = {"PATH": path, "KUBECONFIG": str(flash_server.kubeconfig), "HOME": str(tmp_path)}
        await asyncio.to_thread(
            subprocess.run, ["bash", "-euo", "pipefail", "-c", command], cwd=tmp_path, env=settings, check=True
        )

    async with Stage(flash_server, flash_namespace) as stage:
        name = (await stage.device()).metadata.name
        await stage.job("by-uid", version="0.2.0")  # the Instance of that uid goes with the restart of the device
        before = await stage.until_phase("Completed", "by-uid")
        await stage.job(uuids=[name], version="0.2.0", firmware=before.spec.firmware)
        await stage.until_phase("Completed")
        await stage.until_clean()
        await stage.stop_operator()

        # Of the one Device of this test: others use the same server.
        await typed(
            SAVE.replace("devices.edgewright.dev", f"devices.edgewright.dev --field-selector metadata.name={name}")
        )
        await typed(f"kubectl get flashjobs -n {flash_namespace} -o yaml > objects.yaml")
        await typed(f"kubectl delete flashjobs --all -n {flash_namespace}")
        await typed(f"kubectl delete devices.edgewright.dev {name}")
        for command in RESTORE:
            await typed(command)
        restored = await stage.get("by-uid")
        assert restored.metadata.uid != before.metadata.uid
        assert restored.status.phase == ""

        stage.start_operator()
        for job in ("by-uid", "job"):
            after = await stage.until_phase("Completed", job)
            assert [each.outcome for each in after.status.devices] == ["already-current"], job
        await stage.until_clean()
        assert [entry.version for entry in stage.fleet[1].journal.of(Did.WRITTEN)] == ["0.2.0"]
