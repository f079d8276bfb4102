"""The environment in which a test runs `make`: that of the test, without what was typed for the make that runs it.

`make images ARGS="-k chart"` hands its arguments down to every make below it, and targets that build images or the
installer take arguments of the same name. All tests that build with the project's own targets ask here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

_TYPED: Final = frozenset({"ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS"})


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables for a make that a test runs, `more` among them."""
    return {name: value for name, value in os.environ.items() if name not in _TYPED} | dict(more or {})
