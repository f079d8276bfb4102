"""What people type: `edgewright COMMAND`. One module a command group; this one joins them and handles errors once.

Commands raise; here an error becomes one sentence on standard error and one of the `EXIT_CODES`, which scripts can
trust. Nobody who types a command sees a traceback for what the outside did.
"""

from __future__ import annotations

import os
import sys
from typing import Final

import typer

from edgewright.cli import backup, crds, demo, node, run, simulate, up, version
from edgewright.cli.failure import Failed
from edgewright.runtime import logs
from edgewright.runtime.config import ConfigError
from edgewright.runtime.errors import KubernetesError, NoCredentials, Unreachable
from edgewright.runtime.masking import mask

EXIT_CODES: Final = {
    0: "Done.",
    1: "The server refused, or the work failed; also when nobody reads the output any more.",
    2: "Wrong usage, a wrong kubeconfig, or credentials that cannot be had.",
    3: "The server could not be reached.",
    130: "Interrupted with Ctrl-C.",
}
"""What a command can end with, and what it means."""

app = typer.Typer(
    name="edgewright",
    help="Keeps fleets of edge devices in the state that you declare.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(up.up)
app.command("run")(run.run)
app.command("demo")(demo.demo)
app.command("node")(node.node)
app.command("simulate")(simulate.simulate)
app.command("backup")(backup.backup)
app.add_typer(crds.app, name="crds")
app.command("version")(version.show)


def main() -> None:
    """The console script."""
    logs.setup(level="warning", format="text")
    try:
        try:
            app()
        except SystemExit:
            sys.stdout.flush()  # Python would do it at its exit, too late for a sentence when it fails
            raise
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        _forget_output()
        # A reader that has seen enough (`| head`, say) wants no sentence.
        if not isinstance(error, BrokenPipeError):
            print(f"edgewright: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        sys.exit(1)
    except (ConfigError, Failed, KubernetesError) as error:
        said = " ".join(str(error).splitlines())  # what others say of a failure may have several lines
        print(f"edgewright: {mask(said)}", file=sys.stderr)
        sys.exit(exit_code(error))


def exit_code(error: Exception) -> int:
    """What the command ends with for an error of this kind."""
    if isinstance(error, ConfigError | NoCredentials):
        return 2
    return 3 if isinstance(error, Unreachable) else 1


def _forget_output() -> None:
    """Keeps Python from trying at its exit to write what could not be written, and from complaining about it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
