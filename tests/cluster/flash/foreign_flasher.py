"""A flasher that is not ours, for tests: `python foreign_flasher.py`, with the published environment and nothing else.

Like some that are published it only sends the device to a server that has the firmware, and does not look what becomes
of it; and it ends with an exit code that says nothing.
"""

from __future__ import annotations

import os
import sys
import urllib.request

WORTHLESS = 7
"""What it ends with, though all went well."""


def main() -> int:
    """Tells the device where its firmware is."""
    order = f"ip: {os.environ['EXTERNAL_IP']}".encode()
    url = f"http://{os.environ['HOST_ENDPOINT']}/update"
    request = urllib.request.Request(url, data=order, headers={"Content-Type": "text/plain"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        print("the device answered", answer.status)
    return WORTHLESS


if __name__ == "__main__":
    sys.exit(main())
