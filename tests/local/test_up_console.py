"""The console in `edgewright up`: its link works once, its user is the kubeconfig's, and it ends with the rest."""

from __future__ import annotations

import http.client
import json
import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.harness import wait_until
from tests.local.up import Up, asked, up

LINK = re.compile(r"^  (http://127\.0\.0\.1:\d+)/sign-in#(\S+)$", re.MULTILINE)


def told(running: Up) -> tuple[str, str]:
    """Where the console serves, and the secret of its link."""

    def link() -> tuple[str, str] | None:
        assert running.process.poll() is None, running.complained
        found = LINK.search(running.said)
        return (found[1], found[2]) if found and "Ctrl-C" in running.said else None

    return wait_until(link, what="it prints the link")


def call(url: str, method: str, path: str, body: Any = None, *, cookie: str = "") -> tuple[int, Any, str]:
    """Status, body and cookie of an answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    try:
        given = {"Content-Type": "application/json", **({"Cookie": cookie} if cookie else {})}
        connection.request(method, path, None if body is None else json.dumps(body), given)
        answer = connection.getresponse()
        text = answer.read()
        shown = json.loads(text) if text and "json" in answer.headers["Content-Type"] else text
        return answer.status, shown, answer.headers.get("Set-Cookie", "").partition(";")[0]
    finally:
        connection.close()


@pytest.mark.parametrize("merge", [False, True], ids=["own kubeconfig", "merged kubeconfig"])
def test_the_link_signs_in_as_the_user_of_the_kubeconfig_and_the_port_closes_with_it(
    merge: bool, tmp_path: Path
) -> None:
    arguments = ["--listen", "127.0.0.1:0", "--no-node", "--console", "--console-listen", "127.0.0.1:0"]
    kubeconfig = tmp_path / "config"
    if merge:
        # Somebody else's context is the current one: the console must take ours all the same.
        kubeconfig.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "other", "cluster": {"server": "https://other.invalid"}}],
                    "users": [{"name": "other", "user": {}}],
                    "contexts": [{"name": "other", "context": {"cluster": "other", "user": "other"}}],
                    "current-context": "other",
                }
            )
        )
        arguments.append("--merge")
    with up(tmp_path, *arguments, "--kubeconfig", kubeconfig) as running:
        assert running.url
        url, secret = told(running)
        assert call(url, "GET", "/api/v1/me")[0] == 401
        status, _, cookie = call(url, "POST", "/api/v1/session", {"secret": secret})
        assert (status, cookie.startswith("__Host-")) == (204, True)
        assert call(url, "POST", "/api/v1/session", {"secret": secret})[0] == 401
        status, me, _ = call(url, "GET", "/api/v1/me", cookie=cookie)
        assert (status, me["user"]["name"]) == (200, "kubernetes-admin")
        frozen = {"spec": {"frozen": True, "reason": "a storm"}}
        assert call(url, "PUT", "/api/v1/fleets/fleet", frozen, cookie=cookie)[0] == 201
        context = "edgewright" if merge else None
        fleet = asked(kubeconfig, "/apis/edgewright.dev/v1alpha1/fleets/fleet", context=context)
        assert fleet["spec"]["reason"] == "a storm"
        assert secret not in running.said.replace(f"{url}/sign-in#{secret}", "") + running.complained
        assert running.end() == 0, running.complained
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)):
        pass
