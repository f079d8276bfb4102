"""Exec plugins as real programs: when they run, what they are told, what they say, and how they are ended."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import load
from edgewright.runtime.credentials import CredentialsError
from edgewright.runtime.exec_plugin import API_VERSIONS, ExecEntry, ExecPlugin, exec_info, renewal_time
from edgewright.runtime.tls import ClientTls
from tests.unit.runtime.identities import AUTHORITY, authorization, pem, user_seen
from tests.unit.runtime.tls_server import server_context, serving

START = datetime(2026, 1, 1, tzinfo=UTC)


class Plugin:
    """A real program in a folder of its own, which counts its runs and prints what the test wrote to `says`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = folder / "plugin"
        self.script('cat "$0.says"')

    def script(self, body: str) -> None:
        self.command.write_text(
            f'#!/bin/sh\necho run >> "$0.runs"\nprintf %s "$KUBERNETES_EXEC_INFO" > "$0.info"\n{body}\n'
        )
        self.command.chmod(0o700)

    def says(self, status: object, *, version: str = API_VERSIONS[0], kind: str = "ExecCredential") -> None:
        text = json.dumps({"apiVersion": version, "kind": kind, "status": status})
        self.command.with_name("plugin.says").write_text(text)

    @property
    def runs(self) -> int:
        record = self.command.with_name("plugin.runs")
        return len(record.read_text().splitlines()) if record.exists() else 0

    @property
    def info(self) -> Any:
        return json.loads(self.command.with_name("plugin.info").read_text())

    def credentials(
        self,
        *,
        tls: ClientTls | None = None,
        clock: VirtualClock | None = None,
        terminal: bool = False,
        **entry: Any,
    ) -> ExecPlugin:
        said = ExecEntry(**{"origin": "users[me].user.exec", "command": str(self.command), **entry})
        return ExecPlugin(said, environ=os.environ, tls=tls, clock=clock, at_a_terminal=lambda: terminal)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def test_twenty_requests_at_once_run_the_plugin_once(plugin: Plugin) -> None:
    plugin.says({"token": "t1"})
    credentials = plugin.credentials()
    found = await asyncio.gather(*(authorization(credentials) for _ in range(20)))
    assert set(found) == {"Bearer t1"}
    assert plugin.runs == 1


async def test_twenty_requests_at_once_share_one_failure_and_the_next_tries_again(plugin: Plugin) -> None:
    plugin.script("exit 3")
    credentials = plugin.credentials()
    found = await asyncio.gather(*(credentials.headers() for _ in range(20)), return_exceptions=True)
    assert {str(error) for error in found} == {
        f"users[me].user.exec: the command {plugin.command} failed with exit code 3"
    }
    assert plugin.runs == 1
    plugin.script('cat "$0.says"')
    plugin.says({"token": "t"})
    assert await authorization(credentials) == "Bearer t"


async def test_what_a_plugin_says_is_kept_until_just_before_it_expires(plugin: Plugin) -> None:
    clock = VirtualClock(START)
    credentials = plugin.credentials(clock=clock)
    plugin.says({"token": "t1", "expirationTimestamp": "2026-01-01T01:00:00.123456789Z"})
    assert await authorization(credentials) == "Bearer t1"
    plugin.says({"token": "t2"})
    await clock.advance(3589)
    assert await authorization(credentials) == "Bearer t1"
    await clock.advance(2)
    assert await authorization(credentials) == "Bearer t2"
    await clock.advance(1e8)
    assert await authorization(credentials) == "Bearer t2"
    assert plugin.runs == 2


async def test_a_refused_token_is_not_used_again(plugin: Plugin) -> None:
    plugin.says({"token": "t1"})
    credentials = plugin.credentials()
    await credentials.headers()
    plugin.says({"token": "t2"})
    credentials.refused()
    credentials.refused()
    assert await authorization(credentials) == "Bearer t2"
    assert plugin.runs == 2


async def test_a_refusal_during_a_run_does_not_throw_away_what_the_run_says(plugin: Plugin) -> None:
    os.mkfifo(plugin.folder / "gate")
    plugin.says({"token": "t"})
    plugin.script('cat "$(dirname "$0")/gate"; cat "$0.says"')
    credentials = plugin.credentials()
    asking = asyncio.create_task(credentials.headers())
    gate = await asyncio.to_thread(os.open, plugin.folder / "gate", os.O_WRONLY)  # it runs now
    credentials.refused()
    os.close(gate)
    assert (await asking)["Authorization"] == "Bearer t"
    await credentials.headers()
    assert plugin.runs == 1


async def test_a_plugin_can_give_a_client_certificate(plugin: Plugin) -> None:
    context = ClientTls(authorities=pem(AUTHORITY.certificate))
    credentials = plugin.credentials(tls=context)
    async with serving(server_context(AUTHORITY)) as server:
        for user in ("first", "second"):
            pair = AUTHORITY.client(user)
            plugin.says({"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()})
            credentials.refused()
            assert dict(await credentials.headers()) == {}
            assert await user_seen(server, context) == user


async def test_a_plugin_gets_its_arguments_its_environment_and_what_it_may_know(plugin: Plugin) -> None:
    plugin.script(
        f'''printf '{{"apiVersion":"{API_VERSIONS[1]}","kind":"ExecCredential","status":{{"token":"%s"}}}}' "$1-$X"'''
    )
    credentials = plugin.credentials(
        args=["a"], env={"X": "x"}, api_version=API_VERSIONS[1], cluster={"server": "https://s"}
    )
    assert await authorization(credentials) == "Bearer a-x"
    assert plugin.info == {
        "apiVersion": API_VERSIONS[1],
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://s"}},
    }


async def test_a_kubeconfig_with_a_plugin_next_to_it(plugin: Plugin) -> None:
    plugin.says({"token": "t"})
    entry = {
        "apiVersion": API_VERSIONS[0],
        "command": "./plugin",
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    cluster = {
        "server": "https://s",
        "certificate-authority": "ca.crt",
        "tls-server-name": "n",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    (plugin.folder / "ca.crt").write_bytes(AUTHORITY.certificate)
    content = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"exec": entry}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (plugin.folder / "config").write_text(json.dumps(content))
    config = load(kubeconfig=plugin.folder / "config", environ=os.environ)
    assert plugin.runs == 0
    assert await authorization(config.credentials) == "Bearer t"
    told = plugin.info["spec"]["cluster"]
    assert told.pop("certificate-authority-data")
    assert told == {"server": "https://s", "tls-server-name": "n", "config": {"audience": "a"}}


WRONG_STATUS = {
    "no status": (None, "printed an ExecCredential without a token or a client certificate"),
    "empty status": ({}, "printed an ExecCredential without a token or a client certificate"),
    "half a pair": ({"clientKeyData": "hush"}, "printed only one of clientCertificateData and clientKeyData"),
    "token is a number": (
        {"token": 5},
        "printed an ExecCredential that is wrong: Expected `str | null`, got `int` - at `$.status.token`",
    ),
    "bad time": (
        {"token": "hush", "expirationTimestamp": "hush"},
        "printed an ExecCredential that is wrong: Invalid RFC3339 encoded datetime - at `$.status.expirationTimestamp`",
    ),
}


@pytest.mark.parametrize(("status", "said"), WRONG_STATUS.values(), ids=WRONG_STATUS.keys())
async def test_a_credential_that_is_wrong_is_said_without_showing_it(plugin: Plugin, status: object, said: str) -> None:
    plugin.says(status)
    with pytest.raises(CredentialsError) as caught:
        await plugin.credentials().headers()
    assert str(caught.value) == f"users[me].user.exec: the command {plugin.command} {said}"


@pytest.mark.parametrize(
    ("version", "kind", "said"),
    [
        (API_VERSIONS[1], "ExecCredential", f"printed an ExecCredential of another apiVersion than {API_VERSIONS[0]}"),
        (API_VERSIONS[0], "Secret", "printed JSON that is no ExecCredential"),
    ],
    ids=["version", "kind"],
)
async def test_another_version_or_kind_is_refused(plugin: Plugin, version: str, kind: str, said: str) -> None:
    plugin.says({"token": "hush"}, version=version, kind=kind)
    with pytest.raises(CredentialsError) as caught:
        await plugin.credentials().headers()
    assert str(caught.value) == f"users[me].user.exec: the command {plugin.command} {said}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo hush-token", "did not print JSON"),
        ("printf '\\377'", "did not print JSON"),
        ("true", "did not print JSON"),
        ("echo hush; echo one >&2; echo 'log in first' >&2; echo >&2; exit 7", "failed with exit code 7: log in first"),
        (
            "printf '\\033[31mAuthorization: Bearer hush' >&2; exit 1",
            "failed with exit code 1: [31mAuthorization: Bearer ***",
        ),
        ("kill -9 $$", "failed with exit code -9"),
    ],
    ids=["text", "bytes", "nothing", "exit code", "secret", "killed"],
)
async def test_a_plugin_that_fails_is_named_with_its_last_words(plugin: Plugin, body: str, said: str) -> None:
    plugin.script(body)
    with pytest.raises(CredentialsError) as caught:
        await plugin.credentials().headers()
    assert str(caught.value) == f"users[me].user.exec: the command {plugin.command} {said}"
    assert "hush" not in str(caught.value) + repr(caught.value.__cause__) + repr(caught.value.__context__)


async def test_a_plugin_with_a_token_that_cannot_be_sent(plugin: Plugin) -> None:
    plugin.says({"token": "hush\nhush"})
    with pytest.raises(CredentialsError, match=r"status\.token: is not a token") as caught:
        await plugin.credentials().headers()
    assert "hush" not in str(caught.value)


async def test_a_plugin_with_a_certificate_that_is_damaged_fails_for_all_who_wait(plugin: Plugin) -> None:
    plugin.says({"clientCertificateData": "hush", "clientKeyData": "hush"})
    credentials = plugin.credentials(tls=ClientTls())
    found = await asyncio.gather(*(credentials.headers() for _ in range(3)), return_exceptions=True)
    assert {type(error) for error in found} == {CredentialsError}
    assert "status.clientCertificateData: holds no PEM certificate" in str(found[0])
    assert plugin.runs == 1


async def test_a_plugin_that_is_not_there_shows_how_to_install_it(plugin: Plugin) -> None:
    credentials = plugin.credentials(command="no-such-plugin", install_hint="Get it\n  from your administrator.")
    with pytest.raises(CredentialsError) as caught:
        await credentials.headers()
    assert str(caught.value) == (
        "users[me].user.exec: the command no-such-plugin was not found: Get it from your administrator."
    )


async def test_a_plugin_that_no_folder_of_the_path_has_though_one_may_not_be_entered(
    plugin: Plugin, tmp_path: Path
) -> None:
    (tmp_path / "no-such-plugin").write_text("not a program")  # the system says the same of a folder of somebody else
    credentials = plugin.credentials(command="no-such-plugin", env={"PATH": str(tmp_path)})
    with pytest.raises(CredentialsError, match=r"the command no-such-plugin was not found$"):
        await credentials.headers()


async def test_a_plugin_that_cannot_be_started(plugin: Plugin) -> None:
    plugin.command.chmod(0o600)
    with pytest.raises(CredentialsError, match=r"cannot be started: Permission denied$"):
        await plugin.credentials().headers()
    plugin.command.chmod(0o700)
    with pytest.raises(CredentialsError, match=r"cannot be started: bad argument$"):
        await plugin.credentials(args=["\0"]).headers()


async def let_time_pass(clock: VirtualClock, task: asyncio.Task[Any]) -> None:
    """Advance the clock until the task ends; a process needs real time to start."""
    while not task.done():
        await clock.advance(600)
        await asyncio.wait([task], timeout=0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_a_plugin_that_hangs_is_ended_with_what_it_started(plugin: Plugin) -> None:
    os.mkfifo(plugin.folder / "gate")
    plugin.script('sleep 1000 & echo $! > "$0.child"; echo > "$(dirname "$0")/gate"; wait')
    clock = VirtualClock()
    asking = asyncio.create_task(plugin.credentials(clock=clock).headers())
    await asyncio.to_thread((plugin.folder / "gate").read_bytes)  # its child runs now
    await let_time_pass(clock, asking)
    with pytest.raises(CredentialsError, match=r"did not end within 60 s$"):
        await asking
    child = int((plugin.folder / "plugin.child").read_text())
    async with asyncio.timeout(180):
        while alive(child):  # noqa: ASYNC110 - nothing tells of the end of a process that is not our child
            await asyncio.sleep(0.01)


async def test_a_request_that_is_cancelled_ends_its_plugin_and_the_next_runs_another(plugin: Plugin) -> None:
    os.mkfifo(plugin.folder / "gate")
    plugin.script('exec cat "$(dirname "$0")/gate"')
    credentials = plugin.credentials()
    asking = asyncio.create_task(credentials.headers())
    gate = await asyncio.to_thread(os.open, plugin.folder / "gate", os.O_WRONLY)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with pytest.raises(BrokenPipeError):  # nobody reads any more
        os.write(gate, b"x")
    os.close(gate)
    plugin.script('cat "$0.says"')
    plugin.says({"token": "t"})
    assert await authorization(credentials) == "Bearer t"


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [("Never", True, False), ("IfAvailable", False, False), ("IfAvailable", True, True), ("Always", True, True)],
)
async def test_a_plugin_is_told_whether_it_may_ask(
    plugin: Plugin, mode: str, terminal: bool, interactive: bool
) -> None:
    plugin.says({"token": "t"})
    await plugin.credentials(interactive_mode=mode, terminal=terminal).headers()
    assert plugin.info["spec"] == {"interactive": interactive}


async def test_a_plugin_that_must_ask_is_not_run_without_a_terminal(plugin: Plugin) -> None:
    with pytest.raises(CredentialsError, match=r"needs a terminal \(interactiveMode: Always\)"):
        await plugin.credentials(interactive_mode="Always").headers()
    assert plugin.runs == 0


async def test_a_plugin_that_hangs_at_a_terminal_is_ended(plugin: Plugin) -> None:
    plugin.script("exec sleep 1000")
    clock = VirtualClock()
    asking = asyncio.create_task(plugin.credentials(clock=clock, terminal=True).headers())
    await let_time_pass(clock, asking)
    with pytest.raises(CredentialsError, match=r"did not end within 600 s$"):
        await asking


async def test_a_standard_input_that_is_closed_is_no_terminal(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    plugin.says({"token": "t"})
    entry = ExecEntry(origin="o", command=str(plugin.command))
    await ExecPlugin(entry, environ=os.environ, tls=None).headers()
    assert plugin.info["spec"] == {"interactive": False}


def test_the_entry_and_the_plugin_show_no_secret(plugin: Plugin) -> None:
    entry = ExecEntry(origin="o", command="c", args=["hush"], env={"A": "hush"}, cluster={"config": "hush"})
    assert "hush" not in repr(entry) + repr(ExecPlugin(entry, environ={"A": "hush"}, tls=None))
    assert "hush" in exec_info(entry, interactive=False)


@given(life=st.floats(min_value=-1e6, max_value=1e6))
def test_a_credential_is_renewed_before_it_expires_but_most_of_its_life_is_used(life: float) -> None:
    expires = START + timedelta(seconds=life)
    renewed = renewal_time(expires, now=START)
    assert renewed is not None
    assert renewed <= expires
    assert expires - renewed <= timedelta(seconds=10)
    if life > 0:
        assert (renewed - START) >= 0.89 * (expires - START)
