"""The in-process controllers do what kube-controller-manager and kube-scheduler do.

Each test runs three times with the same assertions: on a kube-apiserver whose only controllers are ours, on one with
those of Kubernetes, and on `edgewright up`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edgewright.local.controllers.expiry import EventExpiry
from edgewright.runtime import VirtualClock
from tests.cluster.controllers_stage import (
    FOREGROUND,
    config_map,
    delete,
    get,
    gone,
    is_on,
    made_again,
    node,
    node_of,
    path_of,
    pod,
    release,
    run,
    scheduled,
    service,
    slices_of,
)
from tests.cluster.support import connected
from tests.harness import ApiServer, ControlPlane, wait_until


@pytest.fixture(scope="session")
def plane(workload_plane: ApiServer) -> ApiServer:
    return workload_plane


@pytest.fixture
def ns(plane: ApiServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace in which Pods can be created."""
    name = plane.create_namespace(request.node.originalname.removeprefix("test_"))
    wait_until(
        lambda: plane.exists(f"/api/v1/namespaces/{name}/serviceaccounts/default"), what="the service account is there"
    )
    yield name
    plane.answer("DELETE", f"/api/v1/namespaces/{name}")  # some tests have let it go


# --- what every namespace has ----------------------------------------------------------------------------------------


def test_every_namespace_has_an_account_and_the_root_certificate(plane: ApiServer, ns: str) -> None:
    path = f"/api/v1/namespaces/{ns}"
    wait_until(lambda: plane.exists(f"{path}/configmaps/kube-root-ca.crt"), what="the certificate is there")
    found = plane.request("GET", f"{path}/configmaps/kube-root-ca.crt")
    assert found["data"] == {"ca.crt": plane.ca_file.read_text()}
    assert list(found["metadata"]["annotations"]) == ["kubernetes.io/description"]
    account = plane.request("GET", f"{path}/serviceaccounts/default")
    assert account["metadata"].keys() == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}


def test_they_come_back_when_they_are_deleted_or_changed(plane: ApiServer, ns: str) -> None:
    path = f"/api/v1/namespaces/{ns}"
    root_ca, account = f"{path}/configmaps/kube-root-ca.crt", f"{path}/serviceaccounts/default"
    wait_until(lambda: plane.exists(root_ca), what="the certificate is there")
    uids = {each: plane.request("GET", each)["metadata"]["uid"] for each in (root_ca, account)}
    for each in uids:
        plane.request("DELETE", each)
    for each, uid in uids.items():
        wait_until(functools.partial(made_again, plane, each, uid), what=f"a new {each}")
    plane.request("PATCH", root_ca, {"data": {"ca.crt": "x", "y": "z"}}, content_type="application/merge-patch+json")
    wanted = {"ca.crt": plane.ca_file.read_text()}
    wait_until(lambda: plane.request("GET", root_ca)["data"] == wanted, what="the certificate is right again")


# --- the scheduler ---------------------------------------------------------------------------------------------------


@pytest.fixture
def nodes(plane: ApiServer) -> Iterator[None]:
    """One Node for everybody, one that is cordoned, and one with a taint."""
    node(plane, "open")
    node(plane, "cordoned", unschedulable=True)
    node(plane, "tainted", taints=[{"key": "only", "value": "mine", "effect": "NoSchedule"}])
    yield
    for name in ("open", "cordoned", "tainted"):
        plane.request("DELETE", f"/api/v1/nodes/{name}")


@pytest.mark.usefixtures("nodes")
def test_a_pod_is_bound_to_a_node_that_fits(plane: ApiServer, ns: str) -> None:
    toleration = [{"key": "only", "operator": "Equal", "value": "mine", "effect": "NoSchedule"}]
    paths = {
        "open": pod(plane, ns, "anywhere"),
        "tainted": pod(plane, ns, "tolerant", nodeSelector={"zone": "tainted"}, tolerations=toleration),
    }
    for name, path in paths.items():
        wait_until(functools.partial(is_on, plane, path, name), what=f"{path} is on {name}")
        assert scheduled(plane.request("GET", path))["status"] == "True"
    wait_until(
        lambda: (
            [
                (event["reason"], event["message"])
                for event in plane.request("GET", f"/api/v1/namespaces/{ns}/events")["items"]
                if event["involvedObject"]["name"] == "anywhere"
            ]
            == [("Scheduled", f"Successfully assigned {ns}/anywhere to open")]
        ),
        what="an event says where the Pod went",
    )


@pytest.mark.usefixtures("nodes")
def test_a_pod_that_fits_nowhere_says_why_and_is_bound_when_a_node_fits(plane: ApiServer, ns: str) -> None:
    path = pod(plane, ns, "picky", nodeSelector={"zone": "late"})
    wait_until(lambda: scheduled(plane.request("GET", path)), what="the condition is there")
    condition = scheduled(plane.request("GET", path))
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"].startswith("0/3 nodes are available: ")
    assert "node(s) didn't match Pod's node affinity/selector" in condition["message"]
    wait_until(
        lambda: any(
            event["reason"] == "FailedScheduling" and event["message"].startswith("0/3 nodes are available: ")
            for event in plane.request("GET", f"/api/v1/namespaces/{ns}/events")["items"]
        ),
        what="an event says why",
    )
    node(plane, "late")
    wait_until(lambda: node_of(plane, path) == "late", what="the Pod is bound")
    assert scheduled(plane.request("GET", path))["status"] == "True"
    plane.request("DELETE", "/api/v1/nodes/late")


# --- the deletion of namespaces --------------------------------------------------------------------------------------

WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.controllers.test"},
    "spec": {
        "group": "controllers.test",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def widgets(plane: ApiServer) -> str:
    """A custom kind; where its objects of a namespace are."""
    plane.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
    wait_until(lambda: get(plane, "/apis/controllers.test/v1/widgets") is not None, what="the kind is served")
    return "/apis/controllers.test/v1/namespaces/{}/widgets"


def conditions(plane: ApiServer, ns: str) -> dict[str, tuple[str, str, str]]:
    found = plane.request("GET", f"/api/v1/namespaces/{ns}")["status"].get("conditions", ())
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found}


def test_a_namespace_goes_with_everything_in_it(plane: ApiServer, ns: str, widgets: str) -> None:
    held = config_map(plane, ns, "held", finalizers=("test/hold",))
    free = config_map(plane, ns, "free")
    plane.request(
        "POST", widgets.format(ns), {"apiVersion": "controllers.test/v1", "kind": "Widget", "metadata": {"name": "w"}}
    )
    plane.request("DELETE", f"/api/v1/namespaces/{ns}")
    gone(plane, path_of(free))
    gone(plane, f"{widgets.format(ns)}/w")
    wanted = {
        "NamespaceDeletionDiscoveryFailure": (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: test/hold in 1 resource instances",
        ),
    }
    wait_until(lambda: conditions(plane, ns) == wanted, what="the conditions say what is in the way")
    assert plane.request("GET", f"/api/v1/namespaces/{ns}")["status"]["phase"] == "Terminating"
    release(plane, path_of(held))
    gone(plane, f"/api/v1/namespaces/{ns}")


def test_pods_go_before_everything_else(plane: ApiServer, ns: str) -> None:
    other = config_map(plane, ns, "needed")
    body = {
        "metadata": {"name": "held", "finalizers": ["test/hold"]},
        "spec": {"containers": [{"name": "main", "image": "none"}], "schedulerName": "nobody"},
    }
    plane.request("POST", f"/api/v1/namespaces/{ns}/pods", body)
    plane.request("DELETE", f"/api/v1/namespaces/{ns}")
    wait_until(lambda: "NamespaceDeletionContentFailure" in conditions(plane, ns), what="the deletion has begun")
    assert plane.request("GET", f"/api/v1/namespaces/{ns}/pods/held")["metadata"]["deletionTimestamp"]
    assert "deletionTimestamp" not in plane.request("GET", path_of(other))["metadata"]
    release(plane, f"/api/v1/namespaces/{ns}/pods/held")
    gone(plane, f"/api/v1/namespaces/{ns}")


# --- garbage collection ----------------------------------------------------------------------------------------------


def test_in_the_background_dependents_go_after_their_owner(plane: ApiServer, ns: str) -> None:
    owner = config_map(plane, ns, "owner")
    child = config_map(plane, ns, "child", owner, block=True)
    grandchild = config_map(plane, ns, "grandchild", child)
    delete(plane, owner, "Background")
    assert not plane.exists(path_of(owner))
    gone(plane, path_of(child))
    gone(plane, path_of(grandchild))


def test_in_the_foreground_an_owner_waits_for_what_blocks_it(plane: ApiServer, ns: str) -> None:
    owner = config_map(plane, ns, "owner")
    blocking = config_map(plane, ns, "blocking", owner, block=True, finalizers=("test/hold",))
    delete(plane, owner, "Foreground")
    wait_until(
        lambda: "deletionTimestamp" in plane.request("GET", path_of(blocking))["metadata"], what="the child is going"
    )
    assert plane.request("GET", path_of(owner))["metadata"]["finalizers"] == [FOREGROUND]
    release(plane, path_of(blocking))
    gone(plane, path_of(blocking))
    gone(plane, path_of(owner))


def test_in_the_foreground_an_owner_waits_for_grandchildren_too(plane: ApiServer, ns: str) -> None:
    owner = config_map(plane, ns, "owner")
    child = config_map(plane, ns, "child", owner, block=True)
    grandchild = config_map(plane, ns, "grandchild", child, block=True, finalizers=("test/hold",))
    delete(plane, owner, "Foreground")
    wait_until(
        lambda: "deletionTimestamp" in plane.request("GET", path_of(grandchild))["metadata"], what="all are going"
    )
    assert plane.request("GET", path_of(child))["metadata"]["finalizers"] == [FOREGROUND]
    release(plane, path_of(grandchild))
    for each in (grandchild, child, owner):
        gone(plane, path_of(each))


def test_a_circle_of_owners_can_be_deleted_in_the_foreground(plane: ApiServer, ns: str) -> None:
    first = config_map(plane, ns, "first")
    second = config_map(plane, ns, "second", first, block=True)
    back = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "second", "uid": second["metadata"]["uid"]}]
    back[0]["blockOwnerDeletion"] = True
    change = {"metadata": {"ownerReferences": back}}
    plane.request("PATCH", path_of(first), change, content_type="application/merge-patch+json")
    delete(plane, first, "Foreground")
    gone(plane, path_of(first))
    gone(plane, path_of(second))


def test_orphans_stay_without_their_owner(plane: ApiServer, ns: str) -> None:
    owner = config_map(plane, ns, "owner")
    children = [config_map(plane, ns, f"child-{number}", owner) for number in range(3)]
    marker = config_map(plane, ns, "marker", {**owner, "metadata": {"name": "no", "uid": "none"}})
    gone(plane, path_of(marker))  # so the collector has seen what came before it
    delete(plane, owner, "Orphan")
    gone(plane, path_of(owner))
    for child in children:
        metadata = plane.request("GET", path_of(child))["metadata"]
        assert (metadata["uid"], metadata.get("ownerReferences")) == (child["metadata"]["uid"], None)


def test_one_owner_of_two_keeps_a_dependent_and_the_other_is_forgotten(plane: ApiServer, ns: str) -> None:
    going, staying = config_map(plane, ns, "going"), config_map(plane, ns, "staying")
    child = config_map(plane, ns, "child", going, staying, block=True)
    delete(plane, going, "Foreground")
    gone(plane, path_of(going))
    references = plane.request("GET", path_of(child))["metadata"]["ownerReferences"]
    assert [each["name"] for each in references] == ["staying"]


def test_who_names_an_owner_that_never_was_goes(plane: ApiServer, ns: str) -> None:
    owner = config_map(plane, ns, "owner")
    never = {**owner, "metadata": {"name": "never", "uid": "00000000-0000-4000-8000-000000000001"}}
    wrong_uid = {**owner, "metadata": {"name": "owner", "uid": "00000000-0000-4000-8000-000000000002"}}
    wrong_name = {**owner, "metadata": {"name": "other", "uid": owner["metadata"]["uid"]}}
    children = [config_map(plane, ns, f"child-{n}", each) for n, each in enumerate((never, wrong_uid, wrong_name))]
    for child in children:
        gone(plane, path_of(child))
    assert plane.exists(path_of(owner))


def test_an_owner_in_another_namespace_is_none(plane: ApiServer, ns: str) -> None:
    elsewhere = plane.create_namespace("elsewhere")
    owner = config_map(plane, elsewhere, "owner")
    child = config_map(plane, ns, "child", owner)
    gone(plane, path_of(child))
    assert plane.exists(path_of(owner))


def test_a_cluster_wide_owner_keeps_and_takes_a_dependent(plane: ApiServer, ns: str) -> None:
    path = "/api/v1/nodes"
    owner = {"apiVersion": "v1", "kind": "Node", **plane.request("POST", path, {"metadata": {"name": f"owner-{ns}"}})}
    kept = config_map(plane, ns, "child", owner)
    marker = config_map(plane, ns, "marker", {**owner, "metadata": {"name": "no", "uid": "none"}})
    gone(plane, path_of(marker))  # so the collector has seen what came before it
    assert plane.exists(path_of(kept))
    plane.request("DELETE", f"{path}/{owner['metadata']['name']}")
    gone(plane, path_of(kept))


def test_a_namespaced_owner_of_a_cluster_wide_object_is_left_alone(plane: ApiServer, ns: str) -> None:
    owner = config_map(plane, ns, "owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    name = f"owned-{ns}"
    plane.request("POST", "/api/v1/nodes", {"metadata": {"name": name, "ownerReferences": [reference]}})
    marker = config_map(plane, ns, "marker", {**owner, "metadata": {"name": "no", "uid": "none"}})
    gone(plane, path_of(marker))
    assert plane.exists(f"/api/v1/nodes/{name}")
    plane.request("DELETE", f"/api/v1/nodes/{name}")


def test_custom_kinds_own_and_are_owned(plane: ApiServer, ns: str, widgets: str) -> None:
    body = {"apiVersion": "controllers.test/v1", "kind": "Widget", "metadata": {"name": "owner"}}
    owner = plane.request("POST", widgets.format(ns), body)
    child = config_map(plane, ns, "child", owner)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "child", "uid": child["metadata"]["uid"]}
    body["metadata"] = {"name": "grandchild", "ownerReferences": [reference]}
    plane.request("POST", widgets.format(ns), body)
    plane.request("DELETE", f"{widgets.format(ns)}/owner", {"propagationPolicy": "Foreground"})
    for path in (f"{widgets.format(ns)}/owner", path_of(child), f"{widgets.format(ns)}/grandchild"):
        gone(plane, path)


def test_an_owner_of_a_kind_that_is_not_served_keeps_its_dependents(plane: ApiServer, ns: str) -> None:
    unknown = {"apiVersion": "none.test/v1", "kind": "Nothing", "metadata": {"name": "x", "uid": "y"}}
    child = config_map(plane, ns, "child", unknown)
    marker = config_map(plane, ns, "marker", {**child, "metadata": {"name": "no", "uid": "none"}})
    gone(plane, path_of(marker))
    assert plane.exists(path_of(child))


# --- endpoint slices -------------------------------------------------------------------------------------------------


def test_a_service_that_selects_nothing_has_one_empty_slice(plane: ApiServer, ns: str) -> None:
    made = service(plane, ns, "web", ports=[{"name": "http", "port": 80}])
    wait_until(lambda: slices_of(plane, ns, "web"), what="a slice is there")
    (found,) = slices_of(plane, ns, "web")
    assert (found["addressType"], found["endpoints"], found["ports"]) == ("IPv4", None, None)
    assert found["metadata"]["labels"] == {
        "team": "edge",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert found["metadata"]["generateName"] == "web-"
    assert found["metadata"]["name"].startswith("web-")
    assert found["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "name": "web",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    plane.request("DELETE", f"/api/v1/namespaces/{ns}/services/web")
    wait_until(lambda: not slices_of(plane, ns, "web"), what="the slice goes with its Service")


def test_a_slice_says_who_serves_and_how(plane: ApiServer, ns: str) -> None:
    ports = [{"name": "tls", "port": 443, "targetPort": "flash"}, {"name": "plain", "port": 80, "targetPort": 8080}]
    service(plane, ns, "web", ports=ports)
    node(plane, ns, unschedulable=True)
    spec = {
        "containers": [{"name": "main", "image": "none", "ports": [{"name": "flash", "containerPort": 4433}]}],
        "nodeName": ns,
    }
    up = pod(plane, ns, "up", labels={"app": "web"}, **spec)
    down = pod(plane, ns, "down", labels={"app": "web"}, **spec)
    pod(plane, ns, "no-address", labels={"app": "web"}, **spec)
    run(plane, pod(plane, ns, "other", labels={"app": "other"}, **spec), "10.9.0.3")
    run(plane, up, "10.9.0.1")
    run(plane, down, "10.9.0.2", ready=False)

    def served() -> Any:
        return [each for found in slices_of(plane, ns, "web") for each in found["endpoints"] or ()]

    wait_until(lambda: len(served()) == 2, what="both Pods are in the slice")
    (found,) = slices_of(plane, ns, "web")
    assert sorted(found["ports"], key=lambda port: port["port"]) == [  # Kubernetes sorts them by a hash
        {"name": "tls", "port": 4433, "protocol": "TCP"},
        {"name": "plain", "port": 8080, "protocol": "TCP"},
    ]
    uid = plane.request("GET", up)["metadata"]["uid"]
    by_name = {each["targetRef"]["name"]: each for each in found["endpoints"]}
    assert by_name["up"] == {
        "addresses": ["10.9.0.1"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": ns,
        "targetRef": {"kind": "Pod", "namespace": ns, "name": "up", "uid": uid},
    }
    assert by_name["down"]["conditions"] == {"ready": False, "serving": False, "terminating": False}
    run(plane, down, "10.9.0.2")
    wait_until(lambda: all(each["conditions"]["ready"] for each in served()), what="both are ready")
    plane.request("DELETE", up, {"gracePeriodSeconds": 30})
    wait_until(
        lambda: {"ready": False, "serving": True, "terminating": True} in [each["conditions"] for each in served()],
        what="one is ending",
    )
    plane.request("DELETE", up, {"gracePeriodSeconds": 0})
    wait_until(lambda: [each["targetRef"]["name"] for each in served()] == ["down"], what="one is left")
    plane.request(
        "PATCH",
        f"/api/v1/namespaces/{ns}/services/web",
        {"spec": {"selector": {"app": "nobody"}}},
        content_type="application/merge-patch+json",
    )
    wait_until(lambda: not served(), what="nobody is selected")
    assert len(slices_of(plane, ns, "web")) == 1
    plane.request("DELETE", f"/api/v1/nodes/{ns}")


def test_a_headless_service_names_its_pods(plane: ApiServer, ns: str) -> None:
    service(plane, ns, "web", clusterIP="None", publishNotReadyAddresses=True)
    node(plane, ns, unschedulable=True)
    path = pod(plane, ns, "first", labels={"app": "web"}, hostname="first", subdomain="web", nodeName=ns)
    run(plane, path, "10.9.1.1", ready=False)
    wait_until(
        lambda: [each for found in slices_of(plane, ns, "web") for each in found["endpoints"] or ()],
        what="the Pod is in the slice",
    )
    (found,) = slices_of(plane, ns, "web")
    assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    (endpoint,) = found["endpoints"]
    assert endpoint["hostname"] == "first"
    assert endpoint["conditions"] == {"ready": True, "serving": False, "terminating": False}
    plane.request("DELETE", f"/api/v1/nodes/{ns}")


# --- events ----------------------------------------------------------------------------------------------------------


def event(plane: ApiServer, ns: str, name: str, *, minutes: float) -> str:
    """An Event that was last written so long ago, as far as it says."""
    then = (datetime.now(UTC) - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Namespace", "name": ns, "namespace": ns},
        "lastTimestamp": then,
    }
    plane.request("POST", f"/api/v1/namespaces/{ns}/events", body)
    return f"/api/v1/namespaces/{ns}/events/{name}"


async def test_events_that_were_not_written_for_an_hour_go(namespace: str, cluster: ControlPlane) -> None:
    """Kubernetes lets etcd do this, by the time of the write; for ours the clock is an hour ahead here."""
    old, young = event(cluster, namespace, "old", minutes=30), event(cluster, namespace, "young", minutes=-30)
    clock = VirtualClock(datetime.now(UTC) + timedelta(minutes=61))
    async with connected(cluster) as client:
        wait = await EventExpiry(client, clock=clock).sweep()
    assert not cluster.exists(old)
    assert cluster.exists(young)
    assert 0 < wait <= 30 * 60
