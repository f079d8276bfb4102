"""What every suite shares: async tests are run by asyncio, and Hypothesis is small unless `make soak` asks for more.

A shell starts what it runs in the background with SIGINT ignored, nohup does so with SIGHUP, and whatever that starts
inherits it. Here signals are as at a terminal, so that tests and the programs that they start can be interrupted.

What goes the same ways very often, a property or a test marked `untraced`, is not traced for coverage: it would take
twice the time, and how much of the code is covered must not depend on what Hypothesis thinks of.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import threading
from collections.abc import Generator

import hypothesis
import pytest

hypothesis.settings.register_profile("test", max_examples=50, deadline=None, derandomize=True)
hypothesis.settings.register_profile("soak", max_examples=5000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker of our own known, and has signals as somebody at a terminal has them."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    config.addinivalue_line("markers", "untraced: goes the same ways very often, and must not count for the coverage")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Lets tests that repeat themselves run at full speed."""
    if not item.get_closest_marker("untraced") and not item.get_closest_marker("hypothesis"):
        return (yield)
    traced, traced_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        return (yield)
    finally:
        threading.settrace(traced_threads)
        sys.settrace(traced)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs `async def` tests, each in an event loop of its own; a test that hangs is ended and says where it stood."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def bounded() -> None:
        async with asyncio.timeout(float(os.environ.get("TEST_TIMEOUT", "600"))):
            await pyfuncitem.obj(**arguments)

    asyncio.run(bounded())
    return True
