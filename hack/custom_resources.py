"""Says which custom resources of ours a cluster still has: `kustomize build … | custom_resources.py KUBECTL`.

`make undeploy` and `make uninstall` ask before they delete the definitions, because their objects would go with them;
`make install` waits with it. It reads the rendered manifests from standard input and needs any Python 3.11 and kubectl.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

_DEFINITION: Final = re.compile(r"^kind: CustomResourceDefinition$", re.MULTILINE)
_PATIENCE: Final = 60
# Nobody made these: gateways write them, and what a gateway leaves is worth nothing to anybody.
_OF_THEMSELVES: Final = frozenset({"edgeheartbeatshards.edgewright.dev"})
_NAME: Final = re.compile(r"^  name: (\S+)$", re.MULTILINE)


def definitions(rendered: str) -> list[str]:
    """The names of the definitions in rendered manifests."""
    found = []
    for document in re.split(r"^---$", rendered, flags=re.MULTILINE):
        name = _NAME.search(document)
        if _DEFINITION.search(document) and name is not None:
            found.append(name[1])
    return found


def ask(kubectl: str, *arguments: str) -> str:
    """What kubectl says; ends the program with its sentence where it fails."""
    done = subprocess.run([kubectl, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"make: kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def columns(kubectl: str, names: Sequence[str], path: str, *options: str) -> dict[str, str]:
    """What the definitions of these names have at a path, asked for at once: each start of kubectl takes its time."""
    shown = f"custom-columns=NAME:.metadata.name,FIELD:{path}"
    rows = ask(kubectl, "get", "customresourcedefinitions", *names, *options, "--no-headers", "-o", shown)
    return dict(row.split() for row in rows.splitlines())


def counts(kubectl: str, names: Sequence[str]) -> dict[str, int]:
    """How many objects there are of the kinds that have some, in the order of the names."""
    singular = columns(kubectl, names, ".spec.names.singular", "--ignore-not-found")
    if not singular:
        return {}
    listed = ask(kubectl, "get", ",".join(singular), "--all-namespaces", "-o", "name").split()
    found = Counter(each.partition("/")[0] for each in listed)
    kinds = {name: f"{singular[name]}.{name.partition('.')[2]}" for name in names if name in singular}
    return {name: found[kind] for name, kind in kinds.items() if found[kind]}


def served(kubectl: str, names: Sequence[str]) -> bool:
    """Whether kinds are served, within the time that a server may take for it; kubectl wait fails on a new one."""
    ends = time.monotonic() + _PATIENCE
    path = ".status.conditions[?(@.type=='Established')].status"
    while waiting := [name for name, status in columns(kubectl, names, path).items() if status != "True"]:
        if time.monotonic() > ends:
            print(f"make: {', '.join(waiting)}: not served after {_PATIENCE} s", file=sys.stderr)
            return False
        time.sleep(0.2)
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: a sentence on standard error and 1 where objects are left; or it deletes them, or waits."""
    parser = argparse.ArgumentParser(description="Say which custom resources of ours a cluster still has.")
    parser.add_argument("kubectl")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--delete", action="store_true", help="delete them, and wait until they are gone")
    mode.add_argument("--served", action="store_true", help="wait until the kinds are served")
    options = parser.parse_args(arguments)
    names = definitions(sys.stdin.read())
    if options.served:
        return 0 if served(options.kubectl, names) else 1
    # Devices last: the jobs that flash them are ended by the operator, which writes it on them.
    names.sort(key=lambda name: name.startswith("devices."))
    left = counts(options.kubectl, names)
    if options.delete:
        for name in left:
            ask(options.kubectl, "delete", name, "--all", "--all-namespaces", f"--timeout={_PATIENCE}s")
        return 0
    left = {name: found for name, found in left.items() if name not in _OF_THEMSELVES}
    if not left:
        return 0
    told = ", ".join(f"{found} {name}" for name, found in left.items())
    print(
        f"make: custom resources would go with their definitions: {told}; delete them first (kubectl delete "
        f"{','.join(left)} --all --all-namespaces), or go on anyway with FORCE=yes, which deletes them too",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
