"""What a stream from the shared cache holds in memory: a part at a time, whatever there is to tell."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from edgewright.console.cached_stream import PART_BYTES, joined


@given(st.lists(st.integers(min_value=0, max_value=PART_BYTES // 2), max_size=20))
def test_messages_go_out_whole_in_order_and_in_parts_of_a_bounded_size(sizes: list[int]) -> None:
    messages = [bytes([number]) * size for number, size in enumerate(sizes)]
    parts = list(joined(messages))
    assert b"".join(parts) == b"".join(messages)
    assert all(0 < len(part) <= PART_BYTES + max(sizes) for part in parts)
    assert all(len(part) > PART_BYTES for part in parts[:-1])


def test_what_is_told_is_taken_only_when_there_is_room_for_it() -> None:
    taken = 0

    def messages(count: int = 1000) -> Iterator[bytes]:
        nonlocal taken
        for _ in range(count):
            taken += 1
            yield bytes(1000)

    first = next(joined(messages()))
    assert (taken * 1000, taken < 100) == (len(first), True)
