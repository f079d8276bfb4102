"""`edgewright flux`: runs a command in a Flux mini-cluster, and what people do about mini-clusters afterwards.

`flux run` creates a MiniCluster and follows it to its end; the rest reads, scales and deletes. Objects are printed as
the server has them.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import Annotated, Final

import typer

from edgewright.api.fluxsetup import MAX_SIZE
from edgewright.api.minicluster import MiniCluster
from edgewright.cli import completion, flux_follow, objects, rollout_flags, terminal
from edgewright.cli.cluster import AllNamespaces, Context, Kubeconfig, Labels, Namespace, Place, missing, place
from edgewright.cli.failure import WrongUsage
from edgewright.cli.printing import Form, Output
from edgewright.cli.signals import before, stop_on_signals
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, RawObject

app = typer.Typer(help="Flux mini-clusters: run a command on several Pods.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(help="The mini-cluster.", autocompletion=completion.miniclusters, show_default=False)
]
_TABLE: Final = Form()
_PREFIX: Final = "run-"
_INTERRUPTED: Final = 130


@app.command("run")
def run(
    image: Annotated[str, typer.Argument(help="The image that the command runs in.", show_default=False)],
    command: Annotated[list[str], typer.Argument(help="The command, after `--`.", show_default=False)],
    *,
    size: Annotated[
        int, typer.Option("--size", metavar="NUMBER", min=1, max=MAX_SIZE, help="How many Pods there are.")
    ] = 1,
    tasks: Annotated[
        int | None,
        typer.Option(
            "--tasks", metavar="NUMBER", min=1, help="How many tasks run; default: one per Pod.", show_default=False
        ),
    ] = None,
    max_size: Annotated[
        int | None,
        typer.Option(
            "--max-size", metavar="NUMBER", min=1, max=MAX_SIZE, help="How far it can be scaled.", show_default=False
        ),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", help="What it is called; default: a name of its own.", show_default=False)
    ] = "",
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable.", show_default=False)
    ] = None,
    launcher: Annotated[
        bool, typer.Option("--launcher", help="The command submits jobs itself.", show_default=False)
    ] = False,
    flux_in_image: Annotated[
        bool, typer.Option("--flux-in-image", help="The image has Flux; none is brought along.", show_default=False)
    ] = False,
    remove: Annotated[
        bool, typer.Option("--rm", help="Delete the mini-cluster when it has ended.", show_default=False)
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Ctrl-C leaves the mini-cluster running.", show_default=False)
    ] = False,
    detach: Annotated[
        bool,
        typer.Option("--detach", "-d", help="Make it, print its name, and wait for nothing.", show_default=False),
    ] = False,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long it may take, for example 30m.")
    ] = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Run a command in a new mini-cluster, show what it says, and end with its exit code.

    Ctrl-C or SIGTERM deletes the mini-cluster, unless --keep is given, and ends with 130.
    """
    if max_size is not None and max_size < size:
        raise WrongUsage(f"--max-size {max_size} is below --size {size}: give a larger one")
    container: RawObject = {
        "image": image,
        "command": shlex.join(command),
        "environment": dict(map(_variable, env or ())),
    }
    if launcher:
        container["launcher"] = True
    spec: RawObject = {"size": size, "tasks": tasks or size, "containers": [container], "logging": {"quiet": True}}
    if max_size is not None:
        spec["maxSize"] = max_size
    if flux_in_image:
        spec["flux"] = {"container": {"disable": True}}
    if detach and remove:
        spec["cleanup"] = True  # nobody is here at its end: the operator deletes it
    if timeout:
        spec["deadlineSeconds"] = max(1, round(rollout_flags.seconds(timeout, "--timeout")))
    where = place(kubeconfig, context, namespace)
    body: RawObject = {
        "apiVersion": MiniCluster.kind.api_version,
        "kind": MiniCluster.kind.kind,
        "metadata": {"namespace": where.namespace, **({"name": name} if name else {"generateName": _PREFIX})},
        "spec": spec,
    }
    if detach:
        print(where.run(lambda client: _create(client, where, body))["metadata"]["name"])
        return
    raise typer.Exit(where.run(lambda client: _run(client, where, body, remove=remove, keep=keep)))


async def _create(client: Client, where: Place, body: RawObject) -> RawObject:
    try:
        return await client.raw(MiniCluster.kind).create(body)
    except NotFound as error:
        raise missing(MiniCluster.kind, "", where, error) from None


async def _run(client: Client, where: Place, body: RawObject, *, remove: bool, keep: bool) -> int:
    with stop_on_signals() as stop:
        made = await _create(client, where, body)
        name = made["metadata"]["name"]
        terminal.say(f"MiniCluster {name} is made; `edgewright flux logs -f {name}{where.typed}` shows what it says.")
        deleted = remove
        try:
            code = await before(stop, flux_follow.to_the_end(client, where, name, say=terminal.say))
            if code is not None:
                return code
            deleted = not keep
            terminal.say(
                f"Interrupted: MiniCluster {name} is being deleted."
                if deleted
                else f"Interrupted: MiniCluster {name} goes on; `edgewright flux delete {name}{where.typed}` ends it."
            )
            return _INTERRUPTED
        finally:
            if deleted:
                await _delete(client, made)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise WrongUsage(f"--env {text} is no NAME=VALUE")
    return name, value


@app.command("list")
def list_all(
    *,
    output: Output = _TABLE,
    selector: Labels = "",
    all_namespaces: AllNamespaces = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show the mini-clusters of a namespace, or of all with -A."""
    where = place(kubeconfig, context, namespace, all_namespaces=all_namespaces)
    where.run(lambda client: objects.show_list(client, MiniCluster, where, output, labels=selector))


@app.command("logs")
def logs(
    name: Name,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the command has ended.", show_default=False)
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what the lead broker and its command have said."""
    where = place(kubeconfig, context, namespace)
    where.run(lambda client: flux_follow.show_log(client, where, name, follow=follow))


@app.command("scale")
def scale(
    name: Name,
    size: Annotated[int, typer.Argument(metavar="SIZE", min=1, max=MAX_SIZE, help="How many Pods there are to be.")],
    *,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Give a mini-cluster more Pods, up to its maxSize, or fewer; its command goes on."""
    where = place(kubeconfig, context, namespace)

    async def change(client: Client) -> None:
        found = await objects.one(client, MiniCluster, where, name)
        await client.raw(MiniCluster.kind).patch(
            where.key(name), {"spec": {"size": size}}, uid=found["metadata"]["uid"]
        )

    where.run(change)
    terminal.say(f"MiniCluster {name} is to have {size} Pods.")


@app.command("delete")
def delete(name: Name, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """Delete a mini-cluster and all that belongs to it."""
    where = place(kubeconfig, context, namespace)

    async def remove(client: Client) -> None:
        await _delete(client, await objects.one(client, MiniCluster, where, name))

    where.run(remove)
    terminal.say(f"MiniCluster {name} is deleted.")


async def _delete(client: Client, found: RawObject) -> None:
    """Deletes just this one; it may be gone already."""
    metadata = found["metadata"]
    with suppress(NotFound):
        await client.raw(MiniCluster.kind).delete(
            Key(metadata["namespace"], metadata["name"]), uid=metadata["uid"], propagation="Background"
        )
