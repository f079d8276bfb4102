"""All controllers together, by discovery and with kinds that are given."""

from __future__ import annotations

import pytest

from edgewright.local.controllers import Companions, add_all
from edgewright.runtime import Manager
from tests.unit.local.controllers.miniature import (
    CONFIG_MAP,
    DEFINITION,
    NAMESPACE,
    NODE,
    POD,
    SERVICE,
    SLICE,
    WIDGET,
    Miniature,
    controlled,
    miniature,
    until,
)


@pytest.mark.parametrize("given", [True, False], ids=["given kinds", "discovery"])
async def test_all_controllers_work_side_by_side(given: bool) -> None:
    async with miniature() as server:

        def add(manager: Manager) -> Companions:
            return add_all(manager, root_ca=b"PEM", kinds=(lambda: server.kinds) if given else None)

        server.make(NAMESPACE, "default")
        async with controlled(server, add) as companions:
            server.kinds.append(WIDGET)
            server.make(DEFINITION, "widgets.example.dev")
            if given:
                companions.kinds.changed()
            server.make(NODE, "node", status={"conditions": [{"type": "Ready", "status": "True"}]})
            server.make(POD, "pod", spec={"schedulerName": "default-scheduler"})
            server.make(SERVICE, "web", spec={"selector": {"app": "web"}})
            await until(lambda: (server.get(POD, "pod") or {})["spec"].get("nodeName") == "node")
            await until(lambda: server.all(SLICE))
            await until(lambda: server.get(CONFIG_MAP, "kube-root-ca.crt"))
            await until(lambda: companions.garbage.synced and companions.kinds.find("example.dev/v1", "Widget"))
            server.delete(SERVICE, "web")
            await until(lambda: not server.all(SLICE))
            server.make(WIDGET, "w")
            server.delete(NAMESPACE, "default")
            await until(lambda: server.get(NAMESPACE, "default") is None)
            assert _content(server) == []


def _content(server: Miniature) -> list[str]:
    return [key.name for kind in server.kinds if kind.namespaced for key in server.all(kind)]


async def test_scheduling_can_be_left_to_others() -> None:
    async with miniature() as server:
        server.make(NODE, "node", status={"conditions": [{"type": "Ready", "status": "True"}]})
        server.make(POD, "pod", spec={"schedulerName": "default-scheduler"})
        server.make(NAMESPACE, "default")
        async with controlled(server, lambda manager: add_all(manager, root_ca=b"PEM", schedule=False)):
            await until(lambda: server.get(CONFIG_MAP, "kube-root-ca.crt"))
            assert "nodeName" not in (server.get(POD, "pod") or {})["spec"]
