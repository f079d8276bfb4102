"""The rules of built-in kinds are compared with the real API server: the same bodies in, the same outcome."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from edgewright.local import builtin
from edgewright.local.builtin.pod import PodRules
from edgewright.local.builtin.reviews import SelfSubjectAccessReviewRules
from edgewright.local.errors import Refusal
from edgewright.local.served import Write
from tests.cluster.builtin_exchanges import outcome, quiet_namespace, recorded_form, sent
from tests.cluster.undisturbed import undisturbed_plane
from tests.harness import ApiServer, ControlPlane, LocalPlane
from tests.harness.fixtures import run
from tests.unit.local.builtin.every_exchange import EXCHANGES
from tests.unit.local.builtin.exchanges import KINDS, RECORDED, Body, Exchange, body_of, ours, plain, refusal


@pytest.fixture(scope="module")
def place(counterpart: ControlPlane) -> str:
    """A namespace in which nothing is added to Pods for their tokens."""
    return quiet_namespace(counterpart)


@pytest.mark.parametrize(("number", "title"), list(enumerate(EXCHANGES)), ids=list(EXCHANGES))
def test_an_object_is_stored_or_refused_as_the_real_server_does(
    number: int, title: str, counterpart: ControlPlane, place: str
) -> None:
    exchange = EXCHANGES[title]
    body, old, real = sent(exchange, counterpart, place, f"x-{number}")
    assert plain(ours(exchange, body, old), exchange) == plain(real, exchange)


@pytest.fixture(scope="module")
def our_server(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """Our own server, whose controllers write nothing that a test makes."""
    yield from run(request, undisturbed_plane)


@pytest.fixture(scope="module")
def our_place(our_server: LocalPlane) -> str:
    """A namespace in our own server."""
    return quiet_namespace(our_server)


OURS = [
    title
    for title, exchange in EXCHANGES.items()
    # Our Services have loopback addresses, which may then be endpoints too.
    if not (exchange.kind == "service" and "10.96." in str(exchange.body))
    and title not in ("endpoint slice: one with wrong addresses", "endpoint slice: one with special addresses")
]


@pytest.mark.parametrize(("number", "title"), list(enumerate(OURS)), ids=OURS)
def test_an_object_that_is_sent_to_our_server_is_stored_or_refused_as_the_real_one_was_recorded_to(
    number: int, title: str, our_server: LocalPlane, our_place: str
) -> None:
    exchange, name = EXCHANGES[title], f"x-{number}"
    *_, found = sent(exchange, our_server, our_place, name)
    assert recorded_form(plain(found, exchange), our_place, name) == RECORDED[title]


@pytest.mark.parametrize(("server", "namespace"), [("counterpart", "place"), ("our_server", "our_place")])
def test_nobody_else_writes_what_an_exchange_is_about(
    server: str, namespace: str, request: pytest.FixtureRequest
) -> None:
    """Else an answer would depend on whether a controller wrote between the create and the update."""
    plane: ApiServer = request.getfixturevalue(server)
    where: str = request.getfixturevalue(namespace)
    made = [
        obj
        for kind, _ in KINDS.values()
        for obj in plane.request("GET", kind.path(where if kind.namespaced else None))["items"]
        if re.fullmatch(rf"({where}-)?x-\d+", obj["metadata"]["name"])
    ]
    others = {
        (entry["manager"], obj["metadata"]["name"])
        for obj in made
        for entry in obj["metadata"].get("managedFields", ())
        if entry["manager"] != "unknown"  # whose requests have no user agent, as those of these tests
    }
    assert not others


def pod(**spec: Any) -> Body:
    return {"spec": {"containers": [{"name": "a", "image": "x"}], **spec}}


WRONG: dict[str, Exchange] = {
    "a text for a list": Exchange("pod", {"spec": {"containers": "x"}}),
    "a number for a name": Exchange("pod", {"spec": {"containers": [{"name": 5}]}}),
    "a number for a label": Exchange("pod", {"metadata": {"labels": {"a": 1}}, "spec": {}}),
    "a number for a policy": Exchange("pod", {"spec": {"containers": [{"name": "x", "imagePullPolicy": 1}]}}),
    "a fraction for a port": Exchange("pod", {"spec": {"containers": [{"ports": [{"containerPort": 1.5}]}]}}),
    "a text for a number": Exchange("pod", {"spec": {"activeDeadlineSeconds": "x"}}),
    "a number for an object": Exchange("pod", {"spec": {"containers": [{"resources": 5}]}}),
    "a list for an object": Exchange("pod", {"spec": {"containers": [{"livenessProbe": []}]}}),
    "a number for a spec": Exchange("pod", {"spec": 5}),
    "an object in a list of texts": Exchange("pod", {"spec": {"containers": [{"args": [{}]}]}}),
    "a flag for a list of texts": Exchange("pod", {"spec": {"containers": [{"args": True}]}}),
    "a text for a flag": Exchange("pod", pod(hostNetwork="yes")),
    "a bad amount": Exchange("pod", {"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}),
    "no amount": Exchange("pod", {"spec": {"containers": [{"resources": {"limits": {"cpu": ""}}}]}}),
    "a number for data": Exchange("configmap", {"data": {"a": 1}}),
    "a list for data": Exchange("configmap", {"data": []}),
    "a flag as a text": Exchange("configmap", {"immutable": "true"}),
    "no base64": Exchange("secret", {"data": {"a": "!"}}),
    "half a base64": Exchange("secret", {"data": {"a": "aGk"}}),
    "a list for a port": Exchange("service", {"spec": {"ports": [{"port": 1, "targetPort": []}]}}),
    "a port that is too large": Exchange("service", {"spec": {"ports": [{"port": 2**31}]}}),
    "no time": Exchange("event", {"firstTimestamp": "x"}),
    "half a time": Exchange("event", {"firstTimestamp": "2026-01-02"}),
    "a time with something behind it": Exchange("event", {"firstTimestamp": "2026-01-02T03:04:05Z!"}),
    "a time that is not": Exchange("event", {"firstTimestamp": "2026-02-31T03:04:05Z"}),
    "a number for a time": Exchange("event", {"firstTimestamp": 5}),
    "a time without microseconds": Exchange("lease", {"spec": {"renewTime": "2026-01-02T03:04:05Z"}}),
}


@pytest.mark.parametrize("title", WRONG)
def test_a_body_of_wrong_types_is_refused_with_the_same_words(
    title: str, counterpart: ControlPlane, place: str
) -> None:
    body, _, real = sent(WRONG[title], counterpart, place, "wrong")
    refused = ours(WRONG[title], body, None)
    assert (refused["refused"], refused["message"]) == (real["refused"], real["message"])


UNKNOWN: dict[str, Exchange] = {
    "everywhere": Exchange(
        "pod",
        {
            "metadata": {"x": 1, "labels": {"any": "thing"}},
            "spec": {"containers": [{"name": "a", "y": {}}], "nodeSelector": {"q": "1"}, "Hostname": "x"},
            "status": {"a": None},
            "other": [],
        },
    ),
    "in lists of lists": Exchange(
        "endpointslice", {"endpoints": [{}, {"conditions": {"x": 1}, "hints": {"forZones": [{"y": 1}]}}]}
    ),
    "at the root": Exchange("configmap", {"Data": {}, "spec": {}}),
}


@pytest.mark.parametrize("title", UNKNOWN)
def test_the_same_fields_are_unknown(title: str, counterpart: ControlPlane, place: str) -> None:
    exchange = UNKNOWN[title]
    kind, rules = KINDS[exchange.kind]
    body = body_of(exchange, place, "unknown")
    real = outcome(counterpart, "POST", f"{kind.path(place)}?fieldValidation=Strict", body)
    _, unknown = rules().decode(body)
    assert unknown == re.findall('unknown field "(.*?)"', real["message"])


def test_built_in_kinds_are_offered_as_the_real_server_does(counterpart: ControlPlane) -> None:
    for each in builtin.served():
        kind = each.kind
        place = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        listed = {entry["name"]: entry for entry in counterpart.request("GET", place)["resources"]}
        real = listed[kind.plural]
        assert (kind.kind, kind.namespaced, each.singular) == (real["kind"], real["namespaced"], real["singularName"])
        assert list(each.verbs) == real["verbs"]
        assert list(each.short_names) == real.get("shortNames", [])
        assert list(each.categories) == real.get("categories", [])
        for part in each.subresources:
            theirs = listed[f"{kind.plural}/{part.name}"]
            assert list(part.verbs) == theirs["verbs"]
            assert (part.kind or kind).kind == theirs["kind"]


def test_the_same_fields_can_be_selected_by(counterpart: ControlPlane, place: str) -> None:
    for each in builtin.served():
        if "list" not in each.verbs:
            continue
        path = each.kind.path(place)
        for name in each.selectable:
            assert "refused" not in outcome(counterpart, "GET", f"{path}?fieldSelector={name}=x", None), name
        refused = outcome(counterpart, "GET", f"{path}?fieldSelector=spec.other=x", None)
        assert refused["refused"][0] == 400


def tried(what: Callable[[], Body | None]) -> Body:
    """What rules give, or the refusal in the form in which it is compared."""
    try:
        found = what()
    except Refusal as refused:
        return refusal(refused.code, refused.status())
    assert found is not None
    return found


BINDINGS: dict[str, tuple[Body, Body]] = {
    "a node": (pod(), {"target": {"name": "n"}}),
    "a node and more": (
        pod(),
        {"target": {"kind": "Node", "name": "n"}, "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}},
    ),
    "no node": (pod(), {"target": {}}),
    "something else": (pod(), {"target": {"kind": "X"}}),
    "a text": (pod(), {"target": "n"}),
    "a node for another": (pod(), {"target": {"name": "n"}, "metadata": {"uid": "other"}}),
    "a node for an older one": (pod(), {"target": {"name": "n"}, "metadata": {"resourceVersion": "1"}}),
    "another node": (pod(nodeName="m"), {"target": {"name": "n"}}),
    "a node for a gated one": (pod(schedulingGates=[{"name": "g"}]), {"target": {"name": "n"}}),
}


@pytest.mark.parametrize("title", BINDINGS)
def test_a_pod_is_bound_as_the_real_server_does(title: str, counterpart: ControlPlane, place: str) -> None:
    exchange = Exchange("pod", BINDINGS[title][0])
    name = f"bound-{list(BINDINGS).index(title)}"
    _, _, stored = sent(exchange, counterpart, place, name)
    binding = {"apiVersion": "v1", "kind": "Binding", **BINDINGS[title][1]}
    binding["metadata"] = {**binding.get("metadata", {}), "name": name, "namespace": place}
    path = f"/api/v1/namespaces/{place}/pods/{name}"
    real = outcome(counterpart, "POST", f"{path}/binding", binding)
    write = Write(verb="create", subresource="binding", now=datetime.now(UTC))
    after = tried(lambda: PodRules().act(stored, binding, write))
    assert after.get("message") == real.get("message")
    if "refused" not in real:
        real = counterpart.request("GET", path)
    assert plain(after, exchange) == plain(real, exchange)


REVIEWS: dict[str, Body] = {
    "of nothing": {},
    "of both": {"spec": {"nonResourceAttributes": {"verb": "get"}, "resourceAttributes": {}}},
    "with a name": {"metadata": {"name": "x"}, "spec": {"nonResourceAttributes": {}}},
}


@pytest.mark.parametrize("title", REVIEWS)
def test_a_bad_question_about_rights_is_refused_as_by_the_real_server(title: str, counterpart: ControlPlane) -> None:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", **REVIEWS[title]}
    real = outcome(counterpart, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    rules = SelfSubjectAccessReviewRules()
    obj, _ = rules.decode(body)
    answer = tried(lambda: rules.respond(obj, Write(verb="create", now=datetime.now(UTC))))
    real.get("metadata", {}).pop("managedFields", None)
    for each in (answer, real):
        each.pop("message", None)  # the real one shows managed fields in it
    assert answer == real
