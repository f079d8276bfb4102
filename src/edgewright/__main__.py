"""`python -m edgewright`: the command line, for places that have our package and no script, such as the image.

There `flasher` as the only word is what a flash Pod runs: not a command for people, and started without the command
line, so that it hears signals before anything large is imported.
"""

import runpy
import sys

if __name__ == "__main__":
    if sys.argv[1:] == ["flasher"]:
        runpy.run_module("edgewright.devices.flasher", run_name="__main__", alter_sys=True)
    from edgewright.cli import main

    main()
