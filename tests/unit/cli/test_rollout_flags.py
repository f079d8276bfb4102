"""What is typed behind `rollout create`, and what it is read as."""

from __future__ import annotations

import pytest
import typer

from edgewright.api.label_selector import LabelSelector, LabelSelectorRequirement
from edgewright.cli import rollout_flags as flags


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("2d", 172_800)]
)
def test_a_duration_is_so_many_seconds(text: str, seconds: int) -> None:
    assert flags.seconds(text, "--soak") == seconds


@pytest.mark.parametrize("text", ["", "m", "5 m", "-1", "1w", "²"])
def test_what_is_no_duration_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        flags.seconds(text, "--soak")
    assert refused.value.param_hint == "--soak"


@pytest.mark.parametrize(("text", "share"), [("3", 3), ("10%", "10%"), ("100%", "100%")])
def test_a_share_is_a_count_or_per_cent(text: str, share: int | str) -> None:
    assert flags.share(text, "--canary") == share


@pytest.mark.parametrize("text", ["", "%", "101%", "1.5", "-1"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        flags.share(text, "--canary")


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("0 22 * * *,4h", ("0 22 * * *", 14_400, "")),
        ("0 22 * * *,4h,Europe/Athens", ("0 22 * * *", 14_400, "Europe/Athens")),
        ("0 22 * * 1,3,5,90m,UTC", ("0 22 * * 1,3,5", 5400, "UTC")),
        ("0 1,2 * * *,1h", ("0 1,2 * * *", 3600, "")),
    ],
)
def test_a_window_may_have_commas_in_its_cron_expression(text: str, window: tuple[str, int, str]) -> None:
    read = flags.window(text)
    assert (read.cron, read.duration_seconds, read.time_zone) == window


@pytest.mark.parametrize("text", ["", "0 22 * * *", "0 22 * *,4h", "4h"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="Europe/Athens"):
        flags.window(text)


def test_a_stop_rule_has_a_threshold_an_action_and_perhaps_more() -> None:
    rule = flags.stop("3,recall,reverted,regressed,min=10")
    assert (rule.threshold, rule.action, rule.outcomes, rule.min_sample) == (
        3,
        "recall",
        ("reverted", "regressed"),
        10,
    )
    for wrong in ("20%", "pause", "20%,stop", "1,2,pause"):
        with pytest.raises(typer.BadParameter):
            flags.stop(wrong)


def test_a_batch_has_a_size_and_perhaps_a_soak_time_a_share_and_a_person() -> None:
    batch = flags.batch("wide=50%,30m,ok=95%,manual")
    assert (batch.name, batch.size, batch.soak_seconds) == ("wide", "50%", 1800)
    assert (batch.gate.success_percent, batch.gate.approval) == (95, "manual")
    assert flags.batch("all=3").gate.approval is None
    for wrong in ("canary", "=3", "a=b", "a=1,later"):
        with pytest.raises(typer.BadParameter):
            flags.batch(wrong)


def test_firmware_per_type_names_all_three() -> None:
    read = flags.firmware_for("esp32s3=registry.example/a:1=1.0")
    assert (read.type, read.firmware, read.version) == ("esp32s3", "registry.example/a:1", "1.0")
    with pytest.raises(typer.BadParameter):
        flags.firmware_for("esp32s3=registry.example/a:1")


def need(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("text", "equal", "more"),
    [
        ("site=a", {"site": "a"}, ()),
        ("site==a, zone = b", {"site": "a", "zone": "b"}, ()),
        ("site!=a", {}, (need("site", "NotIn", "a"),)),
        ("site in (a, b)", {}, (need("site", "In", "a", "b"),)),
        ("zone notin (x),site=a", {"site": "a"}, (need("zone", "NotIn", "x"),)),
        ("site,!old", {}, (need("site", "Exists"), need("old", "DoesNotExist"))),
        ("a.b/c=d", {"a.b/c": "d"}, ()),
    ],
)
def test_labels_are_selected_as_kubectl_selects_them(
    text: str, equal: dict[str, str], more: tuple[LabelSelectorRequirement, ...]
) -> None:
    assert flags.labels(text) == LabelSelector(match_labels=equal, match_expressions=more)


def test_no_labels_select_nothing_in_particular_and_wrong_ones_are_refused() -> None:
    assert flags.labels(" ") is None
    for wrong in ("site=a b=c", "(", "=a", "site in a"):
        with pytest.raises(typer.BadParameter):
            flags.labels(wrong)


@pytest.mark.parametrize(
    ("firmware", "version", "name"),
    [
        ("registry.example/team/thermo:1.4.0", "1.4.0", "thermo-1-4-0"),
        ("registry.example/A@sha256:0", "V 1", "a-v-1"),
        ("", "", "rollout"),
    ],
)
def test_a_rollout_that_nobody_named_is_called_by_what_it_brings(firmware: str, version: str, name: str) -> None:
    assert flags.name_from(firmware, version) == name


def test_what_is_given_several_times_is_there_once() -> None:
    assert flags.many(["a,b", "b", " c "]) == ("a", "b", "c")
    assert flags.many(None) == ()
