"""`edgewright crds`: the custom resource definitions of our kinds, to read or to install.

They are generated from the structs in `api`; what is printed here is what lies in config/crd/bases.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from edgewright.api import CUSTOM_KINDS, custom_resource_definitions
from edgewright.api.manifests import render
from edgewright.cli.options import Context, Kubeconfig
from edgewright.runtime import Client, config
from edgewright.runtime.definitions import install

app = typer.Typer(help="The custom resource definitions of Edgewright's kinds.", no_args_is_help=True)


@app.command("print")
def print_all() -> None:
    """Print them as YAML, ready for `kubectl apply --server-side -f -`."""
    print("---\n".join(render(document) for document in custom_resource_definitions(CUSTOM_KINDS)), end="")


@app.command("install")
def install_all(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask the server to check them, and change nothing.")
    ] = False,
) -> None:
    """Install or update them in a cluster, and wait until they are served. Objects that exist already are kept."""
    settings = config.load(kubeconfig=kubeconfig, context=context)
    asyncio.run(_install(Client(settings), dry_run=dry_run))


async def _install(client: Client, *, dry_run: bool) -> None:
    async with client:
        for document in custom_resource_definitions(CUSTOM_KINDS):
            outcome = await install(client, document, dry_run=dry_run)
            print(f"{document['metadata']['name']} {outcome}{' (dry run)' if dry_run else ''}")
