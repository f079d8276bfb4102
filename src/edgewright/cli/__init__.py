"""What people type: `edgewright COMMAND`. One module a command group; this one joins them and handles errors once.

Commands raise; here an error becomes one sentence on standard error and an exit code that scripts can trust: 0 done,
1 the server refused or the work failed, 2 wrong usage or configuration, 3 the server could not be reached, 130
interrupted.
"""

from __future__ import annotations

import sys

import typer

from edgewright.cli import crds, version
from edgewright.runtime.config import ConfigError
from edgewright.runtime.errors import KubernetesError, NoCredentials, Unreachable
from edgewright.runtime.masking import mask

app = typer.Typer(
    name="edgewright",
    help="Keeps fleets of edge devices in the state that you declare.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("version")(version.show)
app.add_typer(crds.app, name="crds")


def main() -> None:
    """The console script."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader (`| head`, say) has seen enough; closing here keeps Python from complaining at its exit.
        sys.stderr.close()
        sys.exit(1)
    except (ConfigError, KubernetesError) as error:
        print(f"edgewright: {mask(str(error))}", file=sys.stderr)
        sys.exit(exit_code(error))


def exit_code(error: Exception) -> int:
    """What the command ends with for an error of this kind."""
    if isinstance(error, ConfigError | NoCredentials):
        return 2
    return 3 if isinstance(error, Unreachable) else 1
