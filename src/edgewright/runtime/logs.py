"""Logging: JSON lines in a cluster, one readable line on a terminal, and no secrets in either.

Every module takes its logger once, `log = logs.get("runtime.cache")`, and says `log.info("re-listed", kind="pods")`;
programs call `setup` first of all; controllers bind the fields of the current reconcile with `bound`. It stands on the
standard library's logging, so that other libraries' lines come out the same way, and never raises into the caller.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import Final, Literal, TextIO, TypeAlias

import msgspec

from edgewright.runtime.redaction import MASK, is_secret_name, mask

Format: TypeAlias = Literal["auto", "json", "text", "zap"]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]

ROOT: Final = "edgewright"
LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_RESERVED: Final = frozenset({"time", "level", "logger", "message", "error"})
_DEPTH: Final = 4
_MAX_ITEMS: Final = 100
_COLOURS: Final = {logging.DEBUG: "\x1b[2m", logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m"}
_DIM: Final = "\x1b[2m"
_RESET: Final = "\x1b[0m"
# A line must stay one line, and a name from a cluster must not move the cursor of the person who reads it.
_CONTROL: Final = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}

_bound: ContextVar[Mapping[str, object]] = ContextVar("edgewright_log_fields", default=MappingProxyType({}))


class Logger:
    """A logger whose keyword arguments become fields; an exception goes into the field `error`."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        """Wrap a standard logger; `get` is the usual way."""
        self._logger = logger

    def debug(self, message: str, /, **fields: object) -> None:
        """Say what only somebody who looks for a fault wants to read."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._say(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        """Say what an operator of the program wants to read on a good day."""
        if self._logger.isEnabledFor(logging.INFO):
            self._say(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        """Say what went wrong and is tried again or worked around."""
        if self._logger.isEnabledFor(logging.WARNING):
            self._say(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        """Say what went wrong and needs somebody."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._say(logging.ERROR, message, fields)

    def enabled(self, level: Level) -> bool:
        """Whether lines of this level are written, for callers whose fields are costly to make."""
        return self._logger.isEnabledFor(LEVELS[level])

    def _say(self, level: int, message: str, fields: dict[str, object]) -> None:
        error = fields.get("error")
        exc_info = None
        if isinstance(error, BaseException):
            del fields["error"]
            exc_info = (type(error), error, error.__traceback__)
        if inherited := _bound.get():
            fields = {**inherited, **fields}
        # Two frames up is the line that logs.
        self._logger.log(level, message, exc_info=exc_info, extra={"fields": fields}, stacklevel=3)


class bound:  # noqa: N801 - it reads as a verb: `with logs.bound(controller="flashjob", key=key):`
    """Add fields to every line that is logged inside the block, also by what it awaits and by tasks it starts."""

    __slots__ = ("_fields", "_token")

    def __init__(self, **fields: object) -> None:
        """Take the fields; nothing happens before the block is entered."""
        self._fields = fields
        self._token: Token[Mapping[str, object]] | None = None

    def __enter__(self) -> None:
        """Bind the fields over those that are bound already."""
        self._token = _bound.set({**_bound.get(), **self._fields})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Go back to what was bound before."""
        if self._token is not None:
            _bound.reset(self._token)
            self._token = None


class Repeated:
    """Says a line once, and again at most once in `every` seconds with the number of times it was left out.

    For retry loops: another text (message or error) is said at once, unless there are so many different ones that they
    would be a flood themselves. One instance for each loop.
    """

    def __init__(
        self, log: Logger, *, every: float = 60.0, texts: int = 16, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Say through `log`, with at most `texts` different lines in `every` seconds of the clock `now`."""
        self._log = log
        self._every = every
        self._texts = texts
        self._now = now
        self._said: dict[str, tuple[float, int]] = {}
        self._flood = 0

    def warning(self, message: str, /, **fields: object) -> None:
        """Say it as `Logger.warning` does, or count it."""
        now = self._now()
        text = f"{message}\n{fields.get('error')}"
        at, left_out = self._said.get(text, (None, 0))
        if at is not None and now - at < self._every:
            self._said[text] = (at, left_out + 1)
            return
        if at is None:
            self._forget_old(now)
            if len(self._said) >= self._texts:
                self._flood += 1
                return
            left_out, self._flood = self._flood, 0
        self._said[text] = (now, 0)
        if left_out:
            fields["repeated"] = left_out
        self._log.warning(message, **fields)

    def clear(self) -> bool:
        """Forget everything, because it works again; True when something had been said that this is the end of."""
        said = bool(self._said)
        self._said.clear()
        self._flood = 0
        return said

    def _forget_old(self, now: float) -> None:
        for text, (at, left_out) in list(self._said.items()):
            if now - at >= self._every:
                self._flood += left_out
                del self._said[text]


def get(name: str) -> Logger:
    """The logger of a module of ours, by its name without the package: `runtime.cache`."""
    return Logger(logging.getLogger(f"{ROOT}.{name}"))


def setup(
    *,
    format: Format = "auto",  # noqa: A002 - the name of the setting that people type
    level: Level = "info",
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Send all logging of the process to `stream` (standard error); calling it again replaces what it did before.

    `auto` is text on a terminal, JSON in a cluster, and text without colours elsewhere; `zap` is text on a terminal and
    JSON with the keys of controller-runtime elsewhere. Other libraries are heard from warnings on, and from info on
    where `level` is debug.
    """
    if format not in {"auto", "json", "text", "zap"}:
        raise ValueError(f"log format {format!r} is not known: use auto, json, text or zap")
    if level not in LEVELS:
        raise ValueError(f"log level {level!r} is not known: use {', '.join(LEVELS)}")
    stream = sys.stderr if stream is None else stream
    handler = _Handler(stream)
    handler.setFormatter(_formatter(format, level, stream, environ))
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(logging.INFO if level == "debug" else logging.WARNING)
    logging.getLogger(ROOT).setLevel(LEVELS[level])


def _formatter(chosen: Format, level: Level, stream: TextIO, environ: Mapping[str, str]) -> logging.Formatter:
    terminal = stream.isatty()
    if chosen == "zap" and not terminal:
        return ZapFormatter()
    if chosen == "json" or (chosen == "auto" and not terminal and environ.get("KUBERNETES_SERVICE_HOST")):
        return JsonFormatter()
    colours = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return TextFormatter(colours=colours, short_time=terminal, tracebacks=level == "debug")


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, so that a second `setup` finds it and leaves other people's handlers alone."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the fields, `error` with type, message and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        line: dict[str, object] = {
            "time": _time(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": _short_name(record),
            "message": mask(_message(record)),
        }
        for name, value in _fields(record):
            line[f"{name}_" if name in _RESERVED and not (name == "error" and not record.exc_info) else name] = value
        if error := _error(record):
            line["error"] = {
                "type": type(error).__name__,
                "message": mask(_text(error)),
                "traceback": mask("".join(traceback.format_exception(error))),
            }
        return msgspec.json.encode(line).decode()


class ZapFormatter(JsonFormatter):
    """The same with the keys that controller-runtime writes: level, ts in seconds, logger, msg."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        line = msgspec.json.decode(super().format(record))
        known = {"level": line.pop("level"), "ts": record.created, "logger": line.pop("logger")}
        return msgspec.json.encode({**known, "msg": line.pop("message"), **_without(line, "time")}).decode()


def _without(line: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in line.items() if key != name}


class TextFormatter(logging.Formatter):
    """One line for people; tracebacks follow only where `tracebacks` asks for them."""

    def __init__(self, *, colours: bool = False, short_time: bool = False, tracebacks: bool = False) -> None:
        """`short_time` writes the local time of day instead of the full time in UTC."""
        super().__init__()
        self._colours = colours
        self._short_time = short_time
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        moment = _time(record)
        clock = f"{moment.astimezone():%H:%M:%S}" if self._short_time else f"{moment:%Y-%m-%dT%H:%M:%S}Z"
        level = f"{record.levelname:<7}"
        message = _one_line(mask(_message(record)))
        pairs = [f"{_one_line(name)}={_quoted(value)}" for name, value in _fields(record)]
        error = _error(record)
        if error:
            pairs.append(f"error={_quoted(_error_text(error))}")
        fields = " ".join(pairs)
        if self._colours:
            colour = _COLOURS.get(record.levelno, "")
            line = f"{_DIM}{clock}{_RESET} {colour}{level}{_RESET if colour else ''} {message}"
            line += f"  {_DIM}{fields}{_RESET}" if fields else ""
        else:
            line = f"{clock} {level} {_short_name(record)}: {message}" + (f"  {fields}" if fields else "")
        if error and self._tracebacks:
            trace = mask("".join(traceback.format_exception(error))).rstrip("\n")
            line += "".join(f"\n    {_one_line(each)}" for each in trace.split("\n"))
        return line


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _short_name(record: logging.LogRecord) -> str:
    return record.name.removeprefix(f"{ROOT}.")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # somebody's %-arguments do not fit: the raw text is better than nothing
        return str(record.msg)


def _fields(record: logging.LogRecord) -> list[tuple[str, object]]:
    """The fields as plain, masked values; a line of another library has those that are bound."""
    fields: Mapping[str, object] = getattr(record, "fields", None) or _bound.get()
    return [(name, _named(name, value)) for name, value in fields.items()]


def _error(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _error_text(error: BaseException) -> str:
    text = mask(_text(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _named(name: str, value: object, depth: int = 0) -> object:
    # None, True and False say whether there is one, which is no secret.
    if is_secret_name(name) and value is not None and not isinstance(value, bool):
        return MASK
    return _plain(value, depth)


def _plain(value: object, depth: int = 0) -> object:
    """`value` as JSON holds it, without secrets; whatever it is, a line comes out of it."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, BaseException):
        return _error_text(value)
    if depth < _DEPTH and isinstance(value, Mapping):
        pairs = list(value.items())[:_MAX_ITEMS]
        return {mask(_text(name)): _named(_text(name), each, depth + 1) for name, each in pairs}
    # A named tuple, such as Key, knows how it is written.
    if depth < _DEPTH and (isinstance(value, list | set | frozenset) or type(value) is tuple):
        return [_plain(each, depth + 1) for each in list(value)[:_MAX_ITEMS]]
    return mask(_text(value))


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # a log line must come out, whatever somebody's __str__ does
        return f"<{type(value).__name__} that cannot be written>"


def _one_line(text: str) -> str:
    return text.translate(_CONTROL)


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if isinstance(value, str) and (not text or any(each in text for each in ' "=\t\n\r')):
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return _one_line(text)
