"""What every suite shares: async tests are run by asyncio, and Hypothesis is small unless `make soak` asks for more."""

from __future__ import annotations

import asyncio
import inspect
import os

import hypothesis
import pytest

hypothesis.settings.register_profile("test", max_examples=50, deadline=None, derandomize=True)
hypothesis.settings.register_profile("soak", max_examples=5000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs `async def` tests, each in an event loop of its own; a test that hangs is ended and says where it stood."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def bounded() -> None:
        async with asyncio.timeout(float(os.environ.get("TEST_TIMEOUT", "300"))):
            await pyfuncitem.obj(**arguments)

    asyncio.run(bounded())
    return True
