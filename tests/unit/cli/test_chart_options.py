"""The options of operator-sdk's run, and what they mean here."""

from __future__ import annotations

import pytest
import typer

from edgewright.cli.chart_options import Listening, defaults, listening, log_level

PLAIN = Listening(host="127.0.0.1", metrics_port=None, health_port=9)


@pytest.mark.parametrize(
    ("metrics", "health", "found"),
    [
        (None, None, PLAIN),
        (":8443", None, Listening(host="0.0.0.0", metrics_port=8443, health_port=9)),
        (":8443", ":8081", Listening(host="0.0.0.0", metrics_port=8443, health_port=8081)),
        ("127.0.0.2:1", "127.0.0.2:2", Listening(host="127.0.0.2", metrics_port=1, health_port=2)),
        ("[::1]:1", None, Listening(host="::1", metrics_port=1, health_port=9)),
        ("0", None, PLAIN),
    ],
)
def test_addresses_go_over_hosts_and_ports(metrics: str | None, health: str | None, found: Listening) -> None:
    assert listening(PLAIN, metrics=metrics, health=health) == found


@pytest.mark.parametrize("text", ["8080", "host:", ":port", ":0", ":70000"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not an address such as :8080"):
        listening(PLAIN, metrics=text, health=None)


def test_two_hosts_are_refused() -> None:
    with pytest.raises(typer.BadParameter, match="one host is for both"):
        listening(PLAIN, metrics="127.0.0.1:1", health="127.0.0.2:2")


def test_entries_are_read_with_what_the_command_line_says() -> None:
    found = defaults("1m", 2, hide_overrides=True)
    assert (found.period, found.workers, found.hide_overrides) == (60.0, 2, True)
    assert defaults("", None, hide_overrides=False).workers == 8
    with pytest.raises(typer.BadParameter, match="is not a duration"):
        defaults("soon", None, hide_overrides=False)
    with pytest.raises(typer.BadParameter, match="1 to 64"):
        defaults("", 0, hide_overrides=False)


@pytest.mark.parametrize(
    ("text", "devel", "level"),
    [
        (None, False, "info"),
        (None, True, "debug"),
        ("error", True, "error"),
        ("3", False, "debug"),
        ("0", False, "info"),
    ],
)
def test_levels_of_zap_are_ours(text: str | None, devel: bool, level: str) -> None:
    assert log_level(text, devel=devel) == level


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="is not debug, info, error or a number"):
        log_level("loud", devel=False)
