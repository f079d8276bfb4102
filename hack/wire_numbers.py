"""Writes the protobuf field numbers of built-in kinds: `python hack/wire_numbers.py [--check]`.

Clients made with client-go send built-in kinds as protobuf. The numbers stand in the tags of the Go types, in the Go
module cache; with the types in fields.json they are all that is needed to read such a body.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hack.builtin_fields import PACKAGES, TARGET, directories, rendered, structs_of  # noqa: E402

FILE = TARGET.parent / "builtin" / "wire.json"
_FIELD = re.compile(r"^\t(?:\w+\s+)?(\S+)\s+`json:\"([^\"]*)\"[^`]*protobuf:\"\w+,(\d+),", re.MULTILINE)


def numbers(structs: Mapping[str, str], kind: str) -> dict[str, Any]:
    """The JSON names of a Go struct's fields by their protobuf numbers; an inlined struct has its own numbers."""
    found: dict[str, Any] = {}
    for form, tag, number in _FIELD.findall(structs.get(kind, "")):
        name, *tags = tag.split(",")
        if "inline" in tags or (not name and "." not in form):
            found[number] = numbers(structs, form)
        elif name not in ("", "-"):
            found[number] = name
    return found


def table() -> dict[str, Any]:
    """The numbers of every definition that has any."""
    definitions = json.loads((TARGET / "fields.json").read_text(encoding="utf-8"))
    where = directories(PACKAGES.values())
    found = {}
    for name in definitions:
        root = next((root for root in PACKAGES if name.startswith(root)), None)
        if root is None:
            continue
        package, _, kind = name.removeprefix(root).rpartition(".")
        found[name] = numbers(structs_of(where[PACKAGES[root]] / package.replace(".", "/")), kind)
    return {name: table for name, table in found.items() if table}


def main() -> int:
    """Writes the file, or says that it is not as it would be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, and fail where the file would change")
    text = rendered(table())
    if not parser.parse_args().check:
        FILE.write_text(text, encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != text:
        print(f"{FILE.relative_to(ROOT)} differs: run `python hack/wire_numbers.py`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
