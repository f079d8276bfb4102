"""The operator as a whole: which kinds it must find installed."""

from __future__ import annotations

from pathlib import Path

from edgewright.api.capabilities import FLASHJOB, ROLLOUT, kinds_of
from edgewright.controllers.notifications.webhook import Webhook
from edgewright.controllers.operator import add_controllers
from edgewright.controllers.settings import Settings
from edgewright.runtime import Client, Manager
from edgewright.runtime.config import Config


async def test_a_capability_waits_for_its_own_kinds_and_for_no_others() -> None:
    manager = Manager(Client(Config(server="http://127.0.0.1:1")))
    add_controllers(manager, Settings(), capabilities=[FLASHJOB])
    demanded = {kind for (kind, _, _), cache in manager._caches.items() if not cache._reflectors[0]._optional}
    ours = {kind for kind in demanded if "." in kind.kind.group}
    assert ours == set(kinds_of([FLASHJOB]))


async def test_a_webhook_adds_a_loop_of_its_own_and_nothing_else_does(tmp_path: Path) -> None:
    for webhook in (None, Webhook(url="https://hooks.example/", secret_file=tmp_path / "secret")):
        manager = Manager(Client(Config(server="http://127.0.0.1:1")))
        add_controllers(manager, Settings(webhook=webhook), capabilities=[ROLLOUT])
        names = [each.name for each in manager._controllers]
        assert names == (["rollout"] if webhook is None else ["rollout", "notification"])
