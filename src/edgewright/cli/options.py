"""The options that commands share, worded once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Kubeconfig: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        help="The kubeconfig file; default: $KUBECONFIG, the Pod's own service account, ~/.kube/config.",
        show_default=False,
    ),
]
Context: TypeAlias = Annotated[
    str | None, typer.Option("--context", help="The context in it; default: its current one.", show_default=False)
]


class Format(StrEnum):
    """How a command prints what it found."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


Output: TypeAlias = Annotated[Format, typer.Option("--output", "-o", help="For people, or for programs.")]
