"""The command line as a whole: one module per command group; this one joins them and handles errors once.

Commands raise; here an error becomes one sentence on standard error and one of the `EXIT_CODES`, which scripts can
trust. Nobody who types a command sees a traceback for what the outside did. Only the module of the command that was
typed is imported: nobody waits for what another one needs.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from edgewright import __version__
from edgewright.cli import completion
from edgewright.cli.failure import Failed
from edgewright.cli.go_flags import GoCommand
from edgewright.runtime import logs
from edgewright.runtime.errors import KubernetesError, NoCredentials, Unreachable
from edgewright.runtime.redaction import mask
from edgewright.runtime.tls import ConfigError

EXIT_CODES: Final = {
    0: "Done.",
    1: "The server refused, or the work failed; also when nobody reads the output any more.",
    2: "Wrong usage, a wrong kubeconfig, or credentials that cannot be had.",
    3: "The server could not be reached.",
    4: "The rollout failed, or was aborted or recalled.",
    5: "It waits for a person: it is paused, waits for approval, or the fleet is frozen.",
    124: "The time limit that was given is over.",
    130: "Interrupted with Ctrl-C; `flux run` also with SIGTERM.",
}
"""What a command can end with, and what it means."""

# Where each command is: the module, and in it the function or group of commands.
_COMMANDS: Final = {
    "rollout": "rollout:app",
    "flash": "flash:flash",
    "devices": "devices:app",
    "firmware": "firmware:app",
    "freeze": "freeze:freeze",
    "unfreeze": "freeze:unfreeze",
    "up": "up:up",
    "run": "run:run",
    "demo": "demo:demo",
    "console": "console:console",
    "node": "node:node",
    "agent": "agent:agent",
    "gateway": "gateway:gateway",
    "edge": "edge:app",
    "simulate": "simulate_edge:app",
    "token": "token:token",
    "backup": "backup:backup",
    "cleanup": "cleanup:cleanup",
    "crds": "crds:app",
    "chart": "chart:app",
    "flux": "flux:app",
    "version": "version:show",
}
_AS_IN_GO: Final = frozenset({"run"})
"""Commands that Deployments made for a program in Go start, with its way to write truth values."""
_UNIX: Final = frozenset({"fcntl", "pwd", "resource", "termios"})


def _version(wanted: bool) -> None:
    if wanted:  # `edgewright.cli.main` has answered it already, unless more was typed
        print(f"edgewright {__version__}")
        raise typer.Exit


def command_line(*names: str) -> typer.Typer:
    """What can be typed: all commands, or those of these names, so that the modules of the others are not imported."""
    line = typer.Typer(
        name="edgewright",
        help="Keeps fleets of edge devices in the state that you declare.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    line.callback()(_begin)  # else one command alone would be taken without its name
    for name in names or _COMMANDS:
        module, _, attribute = _COMMANDS[name].partition(":")
        command = getattr(import_module(f"edgewright.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            line.add_typer(command, name=name)
        else:
            line.command(name, cls=GoCommand if name in _AS_IN_GO else None)(command)
    return line


def _begin(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and end.", show_default=False, is_eager=True, callback=_version
        ),
    ] = False,
) -> None:
    """Does nothing: what a person wants is behind it."""


def run(program: str = "edgewright") -> None:
    """Reads what was typed and does it."""

    def line() -> None:
        # Anything but a command, such as a slip or --help, is answered with a look at all of them.
        words = sys.argv[1:2] or completion.word_typed(os.environ)
        command_line(*(name for name in words if name in _COMMANDS))(prog_name=program)

    guard("edgewright", line)


def guard(program: str, line: Callable[[], object]) -> None:
    """Runs a command line; what it raises becomes one sentence and an exit code, which is all that its user sees."""
    logs.setup(level="warning", format="text")
    _watch_output()
    try:
        try:
            line()
        except SystemExit:
            sys.stdout.flush()  # Python would do it at its exit, too late for a sentence when it fails
            raise
    except KeyboardInterrupt:
        sys.exit(130)
    except Unwritten as error:
        _forget_output()
        # A reader that has seen enough (`| head`, say) wants no sentence.
        if not isinstance(error.reason, BrokenPipeError):
            print(f"{program}: {error}", file=sys.stderr)
        sys.exit(1)
    except ModuleNotFoundError as error:
        if error.name not in _UNIX:
            raise
        command = " ".join([program, *sys.argv[1:2]])
        print(f"{program}: `{command}` needs Linux: this system has no {error.name}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        what = f"{error.filename}: " if error.filename is not None else ""
        print(f"{program}: {mask(what)}{error.strerror or error}", file=sys.stderr)
        sys.exit(1)
    except (ConfigError, Failed, KubernetesError) as error:
        said = " ".join(str(error).splitlines())  # what others say of a failure may have several lines
        print(f"{program}: {mask(said)}", file=sys.stderr)
        sys.exit(exit_code(error))


def exit_code(error: Exception) -> int:
    """What the command ends with for an error of this kind."""
    if isinstance(error, Failed):
        return error.code
    if isinstance(error, ConfigError | NoCredentials):
        return 2
    return 3 if isinstance(error, Unreachable) else 1


class Unwritten(Exception):
    """Standard output cannot be written. Not an OSError: those that commands expect are about something else."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(f"the output cannot be written: {reason.strerror or reason}")
        self.reason = reason


class _Output(io.TextIOWrapper):
    """Standard output whose failures are told from all others."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise Unwritten(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise Unwritten(error) from error


def _watch_output() -> None:
    before = sys.stdout
    if before is None:  # closed by whoever started us (`>&-`), who wants to read nothing
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)
    elif before is sys.__stdout__ and isinstance(before, io.TextIOWrapper):
        settings: dict[str, Any] = {
            name: getattr(before, name) for name in ("encoding", "errors", "line_buffering", "write_through")
        }
        sys.stdout = _Output(before.detach(), **settings)


def _forget_output() -> None:
    """Keeps Python from trying at its exit to write what could not be written, and from complaining about it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
