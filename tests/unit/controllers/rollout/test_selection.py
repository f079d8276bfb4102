"""Which devices a selector means, and how amounts are read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewright.api.device import DeviceStatus
from edgewright.api.firmwarerollout import DeviceSelector
from edgewright.controllers.rollout.selection import choice_of, is_empty, selects
from edgewright.controllers.staging.amounts import Amount, BadAmount, parse_amount
from tests.unit.controllers.rollout.rollout_world import device_of, replace, spec_of

DEVICE = replace(
    device_of("kitchen", labels={"site": "athens", "ring": "1"}, type="ESP32S3"),
    status=DeviceStatus(version="1.2.0", application="Thermo", instances=("old", "new")),
)


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ({}, True),
        ({"types": ["esp32s3"]}, True),
        ({"types": ["esp32"]}, False),
        ({"applications": ["thermo", "lamp"]}, True),
        ({"applications": ["lamp"]}, False),
        ({"versions": ["1.2.0"]}, True),
        ({"versions": ["1.2"]}, False),
        ({"names": ["kitchen"]}, True),
        ({"names": ["bath"]}, False),
        ({"uuids": ["old"]}, True),
        ({"uuids": ["uid-kitchen"]}, True),
        ({"uuids": ["kitchen"]}, False),
        ({"types": ["esp32s3"], "versions": ["9"]}, False),
        ({"labels": {"matchLabels": {"site": "athens", "ring": "1"}}}, True),
        ({"labels": {"matchLabels": {"site": "athens", "ring": "2"}}}, False),
        ({"labels": {"matchExpressions": [{"key": "site", "operator": "In", "values": ["x", "athens"]}]}}, True),
        ({"labels": {"matchExpressions": [{"key": "none", "operator": "In", "values": ["x"]}]}}, False),
        ({"labels": {"matchExpressions": [{"key": "site", "operator": "NotIn", "values": ["athens"]}]}}, False),
        ({"labels": {"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["x"]}]}}, True),
        ({"labels": {"matchExpressions": [{"key": "site", "operator": "Exists"}]}}, True),
        ({"labels": {"matchExpressions": [{"key": "site", "operator": "DoesNotExist"}]}}, False),
        ({"labels": {"matchExpressions": [{"key": "site", "operator": "Near"}]}}, False),
    ],
)
def test_a_selector_means(selector: dict[str, Any], meant: bool) -> None:
    assert selects(msgspec.convert(selector, DeviceSelector))(DEVICE) is meant


def test_an_exclusion_takes_away() -> None:
    assert choice_of(spec_of())(DEVICE)
    assert not choice_of(spec_of(exclude={"names": ["kitchen"]}))(DEVICE)
    assert is_empty(DeviceSelector())
    assert not is_empty(DeviceSelector(types=("a",)))


@pytest.mark.parametrize(
    ("text", "amount", "of_seven"),
    [(3, Amount(3), 3), ("3", Amount(3), 3), ("10%", Amount(10, share=True), 1), ("100%", Amount(100, share=True), 7)],
)
def test_an_amount_is_a_count_or_a_share_rounded_up(text: int | str, amount: Amount, of_seven: int) -> None:
    assert parse_amount(text) == amount
    assert amount.of(7) == of_seven
    assert parse_amount(str(amount)) == amount


@pytest.mark.parametrize("text", [0, -1, "", "0", "0%", "101%", "1.5%", "10 %", "10%x", "ten", "1e3", "٣"])
def test_what_is_no_amount_is_refused(text: int | str) -> None:
    with pytest.raises(BadAmount):
        parse_amount(text)
