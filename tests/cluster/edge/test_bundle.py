"""What `edgewright edge bundle` writes, held to the programs that read it on a device."""

from __future__ import annotations

import subprocess
from pathlib import Path

from edgewright.cli.edge import UNIT


def test_the_unit_is_accepted_by_systemd(tmp_path: Path) -> None:
    unit = tmp_path / "edgewright-agent.service"
    unit.write_text(UNIT)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert "edgewright-agent.service" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
