"""Types of devices as people, devices and images write them, and whether two of them are the same.

The flasher and the controllers compare by it, so that both mean the same by a type. Pure.
"""

from __future__ import annotations


def same_type(one: str, other: str) -> bool:
    """Whether two types of device are the same, as people and devices write them: esp32s3 is ESP32-S3."""
    return _plain(one) == _plain(other)


def _plain(type_: str) -> str:
    return "".join(letter for letter in type_.casefold() if letter.isalnum())
