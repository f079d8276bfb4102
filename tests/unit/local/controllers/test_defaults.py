"""What every namespace has: the account and the certificate, made, made again, and put right."""

from __future__ import annotations

import functools

import msgspec
import pytest

from edgewright.local.controllers import defaults
from edgewright.local.controllers.resources import ConfigMap
from edgewright.runtime import RawObject
from tests.unit.local.controllers.miniature import (
    ACCOUNT,
    CONFIG_MAP,
    NAMESPACE,
    controlled,
    miniature,
    settled,
    until,
)

WANTED = {"ca.crt": "PEM"}


@pytest.mark.parametrize(
    ("change", "correction"),
    [
        ({}, None),
        ({"data": {"ca.crt": "other"}}, {"data": WANTED}),
        ({"data": {}}, {"data": WANTED}),
        ({"data": {**WANTED, "more": "x"}}, {"data": {"more": None, **WANTED}}),
        ({"binaryData": {"x": "eA=="}}, {"binaryData": None}),
        ({"metadata": {}}, {"metadata": {"annotations": defaults.DESCRIPTION}}),
    ],
    ids=["right", "another certificate", "empty", "more than that", "binary data", "no description"],
)
def test_a_changed_certificate_is_put_right(change: RawObject, correction: RawObject | None) -> None:
    found = msgspec.convert({**defaults.root_ca("ns", "PEM"), **change}, ConfigMap)
    assert defaults.correction(found, "PEM") == correction


async def test_both_are_made_in_every_namespace_and_come_back() -> None:
    async with miniature() as server:
        server.make(NAMESPACE, "default")
        async with controlled(server, lambda manager: defaults.add(manager, certificate=b"PEM")):
            server.make(NAMESPACE, "other")
            for namespace in ("default", "other"):
                await until(functools.partial(server.get, ACCOUNT, "default", namespace))
                await until(functools.partial(server.get, CONFIG_MAP, "kube-root-ca.crt", namespace))
            server.delete(ACCOUNT, "default")
            server.delete(CONFIG_MAP, "kube-root-ca.crt")
            await until(lambda: server.get(ACCOUNT, "default"))
            await until(lambda: server.get(CONFIG_MAP, "kube-root-ca.crt"))
            server.make(CONFIG_MAP, "kube-root-ca.crt", data={"ca.crt": "changed"})
            await until(lambda: (server.get(CONFIG_MAP, "kube-root-ca.crt") or {})["data"] == WANTED)
            await settled(server)
            writes = len(server.writes)
            server.make(NAMESPACE, "other", metadata={"labels": {"touched": "yes"}})
            await settled(server)
            assert len(server.writes) == writes


async def test_a_namespace_that_is_going_gets_nothing() -> None:
    async with miniature() as server:
        server.make(NAMESPACE, "going")
        server.delete(NAMESPACE, "going")
        async with controlled(server, lambda manager: defaults.add(manager, certificate=b"PEM")):
            server.make(NAMESPACE, "default")
            await until(lambda: server.get(CONFIG_MAP, "kube-root-ca.crt"))
            assert server.get(ACCOUNT, "default", "going") is None


async def test_what_the_server_refuses_is_tried_again_unless_the_namespace_is_going() -> None:
    async with miniature() as server:
        server.make(NAMESPACE, "default")
        server.refuse("POST", "/api/v1/namespaces/default/serviceaccounts", 403, "Forbidden")
        async with controlled(server, lambda manager: defaults.add(manager, certificate=b"PEM")):
            await until(lambda: server.get(ACCOUNT, "default"))
            server.make(NAMESPACE, "gone")
            await until(lambda: server.get(ACCOUNT, "default", "gone"))


async def test_one_that_somebody_else_made_meanwhile_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async with miniature() as server:
        server.make(NAMESPACE, "default")
        server.refuse("POST", "/api/v1/namespaces/default/serviceaccounts", 409, "AlreadyExists")
        async with controlled(server, lambda manager: defaults.add(manager, certificate=b"PEM")):
            await until(lambda: server.get(CONFIG_MAP, "kube-root-ca.crt"))
            await until(lambda: server.get(ACCOUNT, "default"))
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
