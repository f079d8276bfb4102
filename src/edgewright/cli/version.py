"""`edgewright version`: what is installed here."""

from __future__ import annotations

import json
import platform

from edgewright import __version__
from edgewright.cli.options import Format, Output
from edgewright.runtime.yaml_dumper import dump


def show(output: Output = Format.TEXT) -> None:
    """Print the version of Edgewright and of the Python that runs it."""
    versions = {"edgewright": __version__, "python": platform.python_version()}
    match output:
        case Format.JSON:
            print(json.dumps(versions, indent=2))
        case Format.YAML:
            print(dump(versions), end="")
        case Format.TEXT:
            print("\n".join(f"{name} {number}" for name, number in versions.items()))
