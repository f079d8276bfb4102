"""`edgewright crds print`: what lies in config/crd/bases, from anywhere."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.unit.cli.command import edgewright

BASES = Path(__file__).parents[3] / "config" / "crd" / "bases"


def test_what_is_printed_is_what_lies_in_the_repository() -> None:
    done = edgewright("crds", "print")
    assert (done.returncode, done.stderr) == (0, "")
    printed = {document["metadata"]["name"]: document for document in yaml.safe_load_all(done.stdout)}
    stored = [yaml.safe_load(path.read_text()) for path in BASES.glob("*.yaml")]
    assert printed == {document["metadata"]["name"]: document for document in stored}
    assert printed
