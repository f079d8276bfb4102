"""What `python3 filter_uuid.py` does: the dialogue of `rollout create`, also with answers from a pipe.

The script at the root of the project calls `main`, and re-exports the six functions that its readers know. It flashes
nothing itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from edgewright.api.flashjob import FlashJob
from edgewright.cli import guard, rollout_dialogue, rollout_questions
from edgewright.cli.cluster import Context, Kubeconfig, Place, place
from edgewright.cli.operator_options import PlainRegistries
from edgewright.cli.rollout_questions import (
    FILE,
    Choice,
    Job,
    filter_instances,
    get_akri_instances,
    save_uuids_to_yaml,
    tag_version,
    user_select_instances,
)
from edgewright.runtime import Client, config
from edgewright.runtime.yaml_loader import load

__all__ = [
    "apply_yaml",
    "filter_instances",
    "get_akri_instances",
    "gradual_rollout",
    "main",
    "save_uuids_to_yaml",
    "user_select_instances",
]


def apply_yaml(filename: str, *, settings: config.Config | None = None) -> FlashJob:
    """Makes the FlashJob in a file so in the cluster, as `kubectl apply --server-side` does; the FlashJob then."""
    return asyncio.run(_apply(filename, settings or config.load()))


async def _apply(filename: str, settings: config.Config) -> FlashJob:
    content = load(await asyncio.to_thread(Path(filename).read_text, encoding="utf-8"))
    async with Client(settings) as client:
        # By force: the same file may have been applied by kubectl before.
        applied = await client.raw(FlashJob.kind).apply(content, manager="filter-uuid", force=True)
        print(f"Successfully applied {filename}", flush=True)
        return client.of(FlashJob).decode(msgspec.json.encode(applied))


def gradual_rollout(
    uuids: Sequence[str],
    firmware: str,
    step: int = rollout_questions.STEP,
    delay: int = rollout_questions.DELAY,
    *,
    job: Job | None = None,
    settings: config.Config | None = None,
) -> dict[str, str]:
    """Flashes the devices batch by batch, by one rollout, to its end: why each failed that did, by its uuid."""
    if not uuids:
        return {}
    where = Place(settings=settings or config.load())
    wanted = job or Job(firmware=firmware, version=tag_version(firmware), namespace=where.namespace)
    choice = Choice(uuids=list(uuids), job=wanted, step=step, delay=delay)
    return dict(rollout_dialogue.rolled_out(where, choice).failed)


def filter_uuid(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Look here only; the rollout goes there too.", show_default=False),
    ] = None,
    file: Annotated[str, typer.Option("--file", help="Where the FlashJob is saved; never a file in git.")] = FILE,
    name: Annotated[
        str, typer.Option("--name", help="The name of the rollout; default: what it brings.", show_default=False)
    ] = "",
    flasher_image: Annotated[
        str | None,
        typer.Option(
            "--flasher-image", metavar="IMAGE", help="The flasher; default: the operator's own.", show_default=False
        ),
    ] = None,
    plain_registry: PlainRegistries = None,
) -> None:
    """Choose devices that Akri has discovered, and flash them batch by batch, by one rollout.

    Ends when all of them have ended: with 0 where all run the firmware, with 4 where some failed, which it names.
    """
    rollout_dialogue.asked(
        place(kubeconfig, context, namespace),
        narrowed=namespace,
        file=file,
        flasher_image=flasher_image,
        plain=plain_registry,
        name=name,
        piped=True,
    )


def main() -> None:
    """What the script runs."""
    line = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
    )
    line.command("filter_uuid.py")(filter_uuid)
    guard("filter_uuid.py", line)
