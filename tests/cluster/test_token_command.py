"""`edgewright token` on both API servers: what a token may do, where, and that it ends."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from edgewright.api.capabilities import CAPABILITIES
from edgewright.api.user_roles import TokenRole, token_rules
from tests.harness import ApiServer, wait_until
from tests.unit.cli.command import edgewright, sentence

VERBS = ("get", "list", "create", "patch", "delete")
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Bearer:
    """Asks with a token and no certificate, over a connection that stays open."""

    def __init__(self, server: ApiServer, token: str) -> None:
        self._token = token
        tls = ssl.create_default_context(cafile=str(server.ca_file))
        self._connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=180, context=tls)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request: the code and what was answered."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        found = answer.status, json.loads(answer.read())
        if answer.will_close:
            self._connection.close()
        return found

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def may(self, verb: str, resource: str, group: str, namespace: str) -> bool:
        """Whether the token is good for this."""
        about = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
        code, answer = self.ask("POST", REVIEWS, {"spec": {"resourceAttributes": about}})
        assert code == 201, answer
        return bool(answer["status"]["allowed"])


def run_token(server: ApiServer, namespace: str, *words: str) -> subprocess.CompletedProcess[str]:
    return edgewright("token", *words, "-n", namespace, "--kubeconfig", server.kubeconfig, timeout=180)


@pytest.fixture
def made(api_server: ApiServer, namespace: str) -> Iterator[Callable[..., Bearer]]:
    """Makes tokens: gives who has the one that the command prints; it prints nothing else."""
    with ExitStack() as stack:

        def make(*words: str) -> Bearer:
            done = run_token(api_server, namespace, *words)
            assert done.returncode == 0, done.stderr
            assert done.stdout.count("\n") == 1
            assert done.stdout.strip() not in done.stderr
            bearer = Bearer(api_server, done.stdout.strip())
            stack.callback(bearer.close)
            return bearer

        yield make


def rights(role: TokenRole, *, namespaced: bool) -> set[tuple[str, str, str]]:
    return {
        (verb, resource, rule.groups[0])
        for rule in token_rules(role, CAPABILITIES, namespaced=namespaced)
        for verb in rule.verbs
        for resource in rule.resources
        if "/" not in resource
    }


@pytest.mark.parametrize("role", [TokenRole.VIEWER, TokenRole.OPERATOR, TokenRole.APPROVER])
def test_a_token_may_do_what_its_role_says_in_its_namespace_and_nothing_else(
    made: Callable[..., Bearer], namespace: str, role: TokenRole
) -> None:
    token = made(f"a-{role}", "--role", role, "--for", "12h")
    every = {
        (verb, resource, group) for _, resource, group in rights(TokenRole.OPERATOR, namespaced=True) for verb in VERBS
    }
    wanted = rights(role, namespaced=True)
    wait_until(lambda: token.may(*min(wanted), namespace), what="the rights are known")
    assert {each for each in every if token.may(*each, namespace)} == wanted & every
    assert not token.may(*min(wanted), "default")
    wide = {(verb, "devices", "edgewright.dev") for verb in VERBS}
    allowed = {each for each in wide if token.may(*each, "")}
    assert allowed == wide & rights(role, namespaced=False)
    for resource in ("secrets", "pods", "serviceaccounts"):
        assert not token.may("list", resource, "", namespace)


def test_an_admin_may_do_everything_in_its_namespace_or_everywhere(
    made: Callable[..., Bearer], api_server: ApiServer, namespace: str
) -> None:
    here = made("here", "--role", "admin")
    wait_until(lambda: here.may("delete", "secrets", "", namespace), what="the rights are known")
    assert not here.may("get", "secrets", "", "default")
    everywhere = made("boss", "--role", "admin", "-A")
    wait_until(lambda: everywhere.may("delete", "nodes", "", ""), what="the rights are known")
    assert run_token(api_server, namespace, "boss", "--revoke").returncode == 0


def test_a_token_is_the_accounts_and_ends_with_it(
    made: Callable[..., Bearer], api_server: ApiServer, namespace: str
) -> None:
    token = made("eve")
    code, answer = token.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert (code, answer["status"]["userInfo"]["username"]) == (201, f"system:serviceaccount:{namespace}:eve")
    assert made("eve").ask("GET", "/version")[0] == 200
    done = run_token(api_server, namespace, "eve", "--revoke")
    assert (done.returncode, done.stdout) == (0, "")
    wait_until(lambda: token.ask("GET", "/version")[0] == 401, what="the token is good no more")
    for kind in ("rolebindings", "clusterrolebindings"):
        left = api_server.request("GET", f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]
        assert not [each for each in left if f"{namespace}.eve." in each["metadata"]["name"]]
        assert not [each for each in left if each["metadata"].get("namespace") == namespace]


def test_what_is_somebody_elses_is_left_alone(
    made: Callable[..., Bearer], api_server: ApiServer, namespace: str
) -> None:
    api_server.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "robot"}})
    for words in ((), ("--revoke",)):
        assert "robot" in sentence(run_token(api_server, namespace, "robot", *words))
    made("eve", "--role", "viewer")
    assert "eve has the rights of viewer already" in sentence(
        run_token(api_server, namespace, "eve", "--role", "admin")
    )
    assert run_token(api_server, namespace, "none", "--revoke").returncode == 1
    assert run_token(api_server, namespace, "eve", "--for", "5m").returncode == 2
