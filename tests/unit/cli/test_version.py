"""`edgewright version`, for people and for programs."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from edgewright import __version__
from tests.unit.cli.command import edgewright


def test_people_get_a_line_for_each_part() -> None:
    done = edgewright("version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"edgewright {__version__}\npython {platform.python_version()}\n"


@pytest.mark.parametrize(("name", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
@pytest.mark.parametrize("option", ["-o", "--output"])
def test_programs_get_the_same_as_data(option: str, name: str, read: Callable[[str], Any]) -> None:
    done = edgewright("version", option, name)
    assert (done.returncode, done.stderr) == (0, "")
    assert read(done.stdout) == {"edgewright": __version__, "python": platform.python_version()}
