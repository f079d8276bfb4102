"""The volume with a token that a new Pod gets."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.local.builtin.podtokens import FOLDER, mount


def spec(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}], **more}


def mounts(pod: dict[str, Any]) -> list[list[str]]:
    containers = [*pod["initContainers"], *pod["containers"]]
    return [[each["mountPath"] for each in container.get("volumeMounts", ())] for container in containers]


def test_every_container_gets_the_token_read_only() -> None:
    pod = spec()
    mount(pod, {})
    (volume,) = pod["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert mounts(pod) == [[FOLDER]] * 3
    assert pod["containers"][0]["volumeMounts"] == [{"name": volume["name"], "readOnly": True, "mountPath": FOLDER}]


def test_what_is_mounted_there_stays_and_a_volume_that_is_there_is_used() -> None:
    own = {"name": "own", "mountPath": FOLDER}
    pod = spec(volumes=[{"name": "kube-api-access-mine"}])
    pod["containers"][0]["volumeMounts"] = [own]
    mount(pod, {})
    assert pod["containers"][0]["volumeMounts"] == [own]
    assert pod["containers"][1]["volumeMounts"][0]["name"] == "kube-api-access-mine"
    assert len(pod["volumes"]) == 1


@pytest.mark.parametrize(
    ("pod", "account", "mounted"),
    [(None, None, True), (False, None, False), (None, False, False), (True, False, True), (False, True, False)],
)
def test_the_pod_has_the_last_word_then_its_account(pod: bool | None, account: bool | None, mounted: bool) -> None:
    made = spec(**({} if pod is None else {"automountServiceAccountToken": pod}))
    mount(made, {} if account is None else {"automountServiceAccountToken": account})
    assert ("volumes" in made) is mounted
