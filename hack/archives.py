"""Archives unpacked with the care that is asked for, on every Python that we run on.

The argument `filter` of `extractall` came with Python 3.11.4; Debian 12 has 3.11.2.
"""

from __future__ import annotations

import tarfile
from typing import Literal


def guarded(archive: tarfile.TarFile, rule: Literal["data", "fully_trusted"] = "data") -> tarfile.TarFile:
    """The archive, whose members are unpacked by a rule of `tarfile`, where this Python has it."""
    archive.extraction_filter = getattr(tarfile, f"{rule}_filter", lambda member, _: member)
    return archive
