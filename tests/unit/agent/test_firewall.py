"""The table of nftables as a text, and how nft is called; that the kernel takes it is tested in tests/edge."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewright.agent import firewall
from edgewright.agent.firewall import FirewallError, Nftables, NoFirewall, chain, script
from edgewright.agent.manifest import Port


def program(folder: Path, body: str) -> str:
    path = folder / "nft"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_a_table_without_ports_accepts_what_the_others_accept() -> None:
    text = script({"quiet": ()})
    assert text.startswith("add table inet edgewright_agent\ndelete table inet edgewright_agent\n")
    assert "dport" not in text
    assert "wl-" not in text


def test_each_workload_has_a_chain_that_both_hooks_lead_to() -> None:
    text = script({"b": (Port("udp", 53), Port("tcp", 80), Port("tcp", 80)), "a.x": (Port("tcp", 1),)})
    assert text.count("tcp dport 80 ct state new,established counter accept") == 1
    assert "udp dport 53 ct state new,established counter accept" in text
    assert "meta l4proto udp ct original proto-dst 53 ct state new,established counter accept" in text
    assert text.count("jump wl-b") == text.count("jump wl-a_x") == 2
    assert text.index("chain wl-a_x") < text.index("chain wl-b") < text.index("chain input")


def test_a_name_that_is_too_long_for_a_chain_is_shortened_to_one_that_stays_its_own() -> None:
    long = ["a" * 200, "a" * 199]
    assert len({chain(each) for each in long}) == 2
    assert all(len(chain(each)) < 128 for each in long)


async def test_rules_are_set_once_and_again_where_somebody_removed_them(tmp_path: Path) -> None:
    log, script_log = tmp_path / "log", tmp_path / "script"
    nft = Nftables(
        program(tmp_path, f'echo "$@" >> {log}; cat >> {script_log}; test "$1" = -f -o ! -e {tmp_path}/gone')
    )
    await nft.open({"a": (Port("tcp", 80),)})
    await nft.open({"a": (Port("tcp", 80),)})
    assert log.read_text().splitlines() == ["-f -", "list table inet edgewright_agent"]
    (tmp_path / "gone").touch()
    await nft.open({"a": (Port("tcp", 80),)})
    assert log.read_text().splitlines()[2:] == ["list table inet edgewright_agent", "-f -"]
    await nft.clear()
    assert script_log.read_text().endswith("add table inet edgewright_agent\ndelete table inet edgewright_agent\n")


async def test_what_nft_complains_of_is_told(tmp_path: Path) -> None:
    with pytest.raises(FirewallError, match="Operation not permitted"):
        await Nftables(program(tmp_path, "echo 'Operation not permitted' >&2; exit 1")).open({})
    with pytest.raises(FirewallError, match="cannot be run"):
        await Nftables(str(tmp_path / "none")).open({})


async def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firewall, "_SECONDS", 0.1)
    with pytest.raises(FirewallError, match="did not end"):
        await Nftables(program(tmp_path, "exec sleep 60")).open({})


async def test_a_device_without_a_firewall_needs_nothing() -> None:
    await NoFirewall().open({"a": (Port("tcp", 80),)})
    await NoFirewall().clear()
