"""The official Python client works unchanged on both API servers: typed, custom and dynamic objects, watches and logs.

Each test runs on the real kube-apiserver and on `edgewright up`, both with our node, since logs come from one.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import kubernetes
import pytest
from kubernetes import config, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.leaderelection import electionconfig
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from tests.cluster.nodes import RunningNode
from tests.harness import ApiServer, ControlPlane, LocalPlane, wait_until

client: Any = kubernetes.client  # its types let every field be None: each step here would have to say that it is not
NODE = "official-client"
SHELL = "shell"
GROUP = "official.example.io"
WIDGETS = {"group": GROUP, "version": "v1", "plural": "widgets"}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "minimum": 0, "default": 1},
                                    "colour": {"type": "string"},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module", params=["real", "local"])
def api_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Each API server in turn, with a node that runs shell scripts."""
    if request.param == "local":
        with LocalPlane(node=True, arguments=("--node-name", NODE, "--image", f"{SHELL}=/bin/sh -c")) as plane:
            yield plane
        return
    cluster: ControlPlane = request.getfixturevalue("cluster")
    ids = "1000-9999" if os.geteuid() == 0 else None
    images = {SHELL: ["/bin/sh", "-c"]}
    node = RunningNode(cluster, tmp_path_factory.mktemp("node"), name=NODE, ids=ids, images=images)
    try:
        node.start()
        yield cluster
    finally:
        node.stop()
    cluster.request("DELETE", f"/api/v1/nodes/{NODE}")


@pytest.fixture(scope="module")
def api(api_server: ApiServer) -> Iterator[Any]:
    """The client, set up from a kubeconfig as everybody does it."""
    with config.new_client_from_config(str(api_server.kubeconfig)) as made:
        yield made
        made.rest_client.pool_manager.clear()


@pytest.fixture
def core(api: Any) -> Any:
    """The part of the client for the oldest kinds."""
    return client.CoreV1Api(api)


@pytest.fixture(scope="module")
def widgets(api: Any) -> Iterator[Any]:
    """A custom kind, made with the client too."""
    definitions = client.ApiextensionsV1Api(api)
    definitions.create_custom_resource_definition(DEFINITION)
    name = DEFINITION["metadata"]["name"]

    def established() -> bool:
        conditions = definitions.read_custom_resource_definition(name).status.conditions or []
        return any((each.type, each.status) == ("Established", "True") for each in conditions)

    wait_until(established, what="widgets are served")
    yield client.CustomObjectsApi(api)
    definitions.delete_custom_resource_definition(name)


def config_map(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": name}), data=data)


def shell_pod(name: str, script: str, **spec: Any) -> Any:
    container = client.V1Container(name="main", image=SHELL, args=[script])
    settings = {"node_name": NODE, "restart_policy": "Never", "automount_service_account_token": False, **spec}
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name), spec=client.V1PodSpec(containers=[container], **settings)
    )


OBJECTS: dict[str, Callable[[], Any]] = {
    "config_map": lambda: config_map("it", a="1"),
    "secret": lambda: client.V1Secret(metadata=client.V1ObjectMeta(name="it"), string_data={"key": "value"}),
    "service_account": lambda: client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="it")),
    "service": lambda: client.V1Service(
        metadata=client.V1ObjectMeta(name="it"),
        spec=client.V1ServiceSpec(selector={"app": "it"}, ports=[client.V1ServicePort(port=80, target_port="http")]),
    ),
    "pod": lambda: shell_pod("it", "sleep 600", node_name=None, scheduler_name="nobody"),
    "pod_template": lambda: client.V1PodTemplate(
        metadata=client.V1ObjectMeta(name="it"),
        template=client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels={"app": "it"}),
            spec=client.V1PodSpec(containers=[client.V1Container(name="main", image=SHELL)]),
        ),
    ),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_of_built_in_kinds_are_made_read_changed_and_deleted(core: Any, namespace: str, kind: str) -> None:
    def call(verb: str, *arguments: Any, **options: Any) -> Any:
        return getattr(core, f"{verb}_namespaced_{kind}")(*arguments, **options)

    made = call("create", namespace, OBJECTS[kind]())
    assert (made.metadata.name, made.metadata.namespace) == ("it", namespace)
    assert made.metadata.uid
    assert call("read", "it", namespace).metadata.uid == made.metadata.uid
    assert "it" in [each.metadata.name for each in call("list", namespace).items]
    patched = call("patch", "it", namespace, {"metadata": {"labels": {"patched": "yes"}}})
    assert patched.metadata.labels["patched"] == "yes"
    patched.metadata.annotations = {"replaced": "yes"}
    replaced = call("replace", "it", namespace, patched)
    assert replaced.metadata.annotations == {"replaced": "yes"}
    with pytest.raises(ApiException) as conflict:
        call("replace", "it", namespace, patched)
    assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")
    call("delete", "it", namespace, grace_period_seconds=0)
    with pytest.raises(ApiException) as missing:
        call("read", "it", namespace)
    assert missing.value.status == 404


def test_what_the_server_fills_in_comes_back_typed(core: Any, namespace: str) -> None:
    service = core.create_namespaced_service(namespace, OBJECTS["service"]())
    assert service.spec.type == "ClusterIP"
    assert service.spec.cluster_ip
    assert (service.spec.ports[0].protocol, service.spec.ports[0].target_port) == ("TCP", "http")
    secret = core.create_namespaced_secret(namespace, OBJECTS["secret"]())
    assert base64.b64decode(secret.data["key"]) == b"value"
    assert (secret.type, secret.metadata.creation_timestamp.tzinfo is not None) == ("Opaque", True)
    pod = core.create_namespaced_pod(namespace, OBJECTS["pod"]())
    assert (pod.status.phase, pod.spec.dns_policy, pod.status.qos_class) == ("Pending", "ClusterFirst", "BestEffort")


def test_a_wrong_object_is_refused_with_a_status(core: Any, namespace: str) -> None:
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_config_map(namespace, config_map("Not_a_name"))
    assert (refused.value.status, refused.value.reason) == (422, "Unprocessable Entity")
    assert '"field":"metadata.name"' in str(refused.value.body)


PATCHES: dict[str, tuple[str, Any, dict[str, str]]] = {
    "merge": ("application/merge-patch+json", {"data": {"a": None, "b": "2"}}, {"b": "2"}),
    "strategic": ("application/strategic-merge-patch+json", {"data": {"b": "2"}}, {"a": "1", "b": "2"}),
    "JSON": ("application/json-patch+json", [{"op": "replace", "path": "/data/a", "value": "3"}], {"a": "3"}),
}


@pytest.mark.parametrize("kind", PATCHES)
def test_every_kind_of_patch(core: Any, namespace: str, kind: str) -> None:
    media, patch, data = PATCHES[kind]
    core.create_namespaced_config_map(namespace, config_map("it", a="1"))
    assert core.patch_namespaced_config_map("it", namespace, patch, _content_type=media).data == data


def test_server_side_apply_shares_an_object_and_tells_of_conflicts(core: Any, namespace: str) -> None:
    def apply(manager: str, *, force: bool = False, **data: str) -> Any:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it"}, "data": data}
        return core.patch_namespaced_config_map(
            "it",
            namespace,
            body,
            field_manager=manager,
            force=force,
            _content_type="application/apply-patch+yaml",
        )

    assert apply("one", a="1").data == {"a": "1"}
    assert apply("two", b="2").data == {"a": "1", "b": "2"}
    with pytest.raises(ApiException) as conflict:
        apply("two", a="3")
    assert (conflict.value.status, "FieldManagerConflict" in str(conflict.value.body)) == (409, True)
    taken = apply("two", a="3", force=True)
    assert taken.data == {"a": "3"}
    assert {each.manager: each.operation for each in taken.metadata.managed_fields} == {"two": "Apply"}


def test_lists_come_in_pages_and_by_selectors(core: Any, namespace: str) -> None:
    for name in "abcde":
        core.create_namespaced_config_map(namespace, config_map(name))
    seen, token = [], None
    while True:
        page = core.list_namespaced_config_map(namespace, limit=2, _continue=token, label_selector="app")
        seen.append([each.metadata.name for each in page.items])
        token = page.metadata._continue
        if not token:
            break
    assert seen == [["a", "b"], ["c", "d"], ["e"]]
    some = core.list_namespaced_config_map(namespace, label_selector="app in (a,c),app!=c").items
    assert [each.metadata.name for each in some] == ["a"]
    named = core.list_config_map_for_all_namespaces(field_selector=f"metadata.name=e,metadata.namespace={namespace}")
    assert [each.metadata.name for each in named.items] == ["e"]
    core.delete_collection_namespaced_config_map(namespace, label_selector="app")
    assert core.list_namespaced_config_map(namespace, label_selector="app").items == []


def test_a_watch_tells_of_every_change_and_resumes(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("it", a="1"))
    start = core.list_namespaced_config_map(namespace, label_selector="app").metadata.resource_version
    core.patch_namespaced_config_map("it", namespace, {"data": {"a": "2"}})
    core.create_namespaced_config_map(namespace, config_map("other"))
    core.delete_namespaced_config_map("it", namespace)

    def seen(version: str | None, count: int) -> list[tuple[str, str, str]]:
        watching, found = watch.Watch(), []
        options = {"label_selector": "app", "timeout_seconds": 20, "resource_version": version}
        with closing(watching.stream(core.list_namespaced_config_map, namespace, **options)) as events:
            for event in events:
                assert isinstance(event["object"], client.V1ConfigMap)
                about = event["object"].metadata
                found.append((event["type"], about.name, about.resource_version))
                if len(found) == count:
                    watching.stop()
        return found

    everything = seen(start, 3)
    assert [(kind, name) for kind, name, _ in everything] == [
        ("MODIFIED", "it"),
        ("ADDED", "other"),
        ("DELETED", "it"),
    ]
    assert seen(everything[0][2], 2) == everything[1:]


def test_custom_objects(widgets: Any, namespace: str) -> None:
    where = {**WIDGETS, "namespace": namespace}
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "it"}, "spec": {"colour": "red"}}
    made = widgets.create_namespaced_custom_object(**where, body=body)
    assert made["spec"] == {"colour": "red", "size": 1}
    patched = widgets.patch_namespaced_custom_object(**where, name="it", body={"spec": {"size": 3}})
    assert (patched["spec"]["size"], patched["metadata"]["generation"]) == (3, 2)
    patched["status"] = {"size": 2}
    told = widgets.replace_namespaced_custom_object_status(**where, name="it", body=patched)
    assert (told["status"], told["metadata"]["generation"]) == ({"size": 2}, 2)
    scale = widgets.get_namespaced_custom_object_scale(**where, name="it")
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 3}, {"replicas": 2})
    widgets.patch_namespaced_custom_object_scale(**where, name="it", body={"spec": {"replicas": 5}})
    (listed,) = widgets.list_namespaced_custom_object(**where)["items"]
    assert listed["spec"]["size"] == 5
    with pytest.raises(ApiException) as refused:
        widgets.patch_namespaced_custom_object(**where, name="it", body={"spec": {"size": -1}})
    assert refused.value.status == 422
    widgets.delete_namespaced_custom_object(**where, name="it")
    assert widgets.list_namespaced_custom_object(**where)["items"] == []


def test_the_dynamic_client_finds_kinds_by_discovery(api: Any, widgets: Any, namespace: str) -> None:
    dynamic = DynamicClient(api)
    kind = dynamic.resources.get(api_version=f"{GROUP}/v1", kind="Widget")
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "it"}, "spec": {"colour": "red"}}
    made = kind.server_side_apply(body=body, namespace=namespace, field_manager="dynamic")
    assert made.spec.to_dict() == {"colour": "red", "size": 1}
    assert [each.metadata.name for each in kind.get(namespace=namespace).items] == ["it"]
    for event in kind.watch(namespace=namespace, timeout=240):
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "it")
        break
    kind.delete(name="it", namespace=namespace)
    assert dynamic.resources.get(api_version="v1", kind="Pod").name == "pods"


def test_a_manifest_of_several_documents_is_created(api: Any, core: Any, namespace: str) -> None:
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it"}, "data": {"a": "1"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "it"}},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "it"}, "spec": {}},
    ]
    utils.create_from_yaml(api, yaml_objects=objects, namespace=namespace)
    assert core.read_namespaced_config_map("it", namespace).data == {"a": "1"}
    with pytest.raises(utils.FailToCreateError):
        utils.create_from_yaml(api, yaml_objects=objects[:1], namespace=namespace)


def test_a_pod_runs_and_its_log_is_read_whole_in_part_and_as_it_comes(core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, shell_pod("it", "echo one; echo two; echo three"))
    wait_until(
        lambda: core.read_namespaced_pod("it", namespace).status.phase == "Succeeded", what="it has run", interval=0.1
    )
    state = core.read_namespaced_pod_status("it", namespace).status.container_statuses[0].state
    assert (state.terminated.exit_code, state.terminated.reason) == (0, "Completed")
    assert core.read_namespaced_pod_log("it", namespace) == "one\ntwo\nthree\n"
    assert core.read_namespaced_pod_log("it", namespace, tail_lines=1) == "three\n"
    assert core.read_namespaced_pod_log("it", namespace, since_seconds=3600, limit_bytes=5) == "one\nt"
    lines = list(watch.Watch().stream(core.read_namespaced_pod_log, "it", namespace))
    assert lines == ["one", "two", "three"]
    with pytest.raises(ApiException) as refused:
        core.read_namespaced_pod_log("it", namespace, previous=True)
    assert refused.value.status == 400
    core.delete_namespaced_pod("it", namespace, grace_period_seconds=0)


def test_the_second_candidate_leads_when_the_first_has_stopped(api: Any, namespace: str) -> None:
    leaders: list[str] = []

    class Enough(Exception):
        """The leader has done its work and leads no more."""

    def stand(name: str) -> threading.Thread:
        lock = LeaseLock("leader", namespace, name)
        lock.api_instance = client.CoordinationV1Api(api)

        def lead() -> None:
            leaders.append(name)
            raise Enough

        settings = electionconfig.Config(
            lock,
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=lead,
            onstopped_leading=lambda: None,
        )
        thread = threading.Thread(target=LeaderElection(settings).run, daemon=True)
        thread.start()
        return thread

    first = stand("first")
    wait_until(lambda: leaders, what="the first one leads")
    second = stand("second")
    for thread in (first, second):
        thread.join(60)
        assert not thread.is_alive()
    assert leaders == ["first", "second"]
    lease = client.CoordinationV1Api(api).read_namespaced_lease("leader", namespace)
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("second", 3)


def test_the_server_says_what_it_is_and_who_asks(api: Any) -> None:
    assert client.VersionApi(api).get_code().git_version == "v1.36.3"
    groups = {each.name for each in client.ApisApi(api).get_api_versions().groups}
    assert {"coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "apiextensions.k8s.io"} <= groups
    names = {each.name for each in client.CoreV1Api(api).get_api_resources().resources}
    assert {"pods", "pods/log", "configmaps", "nodes"} <= names
    review = client.AuthenticationV1Api(api).create_self_subject_review(client.V1SelfSubjectReview())
    assert review.status.user_info.username
    question = client.V1SelfSubjectAccessReviewSpec(
        resource_attributes=client.V1ResourceAttributes(verb="get", resource="pods")
    )
    answer = client.AuthorizationV1Api(api).create_self_subject_access_review(
        client.V1SelfSubjectAccessReview(spec=question)
    )
    assert answer.status.allowed is True


def test_namespaces_nodes_and_events(core: Any, api: Any, namespace: str) -> None:
    assert NODE in [each.metadata.name for each in core.list_node().items]
    ready = {each.type: each.status for each in core.read_node(NODE).status.conditions}
    assert ready["Ready"] == "True"
    name = f"{namespace}-2"
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    core.create_namespaced_config_map(name, config_map("it"))
    core.delete_namespace(name)

    def gone() -> bool:
        return name not in [each.metadata.name for each in core.list_namespace().items]

    wait_until(gone, what="the namespace is gone", timeout=240, interval=0.2)
    subject = client.V1ObjectReference(api_version="v1", kind="ConfigMap", name="it", namespace=namespace)
    event = client.CoreV1Event(
        metadata=client.V1ObjectMeta(generate_name="it."),
        involved_object=subject,
        reason="Seen",
        message="It was.",
        type="Normal",
        # Without a time the client cannot read what it has written: its type of an Event demands one.
        event_time=datetime.now(UTC),
        action="See",
        reporting_component="tests",
        reporting_instance="here",
    )
    core.create_namespaced_event(namespace, event)
    (found,) = core.list_namespaced_event(namespace, field_selector="involvedObject.name=it").items
    assert found.reason == "Seen"
    (other,) = client.EventsV1Api(api).list_namespaced_event(namespace, field_selector="reason=Seen").items
    assert other.note == "It was."
