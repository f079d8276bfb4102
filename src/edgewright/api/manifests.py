"""Writes the CRDs of our kinds as YAML files: `python -m edgewright.api.manifests DIRECTORY [--check]`.

`make manifests` runs it on config/crd/bases and a test runs it with --check. It touches only files that say in their
first line that they are generated; a file of ours whose kind is gone is removed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import yaml

from edgewright.api import CUSTOM_KINDS
from edgewright.api.crd import custom_resource_definitions
from edgewright.runtime.objects import RawObject
from edgewright.runtime.yaml_dumper import QuotesForKubernetes

GENERATED = "# Generated from the structs in edgewright.api; do not edit."
HEADER = f"""{GENERATED}
# After a change of a kind: make manifests (python -m edgewright.api.manifests config/crd/bases)
"""


class ReadableDumper(QuotesForKubernetes, yaml.SafeDumper):
    """Block style with indented lists, and every value written out where it is used."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        """YAML anchors save space and nobody can read them."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Lists stand further in than the key above them, as people write them."""
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


ReadableDumper.add_representer(str, _text)


def render(document: RawObject) -> str:
    """One object as YAML, in the order of its keys."""
    return yaml.dump(document, Dumper=ReadableDumper, sort_keys=False, allow_unicode=True, width=118)


def manifests() -> dict[str, str]:
    """The text of every file by its name, `<group>_<plural>.yaml`."""
    return {
        f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml": f"{HEADER}---\n{render(crd)}"
        for crd in custom_resource_definitions(CUSTOM_KINDS)
    }


def differences(directory: Path) -> list[str]:
    """A sentence for each file in `directory` that is not what the structs say."""
    wanted = manifests()
    found = []
    for name, text in wanted.items():
        path = directory / name
        if not path.exists():
            found.append(f"{path} is missing")
        elif path.read_text(encoding="utf-8") != text:
            found.append(f"{path} differs from the structs")
    found += [f"{path} belongs to no kind any more" for path in _left_over(directory, wanted.keys())]
    return found


def write(directory: Path) -> list[Path]:
    """Brings `directory` up to date and returns the paths that were written or removed."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = manifests()
    changed = []
    for name, text in wanted.items():
        path = directory / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    for path in _left_over(directory, wanted.keys()):
        path.unlink()
        changed.append(path)
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when everything is (now) as the structs say, 1 when --check found a difference."""
    parser = argparse.ArgumentParser(
        prog="python -m edgewright.api.manifests", description="Write the CRDs of our kinds."
    )
    parser.add_argument("directory", type=Path, help="where the YAML files are, in the repository config/crd/bases")
    parser.add_argument("--check", action="store_true", help="write nothing, say what differs")
    options = parser.parse_args(arguments)
    if options.check:
        found = differences(options.directory)
        for sentence in found:
            print(sentence, file=sys.stderr)
        if found:
            print("run: make manifests", file=sys.stderr)
        return 1 if found else 0
    for path in write(options.directory):
        print(path)
    return 0


def _left_over(directory: Path, wanted: Collection[str]) -> list[Path]:
    return [
        path
        for path in sorted(directory.glob("*.yaml"))
        if path.name not in wanted and path.read_text(encoding="utf-8").startswith(GENERATED)
    ]


if __name__ == "__main__":
    sys.exit(main())
