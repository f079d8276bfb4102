"""What containers are given: programs, environment, sources and volumes; and what the node refuses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.node.container_start import (
    hidden_programs,
    needs_scratch_of_the_machine,
    program_files,
    user_of,
)
from edgewright.local.node.environment import command_line, environment, expand
from edgewright.local.node.images import not_here, program_for
from edgewright.local.node.pod_ids import PodIds
from edgewright.local.node.pods import Pod, is_sidecar, parse_time, rfc3339
from edgewright.local.node.refusals import refusal
from edgewright.local.node.sources import Missing, Sources, Tokens, pod_field, quantity, resource_field
from edgewright.local.node.volumes import (
    File,
    Mount,
    Owner,
    files_of,
    make_empty,
    make_sub_path,
    mounts_of,
    resources_of,
    write_files,
)
from edgewright.runtime.clock import VirtualClock
from tests.unit.local.node import fakeapi
from tests.unit.local.node.fakeapi import FakeApi
from tests.unit.local.node.podspecs import NOW, pod


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("tool", "plain"),
        ("tool:v2", "plain"),
        ("tool:v1", "exact"),
        ("docker.io/library/tool", "plain"),
        ("registry.example:5000/tool:v9@sha256:abc", "plain"),
        ("localhost/tool", "plain"),
        ("registry.example/team/tool", "team"),
        ("other/tool", None),
        ("toolbox", None),
    ],
)
def test_an_image_is_found_by_its_most_exact_name(image: str, program: str | None) -> None:
    images = {"tool": ["plain"], "tool:v1": ["exact"], "team/tool": ["team"]}
    found = program_for(image, images)
    assert (found[0] if found else None) == program


def test_an_image_that_is_not_here_says_what_is() -> None:
    assert "it can run a, b" in not_here("x", {"b": [], "a": []})
    assert "no image at all" in not_here("x", {})


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("$(A)$(B)", "12"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(NONE)", "$(NONE)"),
        ("$A $ $( )", "$A $ $( )"),
        ("$$", "$"),
        ("a$(A", "a$(A"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expanded


@given(st.text(alphabet="ab ()-", max_size=30))
def test_a_text_without_a_dollar_is_left_alone(text: str) -> None:
    assert expand(text, {"a": "1"}) == text


@pytest.mark.parametrize(
    ("container", "line"),
    [
        ({}, ["program", "x"]),
        ({"args": ["$(A)"]}, ["program", "x", "1"]),
        ({"command": ["other"]}, ["other"]),
        ({"command": ["other"], "args": ["y"]}, ["other", "y"]),
    ],
)
def test_a_command_replaces_the_program_of_the_image(container: dict[str, Any], line: list[str]) -> None:
    assert command_line(container, ["program", "x"], {"A": "1"}) == line


def test_an_image_without_a_program_needs_a_command() -> None:
    with pytest.raises(Missing, match="no command is given"):
        command_line({"name": "main"}, [], {})


def sources(api: FakeApi, what: Pod | None = None) -> Sources:
    client = api.client()
    fields = {"status.podIP": "127.1.2.3"}
    return Sources(client, what or pod(), fields=fields, tokens=Tokens(client, VirtualClock()))


def path(plural: str, name: str) -> str:
    return f"/api/v1/namespaces/default/{plural}/{name}"


async def test_an_environment_is_the_base_then_whole_objects_then_single_values() -> None:
    api = FakeApi()
    api.put(path("configmaps", "c"), {"data": {"a": "1"}, "binaryData": {"b": "//8="}})
    api.put(path("secrets", "s"), {"data": {"k": "dmFsdWU="}})
    container = {
        "envFrom": [
            {"configMapRef": {"name": "c"}, "prefix": "P_"},
            {"secretRef": {"name": "s", "optional": True}},
            {},
        ],
        "env": [
            {"name": "A", "value": "$(P_a)$(BASE)"},
            {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
            {"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "N", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}}},
        ],
    }
    found = await environment(container, sources(api), base={"BASE": "0"}, capacity={"memory": "2Ki"})
    assert found == {
        "BASE": "0", "P_a": "1", "P_b": "\ufffd\ufffd", "k": "value",
        "A": "10", "F": "127.1.2.3", "R": "2048", "K": "value",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "k"}}, 'configmap "none" not found'),
        ({"secretKeyRef": {"name": "none", "key": "k"}}, 'secret "none" not found'),
        ({"configMapKeyRef": {"name": "c", "key": "other"}}, "couldn't find key other in ConfigMap c"),
        ({"fieldRef": {"fieldPath": "spec.nothing"}}, "not supported"),
        ({"fileKeyRef": {}}, "fileKeyRef, which this node does not support"),
    ],
    ids=["config map", "secret", "key", "field", "kind"],
)
async def test_what_is_missing_is_named(variable: dict[str, Any], message: str) -> None:
    api = FakeApi()
    api.put(path("configmaps", "c"), {"data": {"a": "1"}})
    container = {"env": [{"name": "A", "valueFrom": variable}]}
    with pytest.raises(Missing, match=message):
        await environment(container, sources(api), base={}, capacity={})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("metadata.name", "pod"),
        ("metadata.uid", "u"),
        ("metadata.namespace", "default"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "ip"),
        ("metadata.labels['a']", "1"),
        ("metadata.labels['none']", ""),
        ("metadata.labels", 'a="1"\nb="x\\"\\ny"'),
        ("metadata.annotations['n']", "note"),
    ],
)
def test_fields_of_the_pod(field: str, value: str) -> None:
    metadata = {"labels": {"b": 'x"\ny', "a": "1"}, "annotations": {"n": "note"}}
    what = pod(metadata=metadata, serviceAccountName="robot")
    assert pod_field(what, field, {"status.podIP": "ip"}) == value


@pytest.mark.parametrize(
    ("text", "number"), [("2", 2), ("500m", 0.5), ("1Ki", 1024), ("3M", 3e6), (4, 4), ("1.5Gi", 1.5 * 2**30)]
)
def test_quantities(text: object, number: float) -> None:
    assert quantity(text) == number


def test_what_is_no_quantity_is_said() -> None:
    with pytest.raises(Missing, match="not a quantity"):
        quantity("many")


def test_a_limit_that_is_not_set_is_the_nodes() -> None:
    assert resource_field({}, "limits.cpu", "1m", {"cpu": "2"}) == "2000"
    assert resource_field({}, "requests.cpu", "0", {"cpu": "2"}) == "0"


async def test_a_token_is_asked_for_this_pod_only() -> None:
    api = FakeApi()
    assert await sources(api).token(audience="a", seconds=600) == b"a token"
    spec = api.writes[-1][2]["spec"]
    assert spec["audiences"] == ["a"]
    assert spec["boundObjectRef"]["uid"] == "u"
    api.failures.append(("POST", "/token", fakeapi.refusal(404, "NotFound")))
    with pytest.raises(Missing, match="no token"):
        await sources(api).token(audience=None, seconds=600)


async def test_a_token_is_renewed_when_most_of_its_life_is_over_and_forgotten_with_its_pod() -> None:
    api = FakeApi()
    clock = VirtualClock()
    tokens = Tokens(api.client(), clock)
    for wait, asked in ((0, 1), (799, 1), (1, 2)):
        await clock.advance(wait)
        await tokens.get(pod(), audience=None, seconds=1000)
        assert len(api.writes) == asked
    tokens.forget("u")
    await tokens.get(pod(), audience=None, seconds=1000)
    assert len(api.writes) == 3


# --- volumes ---------------------------------------------------------------------------------------------------------


async def files(api: FakeApi, volume: dict[str, Any], what: Pod | None = None) -> dict[str, File] | None:
    resources = resources_of({"main": {"resources": {"limits": {"cpu": "1"}}}}, {})
    return await files_of(volume, sources(api, what), resources)


async def test_the_files_of_each_kind_of_volume() -> None:
    api = FakeApi()
    api.put(path("configmaps", "c"), {"data": {"a": "1", "b": "2"}})
    api.put(path("secrets", "s"), {"data": {"k": "dmFsdWU="}})
    assert await files(api, {"emptyDir": {}}) is None
    assert await files(api, {"configMap": {"name": "c"}}) == {"a": File(b"1"), "b": File(b"2")}
    picked = {"configMap": {"name": "c", "items": [{"key": "b", "path": "x/y", "mode": 0o400}]}}
    assert await files(api, picked) == {"x/y": File(b"2", 0o400)}
    assert await files(api, {"secret": {"secretName": "s", "defaultMode": 0o600}}) == {"k": File(b"value", 0o600)}
    downward = {"items": [
        {"path": "n", "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "c", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}, "mode": 0o444},
    ]}  # fmt: skip
    assert await files(api, {"downwardAPI": downward}) == {"n": File(b"pod"), "c": File(b"1", 0o444)}
    projected = {"sources": [{"secret": {"name": "s"}}, {"serviceAccountToken": {"path": "token"}}]}
    assert await files(api, {"projected": projected}) == {"k": File(b"value"), "token": File(b"a token")}
    optional = {"secret": {"secretName": "none", "optional": True, "items": [{"key": "k", "path": "p"}]}}
    assert await files(api, optional) == {}


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "none"}}, "not found"),
        ({"configMap": {"name": "c", "items": [{"key": "z", "path": "p"}]}}, "has no key z"),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "../p"}]}}, "not a path inside"),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "/p"}]}}, "not a path inside"),
        (
            {"downwardAPI": {"items": [{"path": "c", "resourceFieldRef": {"containerName": "no", "resource": "x"}}]}},
            "names no container",
        ),
    ],
    ids=["object", "key", "up", "absolute", "container"],
)
async def test_a_volume_that_cannot_be_made_says_why(volume: dict[str, Any], message: str) -> None:
    api = FakeApi()
    api.put(path("configmaps", "c"), {"data": {"a": "1"}})
    with pytest.raises(Missing, match=message):
        await files(api, volume)


def content(folder: Path) -> dict[str, str]:
    return {
        str(each.relative_to(folder)): each.read_text()
        for each in sorted(folder.rglob("*"))
        if each.is_file() and ".." not in str(each.relative_to(folder))
    }


def test_files_are_changed_all_at_once_and_left_alone_when_nothing_changed(tmp_path: Path) -> None:
    place = tmp_path / "v"
    assert write_files(place, {"a": File(b"1"), "d/b": File(b"2", 0o600)})
    assert content(place) == {"a": "1"} | {"d/b": "2"} or (place / "d" / "b").read_text() == "2"
    version = (place / "..data").readlink()
    assert not write_files(place, {"a": File(b"1"), "d/b": File(b"2", 0o600)})
    assert (place / "..data").readlink() == version
    assert write_files(place, {"a": File(b"changed")})
    assert (place / "a").read_text() == "changed"
    assert sorted(each.name for each in place.iterdir() if not each.name.startswith("..")) == ["a"]
    assert not (place / version).exists()


def test_files_belong_to_the_pods_user_and_a_shared_group_may_read_them(tmp_path: Path) -> None:
    owner = Owner(os.getuid(), os.getgid(), shared=True)
    write_files(tmp_path / "v", {"a": File(b"1", 0o400)}, owner=owner)
    assert (tmp_path / "v" / "a").stat().st_mode & 0o777 == 0o440


def test_an_empty_folder_is_open_to_all_and_belongs_to_the_group(tmp_path: Path) -> None:
    make_empty(tmp_path / "e", group=os.getgid())
    assert (tmp_path / "e").stat().st_mode & 0o7777 == 0o2777


def test_mounts_say_what_goes_where(tmp_path: Path) -> None:
    spec = {"volumes": [{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {}}]}
    for name in ("e", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "c" / "file").touch()
    container = {
        "name": "main",
        "volumeMounts": [
            {"name": "e", "mountPath": "/e/"},
            {"name": "e", "mountPath": "/sub", "subPathExpr": "$(A)/deep"},
            {"name": "c", "mountPath": "relative", "subPath": "file"},
        ],
    }
    found = mounts_of(container, spec, tmp_path, {"A": "x"})
    assert [(str(each.source.relative_to(tmp_path)), each.inside, each.path, each.read_only) for each in found] == [
        ("e", "", "/e", False),
        ("e", "x/deep", "/sub", False),
        ("c/file", "", "/relative", True),
    ]
    assert (tmp_path / "e" / "x" / "deep").stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize("sub", ["link/new", "link", "a/link/new", "gone/new"])
def test_a_link_that_a_pod_has_put_into_its_volume_leads_the_node_nowhere(tmp_path: Path, sub: str) -> None:
    volume, outside = tmp_path / "v", tmp_path / "outside"
    (volume / "a").mkdir(parents=True)
    outside.mkdir()
    for place in (volume / "link", volume / "a" / "link"):
        place.symlink_to(outside)
    (volume / "gone").symlink_to(outside / "not-yet")
    with pytest.raises(Missing, match="leads out of its volume"):
        make_sub_path(volume, sub)
    assert list(outside.iterdir()) == []


def test_a_file_in_a_volume_can_be_mounted_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    make_sub_path(tmp_path, "./file")
    assert (tmp_path / "file").read_text() == "content"


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ({"name": "none", "mountPath": "/x"}, "no volume none"),
        ({"name": "c", "mountPath": "/x", "subPath": "absent"}, "not in its volume"),
        ({"name": "c", "mountPath": "/x", "subPath": "link"}, "leads out"),
        ({"name": "c", "mountPath": "/x", "subPath": "../up"}, "not a path inside"),
    ],
    ids=["volume", "absent", "link", "up"],
)
def test_a_mount_that_cannot_be_made_says_why(tmp_path: Path, mount: dict[str, Any], message: str) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "link").symlink_to("/etc")
    with pytest.raises(Missing, match=message):
        mounts_of({"name": "m", "volumeMounts": [mount]}, {"volumes": [{"name": "c", "configMap": {}}]}, tmp_path, {})


# --- who they run as, and what is refused ----------------------------------------------------------------------------


def test_a_container_runs_as_whom_the_pod_says_else_as_the_pods_own_user() -> None:
    assert user_of(pod(), {}, 0) is None
    assert user_of(pod(), {}, 77) == {"uid": 77, "gid": 77, "groups": []}
    assert user_of(pod(securityContext={"runAsUser": 5}), {}, 0) == {"uid": 5, "gid": 65534, "groups": []}
    chosen = pod(securityContext={"runAsUser": 5, "fsGroup": 6, "supplementalGroups": [7]})
    assert user_of(chosen, {"securityContext": {"runAsUser": 8, "runAsGroup": 9}}, 77) == {
        "uid": 8, "gid": 9, "groups": [7, 6],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"hostPID": True}, "HostAccessRefused"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "HostPathRefused"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}, "VolumeNotSupported"),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {}}]}}]}, "VolumeNotSupported"),
        ({"containers": [{"name": "c", "securityContext": {"privileged": True}}]}, "PrivilegedRefused"),
        ({"containers": [{"name": "c", "securityContext": {"capabilities": {"add": ["A"]}}}]}, "PrivilegedRefused"),
        ({"containers": [{"name": "c", "volumeDevices": [{}]}]}, "VolumeNotSupported"),
        ({"containers": [{"name": "c", "lifecycle": {"preStop": {}}}]}, "NotSupported"),
        ({"containers": [{"name": "c", "restartPolicy": "Never"}]}, "NotSupported"),
        ({"securityContext": {"runAsUser": 0}}, "RunAsUserRefused"),
        ({"ephemeralContainers": [{}]}, "NotSupported"),
    ],
)
def test_what_this_node_does_not_do_is_refused(spec: dict[str, Any], reason: str) -> None:
    found = refusal(pod(**spec), root=True)
    assert found is not None
    assert found.reason == reason


def test_an_ordinary_pod_is_not_refused_and_users_only_where_they_cannot_be_changed() -> None:
    fine = pod(volumes=[{"name": "v", "emptyDir": {}}], securityContext={"runAsUser": 5})
    assert refusal(fine, root=True) is None
    refused = refusal(fine, root=False)
    assert refused is not None
    assert "does not run as root" in refused.message


def test_the_files_of_a_mapped_program_are_those_that_its_command_names_and_that_are_there(tmp_path: Path) -> None:
    program, script, other = (tmp_path / name for name in ("python", "script.py", "absent.py"))
    for file in (program, script):
        file.touch()
    command = [str(program), str(script), str(other), "script.py", str(tmp_path), str(script)]
    assert program_files(command, []) == [program, script]
    assert program_files(command, [tmp_path]) == program_files([], []) == []


def test_programs_that_a_volume_would_hide_are_shown_again(tmp_path: Path) -> None:
    inner, file, other = tmp_path / "a/program", tmp_path / "a/script.py", tmp_path / "b"
    volume = Mount(Path("/volume"), str(tmp_path / "a"), False)
    at_the_program = Mount(Path("/volume"), str(other), False)
    found = hidden_programs([inner, file, other], [volume, at_the_program])
    assert found == [Mount(inner, str(inner), False), Mount(file, str(file), False)]
    assert hidden_programs([inner, file, other], []) == []


def test_programs_in_a_scratch_folder_keep_containers_from_having_their_own() -> None:
    assert not needs_scratch_of_the_machine({"a": ["/bin/sh"], "b": []}, [Path("/usr")])
    assert needs_scratch_of_the_machine({"a": [str(Path("/tmp") / "program")]}, [])
    assert needs_scratch_of_the_machine({"a": ["/bin/sh", str(Path("/tmp") / "script")]}, [])
    assert needs_scratch_of_the_machine({}, [Path("/var/tmp/python")])


async def test_what_the_node_may_not_read_is_missing_for_now() -> None:
    api = FakeApi()
    api.failures.append(("GET", "/secrets/s", fakeapi.refusal(403, "Forbidden", "not yours")))
    with pytest.raises(Missing, match="not yours"):
        await sources(api).secret("s", optional=True)
    assert await sources(api).config_map("none", optional=True) is None


def test_times_and_small_questions() -> None:
    assert rfc3339(NOW) == "2026-01-01T12:00:00Z"
    assert parse_time("2026-01-01T12:00:00Z") == NOW
    assert parse_time(None) is None
    assert is_sidecar({"restartPolicy": "Always"})
    assert not is_sidecar({})
    assert pod("a").container("a") == {"name": "a", "image": "sh"}
    assert pod("a").container("b") is None


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"securityContext": {"runAsGroup": 0}}, "RunAsGroupRefused"),
        ({"securityContext": {"runAsUser": 1000}}, "RunAsUserRefused"),
        ({"securityContext": {"supplementalGroups": [42]}}, "RunAsGroupRefused"),
        ({"securityContext": {"fsGroup": 0}}, "RunAsGroupRefused"),
        ({"containers": [{"name": "c", "securityContext": {"runAsGroup": 42}}]}, "RunAsGroupRefused"),
        ({"securityContext": {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532}}, None),
        ({"securityContext": {"runAsUser": 2_000_000_007}}, None),
    ],
)
def test_users_and_groups_of_the_machine_are_refused_to_pods(spec: dict[str, Any], reason: str | None) -> None:
    found = refusal(pod(**spec), root=True, ids=PodIds())
    assert (found and found.reason) == reason
