"""`edgewright crds install` on both API servers: what it says, what it changes, and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewright.api import Device, FlashJob
from tests.harness import ApiServer, ControlPlane, LocalPlane, wait_until
from tests.harness.fixtures import run
from tests.unit.cli.command import edgewright, sentence

NAME = FlashJob.kind.resource
OTHER = Device.kind.resource
PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
RIVAL = f"rivals.{FlashJob.kind.group}"


@pytest.fixture(scope="module", params=[ControlPlane, LocalPlane], ids=["real", "local"])
def server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """A control plane that has no definition of ours."""
    yield from run(request, request.param)


@pytest.fixture(autouse=True)
def _nothing_installed(server: ApiServer) -> Iterator[None]:
    yield
    server.kubectl("delete", "customresourcedefinitions", NAME, OTHER, RIVAL, "--ignore-not-found")


def install(server: ApiServer, *options: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = ("crds", "install", "--controllers", "flashjob", "--kubeconfig", kubeconfig or server.kubeconfig)
    return edgewright(*command, *options, timeout=120)


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def definition(server: ApiServer) -> Any:
    return server.request("GET", PATH)


def test_what_was_not_there_is_created_and_served_when_the_command_ends(server: ApiServer) -> None:
    assert said(install(server)) == f"{NAME} created\n{OTHER} created\n"
    assert json.loads(server.kubectl("get", "flashjobs", "-A", "-o", "json").stdout)["items"] == []


def test_a_second_time_nothing_is_changed(server: ApiServer) -> None:
    install(server)
    before = definition(server)
    assert said(install(server)) == f"{NAME} unchanged\n{OTHER} unchanged\n"
    assert definition(server) == before


def test_a_dry_run_creates_nothing(server: ApiServer) -> None:
    assert said(install(server, "--dry-run")) == f"{NAME} created (dry run)\n{OTHER} created (dry run)\n"
    assert not server.exists(PATH)


def change_a_description(server: ApiServer) -> None:
    """What somebody else could have done to the definition since: it says something that ours does not say."""
    path = "/spec/versions/0/schema/openAPIV3Schema/description"
    patch = [{"op": "replace", "path": path, "value": "somebody else's"}]
    server.kubectl("patch", "customresourcedefinition", NAME, "--type=json", "-p", json.dumps(patch))


def test_what_somebody_else_changed_is_put_right_and_objects_stay(server: ApiServer) -> None:
    install(server)
    server.kubectl("apply", "-f", "config/samples/application_v1alpha1_flashjob.yaml")
    change_a_description(server)
    assert said(install(server, "--dry-run")) == f"{NAME} configured (dry run)\n{OTHER} unchanged (dry run)\n"
    assert "somebody else's" in json.dumps(definition(server))
    assert said(install(server)) == f"{NAME} configured\n{OTHER} unchanged\n"
    assert "somebody else's" not in json.dumps(definition(server))
    assert len(json.loads(server.kubectl("get", "flashjobs", "-A", "-o", "json").stdout)["items"]) == 1


def test_what_kubectl_installed_is_taken_over(server: ApiServer) -> None:
    printed = said(edgewright("crds", "print", "--controllers", "flashjob"))
    server.kubectl("apply", "--server-side", "-f", "-", input=printed)
    assert said(install(server)) == f"{NAME} unchanged\n{OTHER} unchanged\n"
    change_a_description(server)
    assert said(install(server)) == f"{NAME} configured\n{OTHER} unchanged\n"


def test_the_context_is_chosen_by_its_name(server: ApiServer, tmp_path: Path) -> None:
    content = json.loads(server.kubeconfig.read_text())
    content["contexts"][0]["name"] = "chosen"
    content["current-context"] = "another"
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(content))
    assert said(install(server, "--context", "chosen", kubeconfig=path)) == f"{NAME} created\n{OTHER} created\n"


@pytest.mark.parametrize("verbs", [(), ("get",)], ids=["who may nothing", "who may only look"])
@pytest.mark.parametrize("server", [ControlPlane], ids=["real"], indirect=True)  # ours lets everybody do everything
def test_somebody_who_may_not_gets_one_sentence(server: ApiServer, verbs: tuple[str, ...]) -> None:
    if verbs:
        role = "customresourcedefinitions.apiextensions.k8s.io"
        server.kubectl("create", "clusterrole", "looking", f"--verb={','.join(verbs)}", f"--resource={role}")
        server.kubectl("create", "clusterrolebinding", "looking", "--clusterrole=looking", "--user=onlooker")
    onlooker = server.kubeconfig_for("onlooker")
    verb = "patch" if verbs else "get"

    def refusal() -> subprocess.CompletedProcess[str] | None:
        done = install(server, kubeconfig=onlooker)
        return done if f"cannot {verb} " in done.stderr else None  # the server takes a moment to learn of a new role

    refused = wait_until(refusal, what=f"the server refuses to {verb}")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert ": 403 " in sentence(refused)
    assert 'User "onlooker"' in sentence(refused)
    assert not server.exists(PATH)


def test_credentials_that_the_server_does_not_know_get_one_sentence(server: ApiServer) -> None:
    done = install(server, kubeconfig=server.kubeconfig_with({"token": "not-a-token-of-this-server"}))
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence(done).endswith(": 401 Unauthorized")
    assert "not-a-token" not in done.stderr


def test_a_kind_of_somebody_else_with_our_name_is_named_in_the_sentence(server: ApiServer) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    rival = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": RIVAL},
        "spec": {
            "group": FlashJob.kind.group,
            "scope": "Namespaced",
            "names": {"kind": "FlashJob", "plural": "rivals", "singular": "rival"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    server.kubectl("create", "-f", "-", input=json.dumps(rival))
    server.until_served(RIVAL)
    done = install(server)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence(done).startswith(f'{NAME}: "FlashJobList" is already in use')
