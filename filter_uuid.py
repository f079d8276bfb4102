#!/usr/bin/env python3
"""Choose the devices that Akri has discovered, and flash them batch by batch: `python3 filter_uuid.py`.

Any Python 3 will do: it goes on in the project's own environment, which `make venv` makes. The six functions that old
instructions name can be imported from here.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_PYTHON = os.path.join(_HERE, ".venv", "bin", "python")

try:
    from edgewright.cli.filter_uuid import (
        apply_yaml,
        filter_instances,
        get_akri_instances,
        gradual_rollout,
        main,
        save_uuids_to_yaml,
        user_select_instances,
    )
except (ImportError, SyntaxError):  # another Python than the project's, perhaps an old one
    if __name__ != "__main__":
        raise
    if os.path.exists(_PYTHON) and not os.environ.get("EDGEWRIGHT_IN_VENV"):
        os.environ["EDGEWRIGHT_IN_VENV"] = "yes"  # and not again, should that one have no edgewright either
        os.execv(_PYTHON, [_PYTHON, *sys.argv])
    sys.exit("filter_uuid.py: the environment of this project is not set up: run `make venv` in %s first" % _HERE)

__all__ = [
    "apply_yaml",
    "filter_instances",
    "get_akri_instances",
    "gradual_rollout",
    "save_uuids_to_yaml",
    "user_select_instances",
]

if __name__ == "__main__":
    main()
