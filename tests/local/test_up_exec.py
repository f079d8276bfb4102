"""Sessions in a Pod that is a process, through the API server, as `kubectl exec` asks for them."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from typing import Any

import aiohttp
import pytest

from tests.harness import LocalPlane
from tests.harness.waiting import wait_until_async
from tests.local.test_up_node import NODE, PODS, pod, seen

STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
PROTOCOL = "v5.channel.k8s.io"


async def execute(plane: LocalPlane, *command: str, typed: bytes | None = None, part: str = "exec") -> dict[int, bytes]:
    """Runs a command in the Pod `sleeper`; what came on each channel."""
    query = [("command", each) for each in command] + [("stdout", "true"), ("stderr", "true")]
    query += [("stdin", "true")] if typed is not None else []
    found: dict[int, bytes] = {}
    async with (
        asyncio.timeout(120),
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"{plane.server}{PODS}/sleeper/{part}",
            params=query,
            protocols=[PROTOCOL],
            ssl=plane.admin_tls,
        ) as socket,
    ):
        assert socket.protocol == PROTOCOL
        below = socket.get_extra_info("socket")
        if typed is not None:
            await socket.send_bytes(bytes([STDIN]) + typed)
            await socket.send_bytes(bytes([CLOSE, STDIN]))
        async for message in socket:
            found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    await wait_until_async(lambda: below.fileno() == -1, what="the connection is closed")  # TLS says good-bye first
    return found


def status(found: dict[int, bytes]) -> dict[str, Any]:
    """How it ended."""
    told: dict[str, Any] = json.loads(found[ERROR])
    return told


@pytest.mark.parametrize("own_plane", [NODE], indirect=True, ids=["with a node"])
def test_a_command_runs_next_to_the_program_with_input_output_and_its_code(own_plane: LocalPlane) -> None:
    own_plane.request("POST", PODS, pod("sleeper"))
    seen(own_plane, "sleeper", "Running")
    said = asyncio.run(execute(own_plane, "sh", "-c", "echo $HOSTNAME; echo no >&2; exit 3"))
    assert (said[STDOUT], said[STDERR]) == (b"sleeper\n", b"no\n")
    assert status(said)["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    typed = asyncio.run(execute(own_plane, "cat", typed=b"what is typed"))
    assert (typed[STDOUT], status(typed)["status"]) == (b"what is typed", "Success")
    assert "cannot be attached to" in status(asyncio.run(execute(own_plane, part="attach")))["message"]


@pytest.mark.parametrize("own_plane", [NODE], indirect=True, ids=["with a node"])
def test_who_may_not_create_a_session_gets_none_by_a_get_either(own_plane: LocalPlane) -> None:
    own_plane.request("POST", PODS, pod("sleeper"))
    seen(own_plane, "sleeper", "Running")
    rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]
    base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    own_plane.request("POST", f"{base}/roles", {"metadata": {"name": "looks"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "looks"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
    binding = {"metadata": {"name": "looks"}, "roleRef": reference, "subjects": [subject]}
    own_plane.request("POST", f"{base}/rolebindings", binding)
    made = own_plane.client_certificate("ann")
    file = own_plane.directory / "ann.pem"
    file.write_bytes(made.certificate + made.key)
    tls = ssl.create_default_context(cafile=str(own_plane.ca_file))
    tls.load_cert_chain(file)
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Protocol": PROTOCOL}
    asked = urllib.request.Request(f"{own_plane.server}{PODS}/sleeper/exec?command=id", headers=headers)
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(asked, context=tls, timeout=60)
    with refused.value as answer:
        assert 'cannot create resource \\"pods/exec\\"' in answer.read().decode()


@pytest.mark.parametrize("own_plane", [NODE], indirect=True, ids=["with a node"])
def test_a_session_without_an_upgrade_or_a_command_is_refused_with_a_sentence(own_plane: LocalPlane) -> None:
    own_plane.request("POST", PODS, pod("sleeper"))
    seen(own_plane, "sleeper", "Running")
    for query, why in (("command=id", "only WebSockets"), ("", "at least 1 command")):
        with pytest.raises(AssertionError, match=why):
            own_plane.request("GET", f"{PODS}/sleeper/exec?{query}")
