"""`edgewright` without the controllers that write what somebody else has made: `python undisturbed_program.py up ...`.

Those that make what a new namespace needs, and the garbage collector, are there.
"""

from __future__ import annotations

from unittest import mock

from edgewright import cli
from edgewright.local.controllers import claims, orphans, scheduler, workloads

if __name__ == "__main__":
    for each in (claims, orphans, scheduler):
        mock.patch.object(each, "add").start()
    mock.patch.object(workloads, "add", return_value=[]).start()
    cli.main()
