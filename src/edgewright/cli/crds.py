"""`edgewright crds`: the custom resource definitions of our kinds, to read or to install.

They are generated from the structs in `api`; what is printed here is what lies in config/crd/bases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from edgewright.api import custom_resource_definitions
from edgewright.api.capabilities import CAPABILITIES, kinds_of
from edgewright.api.manifests import render
from edgewright.cli import operator_options
from edgewright.cli.options import Context, Kubeconfig
from edgewright.runtime import Client, config
from edgewright.runtime.definitions import install
from edgewright.runtime.objects import RawObject

app = typer.Typer(help="The custom resource definitions of Edgewright's kinds.", no_args_is_help=True)


@app.command("print")
def print_all(controllers: operator_options.Controllers = None) -> None:
    """Print them as YAML, ready for `kubectl apply --server-side -f -`."""
    print("---\n".join(render(document) for document in _definitions(controllers)), end="")


@app.command("install")
def install_all(
    controllers: operator_options.Controllers = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask the server to check them, and change nothing.")
    ] = False,
) -> None:
    """Install or update them in a cluster, and wait until they are served. Objects that exist already are kept."""
    documents = _definitions(controllers)
    settings = config.load(kubeconfig=kubeconfig, context=context)
    asyncio.run(_install(Client(settings), documents, dry_run=dry_run))


def _definitions(controllers: str | None) -> list[RawObject]:
    return custom_resource_definitions(kinds_of(operator_options.capabilities(controllers) or CAPABILITIES))


async def _install(client: Client, documents: Sequence[RawObject], *, dry_run: bool) -> None:
    async with client:
        for document in documents:
            outcome = await install(client, document, dry_run=dry_run)
            print(f"{document['metadata']['name']} {outcome}{' (dry run)' if dry_run else ''}")
