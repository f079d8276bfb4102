"""The alert rules with promtool, Prometheus' own: they are well-formed, and fire when they must and not otherwise."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config/prometheus"


def promtool(*arguments: str, folder: Path) -> None:
    done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_rules_fire_when_they_must_and_not_otherwise(tmp_path: Path) -> None:
    groups = yaml.safe_load((CONFIG / "rules.yaml").read_text(encoding="utf-8"))["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(groups), encoding="utf-8")
    shutil.copy(Path(__file__).with_name("rules_test.yaml"), tmp_path)
    promtool("check", "rules", "rules.yaml", folder=tmp_path)
    promtool("test", "rules", "rules_test.yaml", folder=tmp_path)


def test_prometheus_can_read_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    panels = json.loads((CONFIG / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    queries = [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel["targets"]]
    rules = [{"record": f"panel:number{number}", "expr": query} for number, query in enumerate(queries)]
    text = yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]})
    (tmp_path / "dashboard.yaml").write_text(text, encoding="utf-8")
    promtool("check", "rules", "dashboard.yaml", folder=tmp_path)
