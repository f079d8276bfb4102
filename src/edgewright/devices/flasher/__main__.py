"""Starts the flasher in a flash Pod; it hears signals before anything large is imported, and does nothing else."""

from __future__ import annotations

import os
import sys

from edgewright.devices.flasher.stop_signals import Stop

if __name__ == "__main__":
    stop = Stop()
    stop.hear_signals()
    from edgewright.devices.flasher.program import main

    code = main(os.environ, stop)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: it would wait for what hangs, such as a name server that does not answer a thread of ours.
    os._exit(code)
