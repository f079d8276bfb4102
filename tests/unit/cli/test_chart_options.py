"""The options of operator-sdk's run, and what they mean here."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from edgewright.cli import chart_watches, command_line, run
from edgewright.cli.chart_options import Listening, defaults, listening, log_level
from edgewright.cli.go_flags import plain
from edgewright.controllers.chart.helm import Access
from edgewright.runtime import config, logs

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


def test_the_command_line_of_their_deployments_is_taken_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[str, Any] = {}

    async def operate(*_: Any, **more: Any) -> None:
        said.update(more)

    def read(watches: Any, **more: Any) -> chart_watches.Charts:
        said.update(watches=watches, defaults=more["defaults"]())
        return chart_watches.Charts(file=watches, watches=(), access=Access(), lease="older-project")

    monkeypatch.setattr(run, "operate", operate)
    monkeypatch.setattr(chart_watches, "read", read)
    monkeypatch.setattr(chart_watches, "require_library", lambda: None)
    monkeypatch.setattr(config, "load", lambda **typed: said.update(typed))
    monkeypatch.setattr(logs, "setup", lambda **chosen: said.update(chosen))
    assert _typed(
        *("--watches-file=./watches.yaml", "--reconcile-period=1m0s", "--max-concurrent-reconciles=2"),
        *("--metrics-bind-address=:8443", "--metrics-secure", "--metrics-require-rbac"),
        *("--health-probe-bind-address=:8081", "--suppress-override-values", "--enable-http2"),
        *("--leader-elect", "--leader-election-id=shop-operator", "--leader-election-namespace=shops"),
        *("--zap-devel", "--zap-encoder=json", "--zap-log-level=debug", "--zap-stacktrace-level=error"),
        "--zap-time-encoding=rfc3339",
    ) == (0, "")
    assert str(said["watches"]) == "watches.yaml"
    assert said["defaults"] == defaults("1m", 2, hide_overrides=True)
    assert said["serving"] == run.Serving(
        host="0.0.0.0", metrics_port=8443, health_port=8081, metrics_secure=True, metrics_cert_path=None
    )
    assert (said["leader_elect"], said["lease_name"], said["namespace"]) == (True, "shop-operator", "shops")
    assert said["level"] == "debug"
    assert _typed("--metrics-addr=:8080", "--enable-leader-election") == (0, "")
    assert (said["serving"].metrics_port, said["leader_elect"], said["lease_name"]) == (8080, True, "older-project")
    assert _typed("--metrics-bind-address=:8443", "--metrics-secure=true", "--leader-elect=false") == (0, "")
    assert (said["serving"].metrics_secure, said["leader_elect"]) == (True, False)


@pytest.mark.parametrize(
    ("words", "spelled"),
    [
        (["--zap-devel=true"], ["--zap-devel"]),
        (["--zap-devel=T", "--nat"], ["--zap-devel", "--nat"]),
        (["--zap-devel", "--zap-devel=0"], []),
        (["--leader-elect=false"], ["--no-leader-elect"]),
        (["--leader-elect=false", "--enable-leader-election=1"], ["--enable-leader-election"]),
        (["--lease-name=true"], ["--lease-name=true"]),
        (["--", "--zap-devel=true"], ["--", "--zap-devel=true"]),
    ],
)
def test_truth_values_are_read_as_go_reads_them(words: list[str], spelled: list[str]) -> None:
    command = typer.main.get_command(command_line("run")).commands["run"]  # type: ignore[attr-defined]
    flags = [each for each in command.params if each.is_flag]
    assert plain(words, flags) == spelled


def test_what_is_no_truth_value_is_refused_with_the_option() -> None:
    code, words = _typed("--leader-elect=yes")
    assert (code, "'yes' is neither true nor false" in words, "--leader-elect" in words) == (2, True, True)


def test_rights_to_read_metrics_need_tls() -> None:
    code, words = _typed("--metrics-require-rbac")
    assert (code, "needs --metrics-secure" in words) == (2, True)


def _typed(*arguments: str) -> tuple[int, str]:
    """How `edgewright run` with these arguments ends, and what it says."""
    done = CliRunner().invoke(command_line("run"), ["run", *arguments])
    return done.exit_code, done.output
