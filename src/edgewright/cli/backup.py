"""`edgewright backup`: a copy of all objects, also while `edgewright up` runs on the same data directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgewright.cli import machine
from edgewright.cli.failure import Failed


def backup(
    file: Annotated[Path, typer.Argument(help="Where to put the copy.", show_default=False)],
    data: machine.Data = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Copy all objects into a file, whether `edgewright up` runs or not.

    To restore them, put the file as store.db into a new directory and name that to `edgewright up` with --data.
    """
    from edgewright.local.backup import backup as copy  # noqa: PLC0415 - other commands need no SQLite
    from edgewright.local.database import StoreError  # noqa: PLC0415

    directory = machine.data_directory(data)
    if file.exists() and not force:
        raise Failed(f"{file} is there already: name another file, or replace it with --force")
    if file.is_dir():
        raise Failed(f"{file} is a directory: name a file")
    try:
        revision = copy(directory, file)
    except StoreError as error:
        raise Failed(str(error)) from error
    print(f"{file} holds the objects of {directory} as of resourceVersion {revision}")
