"""What a release was made of, in a few letters: digests of a chart's folder and of values.

They stand as labels on the stored release. Whether something must be done is decided from them and never from rendered
text: charts with random or lookup functions render differently every time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

LENGTH: Final = 40
"""Letters of a digest; a label's value may have 63."""


def chart_digest(folder: Path) -> str:
    """Of every file in a chart's folder, by its name and its content."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            whole.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return whole.hexdigest()[:LENGTH]


def values_digest(values: Mapping[str, Any]) -> str:
    """Of values, whatever the order of their keys."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def text_digest(text: str) -> str:
    """Of any text, as the value of a label."""
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]
