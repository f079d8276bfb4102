"""Questions on a terminal or through a pipe, and how their answers are read: a bad one is asked again.

`rollout_questions` asks with it. It keeps nothing and decides nothing: a reader gives a value, or says what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from edgewright.api.reference import parse_reference
from edgewright.cli.failure import Failed

T = TypeVar("T")


def ask(question: str, read: Callable[[str], T]) -> T:
    """What a person answers, asked again until it can be read; also from a pipe."""
    while True:
        print(question, end="", flush=True)  # input() would put it on standard error, on some terminals
        line = sys.stdin.readline()
        if not line:
            print()
            raise Failed(f"the input ended before this was answered: {question.strip()}")
        answer = line.strip()
        try:
            return read(answer)
        except ValueError as error:
            print(f"{error}, please answer again")


def yes_or_no(answer: str) -> bool:
    """Whether it is a yes."""
    if answer.lower() in {"y", "yes"}:
        return True
    if answer.lower() in {"n", "no"}:
        return False
    raise ValueError(f"{answer!r} is neither y nor n")


def numbers_in(answer: str, count: int) -> list[int]:
    """Different numbers of a list with that many entries."""
    numbers: list[int] = []
    for part in (part.strip() for part in answer.split(",")):
        if not (part.isascii() and part.isdigit()) or int(part) >= count:
            raise ValueError(f"{part!r} is not a number from 0 to {count - 1}")
        numbers.append(int(part))
    return list(dict.fromkeys(numbers))


def number_from(least: int, most: int, default: int) -> Callable[[str], int]:
    """Reads a whole number; an empty answer is the default."""

    def read(answer: str) -> int:
        if not answer:
            return default
        if not (answer.isascii() and answer.isdigit()) or not least <= int(answer) <= most:
            raise ValueError(f"{answer!r} is not a whole number from {least} to {most}")
        return int(answer)

    return read


def image_in(answer: str) -> str:
    """An image with its registry's host."""
    parse_reference(answer)  # its error is a ValueError that says what is right
    return answer


def something(answer: str) -> str:
    """Any answer but none."""
    if not answer:
        raise ValueError("the answer is empty")
    return answer
