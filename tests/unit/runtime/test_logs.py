"""Logs: what a line looks like, what it must never hold, and how often it is said."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.runtime import logs
from edgewright.runtime.objects import Key
from edgewright.runtime.redaction import MAX_TEXT, is_secret_name, mask

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7hunter2\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJzeXN0ZW06aHVudGVyMiJ9.hunter2hunter2hunter2"
BASIC = base64.b64encode(b"admin:hunter2").decode()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger(logs.ROOT)
    handlers, levels = list(root.handlers), (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def as_json(level: logs.Level = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.setup(format="json", level=level, stream=stream)
    return stream


def as_text(level: logs.Level = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.setup(format="text", level=level, stream=stream)
    return stream


log = logs.get("runtime.test")


SECRETS = {
    "bearer": ("Authorization: Bearer hunter2hunter2", "hunter2"),
    "bearer-alone": ("got 401 for bearer hunter2abc.def", "hunter2"),
    "bearer-of-letters": ("sent Bearer abcdefghij to it", "abcdefghij"),
    "bearer-that-begins-like-prose": ("Bearer token-hunter2", "hunter2"),
    "bearer-in-a-dict": ("headers {'Authorization': 'Bearer hunter2hunter2', 'Accept': '*/*'}", "hunter2"),
    "header-as-a-pair": ("('Authorization', 'hunter2')", "hunter2"),
    "header-without-scheme": ("Authorization: hunter2", "hunter2"),
    "digest": ('Authorization: Digest username="a", response="hunter2"', "username"),
    "basic": (f"basic {BASIC}", BASIC),
    "basic-header": (f'"authorization": "Basic {BASIC}"', BASIC),
    "jwt": (f"token {JWT} was refused", "hunter2"),
    "jwt-in-a-url": (f"https://h/x?jwt={JWT}&a=1", "hunter2"),
    "pem": (f"could not load {PEM} from file", "hunter2"),
    "pem-in-json": (json.dumps({"tls.key": PEM}), "hunter2"),
    "pem-cut-off": (PEM[:60], "MIIE"),
    "pem-in-base64": (f"key {base64.b64encode(PEM.encode()).decode()}", base64.b64encode(PEM.encode()).decode()[20:]),
    "url-user": ("cannot reach https://admin:hunter2@proxy:3128/x", "hunter2"),
    "url-with-at-in-password": ("http://admin:hun@ter2@proxy/", "ter2"),
    "url-with-slash-in-password": ("amqp://user:hun/ter2@host:5672/", "ter2"),
    "url-token-only": ("git clone https://hunter2@github.example/x", "hunter2"),
    "query": ("GET /api?token=hunter2&limit=5", "hunter2"),
    "assignment": ("password=hunter2 user=admin", "hunter2"),
    "assignment-with-spaces": ("password = hunter2", "hunter2"),
    "environment": ("AWS_SECRET_ACCESS_KEY=hunter2", "hunter2"),
    "json": ('{"user": "admin", "password": "hunter2"}', "hunter2"),
    "json-in-a-string": (json.dumps('{"client_secret": "hunter2"}'), "hunter2"),
    "json-with-quote-in-value": ('{"password": "a\\"hunter2"}', "hunter2"),
    "repr": ("User(name='admin', password='hunter2', token=None)", "hunter2"),
    "flag": ("plugin failed: get-token --client-secret hunter2 --verbose", "hunter2"),
    "flag-with-equals": ("ran --password=hunter2", "hunter2"),
    "yaml": ("users:\n- user:\n    token: hunter\n    username: admin", "hunter"),
    "yaml-with-spaces": ("user:\n  password: correct horse battery\n", "horse"),
    "yaml-key-data": ("client-key-data: LS0hunter2", "hunter2"),
    "colon": ("the password: hunter2", "hunter2"),
    "colon-token": ("invalid token: hunter2hunter2", "hunter2"),
    "cookie": ("Set-Cookie: session=hunter2; Path=/", "hunter2"),
    "github": ("ghp_" + "a1B2" * 9, "a1B2"),
    "webhook": ("signed with whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw.", "ILPZIo2LaLaSw"),
    "openshift": ("sha256~" + "hunter2-" * 5, "hunter2"),
}


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
def test_a_secret_in_a_text_is_masked(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in mask(text)
    assert "***" in mask(text)


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
def test_no_part_of_a_line_shows_it(text: str, secret: str) -> None:
    for start in (as_json, as_text):
        stream = start("debug")
        log.info(text, note=text, nested={"deep": [text, (text,)]}, failure=ValueError(text))
        try:
            raise ValueError(text)
        except ValueError as error:
            log.warning("failed", error=error)
        logging.getLogger("other").warning("it said %s", text)
        shown = stream.getvalue()
        assert shown.count("***") >= 5
        assert secret not in shown


INNOCENT = [
    "re-listed pods after 410",
    "the token file /var/run/secrets/kubernetes.io/serviceaccount/token was read again",
    'secrets "wifi" not found',
    'secrets is forbidden: User "system:serviceaccount:edge:default" cannot list resource "secrets" in API group ""',
    "invalid token: it has expired",
    "the bearer token was refused",
    "bearer authentication is required",
    'Www-Authenticate: Bearer realm="https://registry/token",service="registry"',
    "basic constraints are missing in the certificate",
    "users[0].user.password: must be a string",
    "cannot reach https://10.0.0.1:6443/api/v1/pods?limit=500&resourceVersion=12",
    "http://[::1]:8080/healthz answered 503",
    "oci://registry:5000/firmware/esp32@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "key default/flashjob-1 waits 5s",
    "mail to ops@example.com",
    "--token-file /etc/token --kubeconfig /etc/kube.conf",
    "tokenFile: /var/run/token",
    "secretName=wifi secret_ref=default/wifi",
    "password=None token=null",
    "tokenizer=fast passwordless=true",
    "authorization failed: webhook refused the request",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIBhunter").decode(),
    "8f0e2c6e-7f6a-4c0e-9d38-0e4f8f3b1a2c",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
]


@pytest.mark.parametrize("text", INNOCENT)
def test_an_innocent_text_stays_readable(text: str) -> None:
    assert mask(text) == text


def test_what_stands_around_a_secret_stays_readable() -> None:
    assert mask("GET /x?token=abc&limit=5 gave 401") == "GET /x?token=***&limit=5 gave 401"
    assert mask('{"password": "abc", "user": "me"}') == '{"password": "***", "user": "me"}'
    assert mask("at https://me:abc@host:1/x") == "at https://***@host:1/x"
    assert mask("Authorization: Bearer abcdefgh, Accept: x") == "Authorization: Bearer ***, Accept: x"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "token",
            "password",
            "Authorization",
            "client_secret",
            "clientSecret",
            "client-key-data",
            "keyData",
            "cookie",
        ),
        *(
            "apiKey",
            "API_KEY",
            "accessKey",
            "private_key",
            "bearer",
            "db_passwd",
            "credentials",
            "id_token",
            "newToken",
        ),
    ],
)
def test_a_field_with_a_secret_name_is_masked_whatever_it_holds(name: str) -> None:
    assert is_secret_name(name)
    stream = as_json()
    log.info("x", **{name: "plain", "inner": {name: ["plain"]}})
    assert lines(stream)[0][name] == "***"
    assert lines(stream)[0]["inner"] == {name: "***"}


@pytest.mark.parametrize(
    "name",
    [
        *("key", "kind", "name", "keys", "token_file", "tokenFile", "secret_name", "secretRef", "password_file"),
        *("secret_count", "tokenizer", "secretary", "public_key", "token_expires", "credentials_id", "token_type"),
    ],
)
def test_a_field_that_only_tells_of_a_secret_is_shown(name: str) -> None:
    assert not is_secret_name(name)


def test_whether_there_is_a_secret_is_no_secret() -> None:
    stream = as_json()
    log.info("x", token=None, password=True)
    assert (lines(stream)[0]["token"], lines(stream)[0]["password"]) == (None, True)


@given(st.text())
def test_masking_again_changes_nothing(text: str) -> None:
    assert mask(mask(text)) == mask(text)


@pytest.mark.parametrize(
    "text",
    [
        *["token" * 20_000, "eyJ" * 30_000, "://a:b" * 15_000, "-" * 100_000, "password='" * 10_000, "a" * 100_000],
        *["-----BEGIN PRIVATE KEY-----" * 4_000, "bearer " * 15_000, "\n  token:" * 10_000, " @:/" * 25_000],
        *['"\\' * 50_000, "--secret-" * 10_000, "basic AAAA" * 10_000, "eyJ" + "a." * 50_000, "cookie:" * 15_000],
        "token=abcdef " * 500_000,
    ],
    ids=lambda text: text[:12],
)
def test_no_text_takes_long_and_long_texts_are_cut(text: str) -> None:
    begun = time.process_time()
    masked = mask(text)
    assert time.process_time() - begun < 0.5
    assert len(masked) < MAX_TEXT + 40


def test_a_secret_at_the_cut_is_not_shown_by_half() -> None:
    for before in (MAX_TEXT - 20, 2 * MAX_TEXT - 20):
        assert "hunter2" not in mask("x" * before + " https://me:hunter2hunter2hunter2@host/")


def test_a_json_line_has_time_level_logger_message_and_fields() -> None:
    stream = as_json()
    log.info("re-listed", kind="pods", count=3, key=Key("default", "a"), share=0.5, names=("a", "b"))
    (line,) = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "runtime.test",
        "message": "re-listed",
        "kind": "pods",
        "count": 3,
        "key": "default/a",
        "share": 0.5,
        "names": ["a", "b"],
    }


def test_a_field_does_not_replace_a_part_of_the_line() -> None:
    stream = as_json()
    log.info("said", message="field", level="high", error="a text")
    (line,) = lines(stream)
    assert (line["message"], line["message_"], line["level_"], line["error"]) == ("said", "field", "high", "a text")


def test_an_error_in_json_has_type_message_and_traceback() -> None:
    stream = as_json()
    try:
        raise KeyError("missing")
    except KeyError as error:
        log.error("failed", error=error)  # noqa: TRY400
    (line,) = lines(stream)
    assert line["error"]["type"] == "KeyError"
    assert line["error"]["message"] == "'missing'"
    assert "test_an_error_in_json" in line["error"]["traceback"]


@pytest.mark.parametrize(("level", "height"), [("info", 1), ("debug", 5)])
def test_a_traceback_in_text_is_shown_only_at_debug_level(level: logs.Level, height: int) -> None:
    stream = as_text(level)
    try:
        raise ValueError("no such device")
    except ValueError as error:
        log.warning("failed", device="a", error=error)
    shown = stream.getvalue().splitlines()
    assert len(shown) == height
    assert shown[0].endswith('WARNING runtime.test: failed  device=a error="ValueError: no such device"')


def test_a_text_line_is_one_line_whatever_is_in_it() -> None:
    stream = as_text()
    log.info("a\nb\x1b[31m", note="c\r\nd", path="e\u2028f")
    (shown,) = stream.getvalue().split("\n")[:-1]
    assert "\x1b" not in shown
    assert shown.endswith('a\\nb\\x1b[31m  note="c\\r\\nd" path=e\\u2028f')


def test_values_in_text_are_quoted_when_they_need_it() -> None:
    stream = as_text()
    log.info("x", a="plain", b="two words", c='q"q', d=None, e=True, f={"g": 1}, h="")
    assert stream.getvalue().endswith('x  a=plain b="two words" c="q\\"q" d=null e=true f={"g":1} h=""\n')


@pytest.mark.parametrize(
    ("stream", "environ", "chosen", "start"),
    [
        pytest.param(io.StringIO, IN_CLUSTER, "auto", "{", id="cluster-is-json"),
        pytest.param(io.StringIO, {}, "auto", "20", id="file-is-text"),
        pytest.param(Terminal, IN_CLUSTER, "auto", "\x1b[", id="terminal-in-cluster-is-text"),
        pytest.param(Terminal, {}, "text", "\x1b[", id="terminal-has-colours"),
        pytest.param(Terminal, {}, "json", "{", id="json-if-asked-for"),
        pytest.param(io.StringIO, {}, "json", "{", id="json-in-a-file-if-asked-for"),
        pytest.param(io.StringIO, IN_CLUSTER, "text", "20", id="text-in-cluster-if-asked-for"),
    ],
)
def test_the_format_follows_where_it_goes(
    stream: Callable[[], io.StringIO], environ: dict[str, str], chosen: logs.Format, start: str
) -> None:
    out = stream()
    logs.setup(format=chosen, stream=out, environ=environ)
    log.warning("said")
    assert out.getvalue().startswith(start)


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_colours_can_be_switched_off(environ: dict[str, str]) -> None:
    out = Terminal()
    logs.setup(stream=out, environ=environ)
    log.error("said", a=1)
    assert "\x1b" not in out.getvalue()
    assert "said  a=1" in out.getvalue()


def test_setting_up_again_does_not_double_the_lines() -> None:
    first, second = as_json(), as_json()
    log.info("said")
    assert first.getvalue() == ""
    assert len(lines(second)) == 1


@pytest.mark.parametrize("wrong", [{"format": "xml"}, {"level": "loud"}], ids=["format", "level"])
def test_a_wrong_setting_is_one_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is not known: use \w+, "):
        logs.setup(**wrong)


def test_the_level_is_kept_for_us_and_other_libraries_are_heard_from_warnings_on() -> None:
    stream = as_json("debug")
    log.debug("yes")
    logging.getLogger("aiohttp").debug("no")
    logging.getLogger("aiohttp").info("library")
    assert [line["message"] for line in lines(stream)] == ["yes", "library"]
    stream = as_json("info")
    log.debug("no")
    log.info("yes")
    logging.getLogger("aiohttp").info("no")
    logging.getLogger("aiohttp").warning("%d yes", 2)
    assert [line["message"] for line in lines(stream)] == ["yes", "2 yes"]
    assert log.enabled("info")
    assert not log.enabled("debug")


def test_nothing_is_made_of_the_fields_while_the_level_is_off() -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("made")

    stream = as_json("warning")
    log.info("x", value=Costly())
    log.debug("x", value=Costly())
    assert stream.getvalue() == ""


def test_what_cannot_be_written_is_named() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no")

    loop: dict[str, Any] = {}
    loop["self"] = loop
    stream = as_json()
    log.info("x", broken=Broken(), loop=loop, big=2**70, odd="\ud800", ratio=float("nan"), raw=b"ab")
    (first,) = lines(stream)
    assert first["broken"] == "<Broken that cannot be written>"
    assert first["big"] == 2**70
    assert first["odd"] == "\\ud800"


def test_arguments_that_do_not_fit_the_message_do_not_lose_the_line() -> None:
    record = logging.LogRecord("other", logging.WARNING, "", 0, "%d devices", ("many",), None)
    assert json.loads(logs.JsonFormatter().format(record))["message"] == "%d devices"


async def test_bound_fields_are_in_every_line_of_the_reconcile_and_its_tasks() -> None:
    stream = as_json()

    async def child() -> None:
        log.info("child", extra=1)
        logging.getLogger("other").warning("library")

    async def reconcile(key: Key) -> None:
        with logs.bound(controller="flashjob", key=key), logs.bound(step="flash"):
            await asyncio.create_task(child())
            log.info("inner", step="own")

    await asyncio.gather(reconcile(Key("a", "x")), reconcile(Key("b", "y")))
    log.info("outside")
    said = lines(stream)
    assert sorted((line["key"], line["message"], line["step"]) for line in said[:-1]) == [
        (key, message, step)
        for key in ("a/x", "b/y")
        for message, step in (("child", "flash"), ("inner", "own"), ("library", "flash"))
    ]
    assert "key" not in said[-1]


def test_a_record_knows_the_line_that_logged(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger(logs.ROOT).setLevel(logging.INFO)
    log.info("here")
    assert caplog.records[0].filename == "test_logs.py"
    assert caplog.records[0].funcName == "test_a_record_knows_the_line_that_logged"


class Clock:
    """Time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def test_a_repeated_line_is_said_once_and_then_once_a_minute_with_a_count() -> None:
    stream, clock = as_json(), Clock()
    again = logs.Repeated(log, now=clock)
    for _ in range(150):
        again.warning("cannot reach the server", error=OSError("refused"))
        clock.time += 1
    said = lines(stream)
    assert [line.get("repeated") for line in said] == [None, 59, 59]


def test_another_text_is_said_at_once() -> None:
    stream, clock = as_json(), Clock()
    again = logs.Repeated(log, now=clock)
    for text in ("refused", "refused", "timed out", "refused", "timed out"):
        again.warning("cannot reach the server", error=OSError(text))
    assert [line["error"]["message"] for line in lines(stream)] == ["refused", "timed out"]


def test_a_flood_of_different_texts_is_held_back_and_counted() -> None:
    stream, clock = as_json(), Clock()
    again = logs.Repeated(log, texts=3, now=clock)
    for number in range(10):
        again.warning("failed", error=OSError(number))
    assert len(lines(stream)) == 3
    clock.time += 60
    again.warning("failed", error=OSError("x"))
    assert lines(stream)[-1]["repeated"] == 7


def test_after_success_the_next_failure_is_said_again() -> None:
    stream, clock = as_json(), Clock()
    again = logs.Repeated(log, now=clock)
    assert not again.clear()
    again.warning("failed")
    assert again.clear()
    again.warning("failed")
    assert len(lines(stream)) == 2


def test_the_keys_of_controller_runtime_can_be_had() -> None:
    stream = io.StringIO()
    logs.setup(format="zap", stream=stream)
    log.info("Starting EventSource", source="kind source: a/v1, Kind=B")
    (line,) = lines(stream)
    assert isinstance(line.pop("ts"), float)
    assert list(line) == ["level", "logger", "msg", "source"]
    assert (line["level"], line["msg"]) == ("info", "Starting EventSource")
