"""docs/edge-http-api.md says what the messages and the gateway are."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from edgewright.api import edge_protocol
from edgewright.gateway.identity import Caller, Operation, refusal

PAGE = (Path(__file__).parents[3] / "docs" / "edge-http-api.md").read_text()
BLOCKS = re.findall(r"<!-- (\w+) -->\n```json\n(.*?)\n```", PAGE, flags=re.DOTALL)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_page_shows_every_message() -> None:
    assert {name for name, _ in BLOCKS} >= {
        "Message",
        "EnrolmentInfo",
        "RegistrationInfo",
        "MessageResponse",
        "Heartbeat",
        "DeviceConfigurationMessage",
        "CommandContent",
        "AccessReport",
        "Problem",
    }


@pytest.mark.parametrize(("name", "text"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_a_message_on_the_page_is_what_the_struct_reads_and_writes(name: str, text: str) -> None:
    decoded = msgspec.json.decode(text, type=getattr(edge_protocol, name))
    assert json.loads(msgspec.json.encode(decoded)) == json.loads(text)


def test_the_table_of_certificates_is_what_the_gateway_does() -> None:
    def caller(name: str, days: float) -> Caller:
        last = NOW + timedelta(days=days)
        return Caller(name=name, namespace="", key="k", not_before=NOW - timedelta(days=9), not_after=last)

    columns = [caller("register", 1), caller("one", 1), caller("one", -1), caller("two", 1)]
    rows = dict(re.findall(r"^\| ([a-z ]+) \| ((?:yes|\d+).*?) \|$", PAGE, flags=re.MULTILINE))
    assert rows.keys() == {each.value for each in Operation if each is not Operation.OTHER}
    for name, cells in rows.items():
        codes = [refusal(each, "one", Operation(name), NOW) for each in columns]
        assert cells.split(" | ") == ["yes" if code is None else str(code) for code in codes], name
