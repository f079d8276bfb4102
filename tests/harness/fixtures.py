"""How pytest fixtures run an API server: its directory goes with it, unless a test failed while it ran.

The conftests of the suites call `run`. Where logs were kept is said at the end of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from .apiserver import ApiServer
from .programs import NotBuiltError

A = TypeVar("A", bound=ApiServer)

_PLUGIN = "edgewright-kept-directories"


class _Kept:
    """Says at the end of the run where the logs are that were kept."""

    def __init__(self) -> None:
        self.directories: list[Path] = []

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for directory in self.directories:
            terminalreporter.write_line(f"logs and data of the control plane are kept in {directory}")


def run(request: pytest.FixtureRequest, make: Callable[[], A]) -> Iterator[A]:
    """An API server while the fixture lives; its directory stays when something failed meanwhile."""
    try:
        server = make()
    except NotBuiltError as missing:
        raise pytest.fail.Exception(str(missing), pytrace=False) from None
    failed_before = request.session.testsfailed
    keep = True
    try:
        server.start()
        yield server
        keep = request.session.testsfailed > failed_before
    finally:
        server.stop(keep=keep)
        if keep:
            _kept(request.config).directories.append(server.directory)


def _kept(config: pytest.Config) -> _Kept:
    known = config.pluginmanager.get_plugin(_PLUGIN)
    if isinstance(known, _Kept):
        return known
    new = _Kept()
    config.pluginmanager.register(new, _PLUGIN)
    return new
