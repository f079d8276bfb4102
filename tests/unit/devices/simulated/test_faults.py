"""How faults are typed, which devices have them, and what is said of those that are typed wrongly."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.devices.simulated.faults import BadFault, Fault, FaultKind, chosen, parse_fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("refuse-attestation=3", Fault(kind=FaultKind.REFUSE_ATTESTATION, numbers=frozenset({3}))),
        ("corrupt = 1, 4", Fault(kind=FaultKind.CORRUPT, numbers=frozenset({1, 4}))),
        ("drop-transfer=2", Fault(kind=FaultKind.DROP_TRANSFER, amount="50", numbers=frozenset({2}))),
        ("drop-transfer:0=2", Fault(kind=FaultKind.DROP_TRANSFER, amount="0", numbers=frozenset({2}))),
        ("drop-transfer:once=2", Fault(kind=FaultKind.DROP_TRANSFER, amount="50", once=True, numbers=frozenset({2}))),
        ("slow:4096:once=10%", Fault(kind=FaultKind.SLOW, amount="4096", once=True, share=0.1)),
        ("vanish=0.5%", Fault(kind=FaultKind.VANISH, share=0.005)),
        ("vanish:before=1", Fault(kind=FaultKind.VANISH, amount="before", numbers=frozenset({1}))),
        ("wrong-version:9.9=1", Fault(kind=FaultKind.WRONG_VERSION, amount="9.9", numbers=frozenset({1}))),
        ("boot-loop:2=1", Fault(kind=FaultKind.BOOT_LOOP, amount="2", numbers=frozenset({1}))),
        ("change-application=1", Fault(kind=FaultKind.CHANGE_APPLICATION, amount="another", numbers=frozenset({1}))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_was_typed_is_read(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault
    assert parse_fault(str(fault)) == fault


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("corrupt", "does not say which devices: KIND"),
        ("explode=1", "'explode' is no fault that is known; known: refuse-attestation, "),
        ("corrupt:3=1", "corrupt takes no amount, and got '3'"),
        ("slow:1:2=1", "too many colons"),
        ("slow:0=1", "'0' is not a number of bytes a second"),
        ("slow:fast=1", "'fast' is not a number of bytes a second"),
        ("drop-transfer:100=1", "'100' is not per cent, from 0 to 99"),
        ("drop-transfer:=1", "'' is not per cent"),
        ("vanish:later=1", "'later' is not 'before'"),
        ("boot-loop:x=1", "'x' is not a number of seconds"),
        ("wrong-version:=1", "the amount after the colon is missing"),
        ("corrupt=", "neither device numbers"),
        ("corrupt=0", "neither device numbers"),
        ("corrupt=1,,2", "neither device numbers"),
        ("corrupt=ten%", "neither device numbers"),
        ("corrupt=0%", "a share is above 0% and not above 100%"),
        ("corrupt=101%", "a share is above 0% and not above 100%"),
    ],
    ids=lambda value: value,
)
def test_a_mistake_is_named_in_a_sentence(text: str, why: str) -> None:
    with pytest.raises(BadFault, match=why):
        parse_fault(text)


@given(text=st.text(max_size=40))
def test_whatever_is_typed_is_a_fault_or_a_sentence(text: str) -> None:
    with contextlib.suppress(BadFault):
        fault = parse_fault(text)
        assert parse_fault(str(fault)) == fault


def test_faults_by_number_are_those_devices_faults() -> None:
    one, other = parse_fault("corrupt=1,3"), parse_fault("slow=3")
    assert chosen([one, other], count=3, seed=0) == {1: (one,), 3: (one, other)}


@given(count=st.integers(1, 300), share=st.integers(1, 100), seed=st.integers(0, 5))
def test_a_share_is_that_many_devices_and_the_seed_says_which(count: int, share: int, seed: int) -> None:
    fault = parse_fault(f"corrupt={share}%")
    found = chosen([fault], count=count, seed=seed)
    assert len(found) == min(count, max(1, round(count * share / 100)))
    assert set(found) <= set(range(1, count + 1))
    assert chosen([fault], count=count, seed=seed) == found


def test_another_seed_chooses_others() -> None:
    assert len({frozenset(chosen([parse_fault("corrupt=10%")], count=100, seed=seed)) for seed in range(5)}) > 1


def test_a_fault_of_a_device_that_there_is_not_is_refused() -> None:
    with pytest.raises(BadFault, match="there is no device 4 in a fleet of 3"):
        chosen([parse_fault("corrupt=2,4,9")], count=3, seed=0)


@pytest.mark.parametrize(
    "others", [("corrupt=2",), ("corrupt:once=2,3",), ("corrupt=100%",)], ids=["number", "numbers", "share"]
)
def test_two_faults_of_one_kind_on_one_device_are_refused(others: tuple[str, ...]) -> None:
    faults = [parse_fault(text) for text in ("slow=2", "corrupt=1,2", *others)]
    with pytest.raises(BadFault, match=r"^corrupt.*: device [12] has corrupt=1,2 already, and one fault of a kind"):
        chosen(faults, count=3, seed=0)


@pytest.mark.parametrize("kind", FaultKind)
def test_what_a_fault_takes_without_an_amount_could_be_typed(kind: FaultKind) -> None:
    bare = parse_fault(f"{kind}=1")
    assert bare.amount == kind.default
    if kind.default:
        assert parse_fault(f"{kind}:{kind.default}=1") == bare
