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
from collections.abc import Sequence
from typing import Final

_DEFINITION: Final = re.compile(r"^kind: CustomResourceDefinition$", re.MULTILINE)
_PATIENCE: Final = 60
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


def count(kubectl: str, definition: str) -> int:
    """How many objects of a kind there are; none where the kind is not installed."""
    if not ask(kubectl, "get", "customresourcedefinition", definition, "--ignore-not-found", "-o", "name"):
        return 0
    return len(ask(kubectl, "get", definition, "--all-namespaces", "-o", "name").split())


def served(kubectl: str, definition: str) -> bool:
    """Whether a kind is served, within the time that a server may take for it; kubectl wait fails on a new one."""
    ends = time.monotonic() + _PATIENCE
    path = "jsonpath={.status.conditions[?(@.type=='Established')].status}"
    while ask(kubectl, "get", "customresourcedefinition", definition, "-o", path) != "True":
        if time.monotonic() > ends:
            print(f"make: {definition} is not served after {_PATIENCE} s", file=sys.stderr)
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
        return 0 if all(served(options.kubectl, name) for name in names) else 1
    # Devices last: the jobs that flash them are ended by the operator, which writes it on them.
    names.sort(key=lambda name: name.startswith("devices."))
    left = {name: found for name in names if (found := count(options.kubectl, name))}
    if options.delete:
        for name in left:
            ask(options.kubectl, "delete", name, "--all", "--all-namespaces", f"--timeout={_PATIENCE}s")
        return 0
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
