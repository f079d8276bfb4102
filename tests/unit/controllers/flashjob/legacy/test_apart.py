"""The general code knows the original operator only as somebody who worked before."""

from __future__ import annotations

from pathlib import Path

import edgewright.controllers.flashjob

PACKAGE = Path(edgewright.controllers.flashjob.__file__).parent


def test_no_general_module_imports_from_legacy() -> None:
    modules = {path: path.read_text() for path in PACKAGE.glob("*.py")}
    assert len(modules) > 15
    assert [path.name for path, text in modules.items() if "flashjob.legacy" in text] == []
