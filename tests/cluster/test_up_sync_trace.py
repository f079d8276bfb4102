"""The system calls of `edgewright up` while somebody writes: no answer leaves before the disk has the write."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import ssl
import subprocess
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.access import Authority
from edgewright.runtime.clock import SystemClock
from tests.harness import wait_until
from tests.harness.processes import free_port
from tests.unit.cli.command import PROGRAM, environment

WRITES = 15
LOOKS = 20
CALLS = "recvfrom,sendto,pwrite64,fdatasync,fsync"
# `-f` writes the thread first; a call that another thread's call came in between of has two lines.
LINE = re.compile(r"^\d+ +(?:(?P<call>\w+)\((?P<rest>.*)|<\.\.\. (?P<resumed>\w+) resumed>(?P<end>.*))$")


@pytest.fixture(scope="module")
def strace() -> str:
    """The tracer, which `make cluster` has installed."""
    found = shutil.which("strace")
    if found is None:
        pytest.fail("strace is missing: run make cluster, which gets it or says how", pytrace=False)
    return found


@contextmanager
def traced(strace: str, data: Path, port: int, trace: Path) -> Iterator[None]:
    """`edgewright up` as our own child, with its system calls in a file."""
    tracing = [strace, "-D", "-f", "-yy", "-s", "0", "-e", f"trace={CALLS}", "-o", str(trace)]
    serving = [str(PROGRAM), "up", "--data", str(data), "--listen", f"127.0.0.1:{port}"]
    serving += ["--no-node", "--no-operator"]  # which would write by themselves, at any time
    process = subprocess.Popen(
        [*tracing, *serving], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(HOME=str(data))
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def test_each_acknowledgement_leaves_after_the_log_is_synced(strace: str, tmp_path: Path) -> None:
    data, trace, port = tmp_path / "data", tmp_path / "trace", free_port()
    authority = Authority(data / "pki", clock=SystemClock())
    tls = ssl.create_default_context(cafile=str(authority.file))
    tls.load_cert_chain(authority.client("test", user="admin", groups=["system:masters"]).file)
    with traced(strace, data, port, trace):
        seen: deque[str] = deque(maxlen=LOOKS)
        wait_until(lambda: at_rest(port, tls, seen), what="it is ready and writes nothing by itself", timeout=120)
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=tls, timeout=240)
        ask(connection, "GET", "/version")
        client = connection.sock.getsockname()[1]
        for number in range(WRITES):
            about = {"metadata": {"name": f"written-{number}"}, "data": {"number": str(number)}}
            ask(connection, "POST", "/api/v1/namespaces/default/configmaps", about)
            ask(connection, "PUT", f"/api/v1/namespaces/default/configmaps/written-{number}", {**about, "data": {}})
            ask(connection, "DELETE", f"/api/v1/namespaces/default/configmaps/written-{number}")
        connection.close()
    found = list(answered(trace.read_text().splitlines(), port, client))
    assert [synced for wrote, synced in found if wrote] == [True] * 3 * WRITES


def at_rest(port: int, tls: ssl.SSLContext, seen: deque[str]) -> bool:
    """Whether its own controllers have made what each namespace has, and several looks have found nothing new."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=tls, timeout=240)
    try:
        lists = [
            ask(connection, "GET", f"/api/v1/{plural}") for plural in ("namespaces", "configmaps", "serviceaccounts")
        ]
    except OSError:
        return False
    finally:
        connection.close()
    seen.append(lists[-1]["metadata"]["resourceVersion"])
    return len({len(each["items"]) for each in lists}) == 1 and seen.count(seen[0]) == LOOKS


def ask(connection: http.client.HTTPSConnection, method: str, path: str, body: object = None) -> Any:
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status < 300, text
    return json.loads(text)


def answered(lines: Iterable[str], port: int, client: int) -> Iterator[tuple[bool, bool]]:
    """For each answer to a client, from the trace: was the log written since it asked, and is all of it synced?"""
    # The server's end of this one connection; its own controllers have others.
    ours = f"[127.0.0.1:{port}->127.0.0.1:{client}]"
    wrote = unsynced = asked = False
    for line in lines:
        found = LINE.match(line)
        if found is None:
            continue
        call, rest = found["call"] or found["resumed"], found["rest"] or found["end"]
        begins, ends = found["call"] is not None, "<unfinished" not in line
        if call in {"fdatasync", "fsync"}:
            # A sync whose end stands on a line of its own does not say of what it was: no other has two lines here.
            if ends and rest.endswith("= 0") and (not begins or ".db-wal>" in rest):
                unsynced = False
        elif call == "pwrite64" and begins and ".db-wal>" in rest:
            wrote = unsynced = True
        elif call == "recvfrom" and begins and ours in rest and "EAGAIN" not in rest:
            asked, wrote = True, False
        elif call == "sendto" and begins and ours in rest and asked:
            yield wrote, not unsynced
            asked = False


TRACE = """\
7 recvfrom(9<TCP:[127.0.0.1:6443->127.0.0.1:50000]>, ""..., 32768, 0, NULL, NULL) = 200
8 pwrite64(5</data/store.db-wal>, ""..., 4120, 32) = 4120
{before}
7 sendto(9<TCP:[127.0.0.1:6443->127.0.0.1:50000]>, ""..., 300, 0, NULL, 0) = 300
{after}"""
SYNC = "8 fdatasync(5</data/store.db-wal>) = 0"
LONG_SYNC = (
    f"{SYNC.removesuffix(') = 0')} <unfinished ...>\n7 recvfrom(3<TCP:[x]>, ...) = 1\n8 <... fdatasync resumed>) = 0"
)


@pytest.mark.parametrize(
    ("before", "after", "synced"),
    [
        (SYNC, "", True),
        (LONG_SYNC, "", True),
        ("", SYNC, False),
        ("8 fdatasync(4</data/store.db>) = 0", SYNC, False),
        ("8 fdatasync(5</data/store.db-wal>) = -1 EIO (Input/output error)", "", False),
        (LONG_SYNC.splitlines()[0], LONG_SYNC.splitlines()[2], False),
    ],
    ids=["before", "before, slowly", "after", "another file", "failed", "not at its end"],
)
def test_the_check_itself_tells_a_late_sync(before: str, after: str, *, synced: bool) -> None:
    lines = TRACE.format(before=before, after=after).splitlines()
    assert list(answered(lines, 6443, 50000)) == [(True, synced)]
