"""Exchanges about reading: one object, lists, pages, selectors, versions, and the other shapes of an answer."""

from __future__ import annotations

from tests.cluster.differential.bodies import (
    EVENTS,
    MAPS,
    NAMESPACES,
    PARTIAL,
    PARTIAL_LIST,
    PODS,
    SECRETS,
    SERVICES,
    TABLE,
    labelled,
    pod,
    secret,
    secrets,
    service,
)
from tests.cluster.differential.exchange import Exchange, cached, exchange, get, made, patch

GET: dict[str, Exchange] = {
    "an object": exchange(made(SECRETS, secret("a", k="v")), get(f"{SECRETS}/a")),
    "an object that is not there": exchange(get(f"{SECRETS}/none")),
    "a namespace that is not there": exchange(get("/api/v1/namespaces/{ns}-none")),
    "an object in a namespace that is not there": exchange(get("/api/v1/namespaces/{ns}-none/secrets/a")),
    "as YAML": exchange(made(SECRETS, secret("a", k="v")), get(f"{SECRETS}/a", "application/yaml")),
    "as metadata": exchange(made(SECRETS, secret("a", k="v")), get(f"{SECRETS}/a", PARTIAL)),
    "as metadata of a list": exchange(made(SECRETS, secret("a", k="v")), get(f"{SECRETS}/a", PARTIAL_LIST)),
    "as a Table": exchange(made(SECRETS, secret("a", k="v")), get(f"{SECRETS}/a", TABLE)),
    "as a Table with whole objects": exchange(
        made(SECRETS, secret("a", k="v")), get(f"{SECRETS}/a?includeObject=Object", TABLE)
    ),
    "as a Table of an unknown version": exchange(
        made(SECRETS, secret("a", k="v")), get(f"{SECRETS}/a", TABLE.replace("v=v1", "v=v2"))
    ),
    "as a Table or else JSON": exchange(
        made(SECRETS, secret("a", k="v")), get(f"{SECRETS}/a", f"{TABLE.replace('v=v1', 'v=v2')},application/json")
    ),
    "in a format that is not served": exchange(get(f"{SECRETS}/a", "text/html")),
    "what is not there, as YAML": exchange(get(f"{SECRETS}/none", "application/yaml")),
    "a list in a format that is not served": exchange(get(SECRETS, "text/html")),
    "with any format": exchange(made(SECRETS, secret("a")), get(f"{SECRETS}/a", "*/*")),
    "with any application format": exchange(made(SECRETS, secret("a")), get(f"{SECRETS}/a", "application/*")),
    "at version 0": exchange(made(SECRETS, secret("a")), cached(SECRETS, 1), get(f"{SECRETS}/a?resourceVersion=0")),
    "at the version it has": exchange(
        made(SECRETS, secret("a"), keep={"rv": "metadata.resourceVersion"}), get(f"{SECRETS}/a?resourceVersion={{rv}}")
    ),
    "a subresource that is not there": exchange(made(SECRETS, secret("a")), get(f"{SECRETS}/a/status")),
    "the status of a Pod": exchange(made(PODS, pod("a")), get(f"{PODS}/a/status")),
    "the status of a Namespace": exchange(get("/api/v1/namespaces/{ns}/status")),
    "a watch of one object by its old path": exchange(get("/api/v1/watch/namespaces/{ns}/secrets/a?timeoutSeconds=1")),
}

PAGES: dict[str, Exchange] = {
    "none": exchange(get(SECRETS)),
    "all of a namespace": exchange(*secrets("b", "a", "c"), get(SECRETS)),
    "in a namespace that is not there": exchange(get("/api/v1/namespaces/{ns}-none/secrets")),
    "the first page": exchange(*secrets("a", "b", "c"), get(f"{SECRETS}?limit=2")),
    "the second page": exchange(
        *secrets("a", "b", "c"),
        get(f"{SECRETS}?limit=1", keep={"next": "metadata.continue"}),
        get(f"{SECRETS}?limit=1&continue={{next}}"),
        get(f"{SECRETS}?limit=5&continue={{next}}"),
    ),
    "a page of the past": exchange(
        *secrets("a", "b", "c"),
        get(f"{SECRETS}?limit=1", keep={"next": "metadata.continue"}),
        made(SECRETS, secret("bb")),
        get(f"{SECRETS}?limit=5&continue={{next}}"),
    ),
    "a page as large as all": exchange(*secrets("a", "b"), get(f"{SECRETS}?limit=2")),
    "a page of a selection": exchange(*secrets("a", "b", "c", x="y"), get(f"{SECRETS}?limit=2&labelSelector=x%3Dy")),
    "no page with limit 0": exchange(*secrets("a", "b"), get(f"{SECRETS}?limit=0")),
    "a negative limit": exchange(*secrets("a", "b"), get(f"{SECRETS}?limit=-1")),
    "a limit that is no number": exchange(get(f"{SECRETS}?limit=x")),
    "a broken continue": exchange(get(f"{SECRETS}?limit=1&continue=xyz")),
    "a continue with a version": exchange(
        *secrets("a", "b"),
        get(f"{SECRETS}?limit=1", keep={"next": "metadata.continue", "rv": "metadata.resourceVersion"}),
        get(f"{SECRETS}?limit=1&continue={{next}}&resourceVersion={{rv}}"),
    ),
    "at version 0": exchange(*secrets("a"), cached(SECRETS, 1), get(f"{SECRETS}?resourceVersion=0")),
    "at a version that is no number": exchange(get(f"{SECRETS}?resourceVersion=x")),
    "not older than": exchange(
        made(SECRETS, secret("a"), keep={"rv": "metadata.resourceVersion"}),
        get(f"{SECRETS}?resourceVersion={{rv}}&resourceVersionMatch=NotOlderThan"),
    ),
    "exactly": exchange(
        made(SECRETS, secret("a"), keep={"rv": "metadata.resourceVersion"}),
        made(SECRETS, secret("b")),
        get(f"{SECRETS}?resourceVersion={{rv}}&resourceVersionMatch=Exact"),
        get(f"{SECRETS}?resourceVersion={{rv}}"),
        get(f"{SECRETS}?resourceVersion={{rv}}&limit=5"),
    ),
    "exactly, as it was before a change": exchange(
        made(SECRETS, secret("a"), keep={"rv": "metadata.resourceVersion"}),
        patch(f"{SECRETS}/a", {"metadata": {"labels": {"x": "y"}}}, compared=False),
        get(f"{SECRETS}?resourceVersion={{rv}}&resourceVersionMatch=Exact"),
    ),
    "a match without a version": exchange(get(f"{SECRETS}?resourceVersionMatch=Exact")),
    "an unknown match": exchange(get(f"{SECRETS}?resourceVersion=1&resourceVersionMatch=Roughly")),
    "exactly version 0": exchange(get(f"{SECRETS}?resourceVersion=0&resourceVersionMatch=Exact")),
    "a match with a continue": exchange(
        get(f"{SECRETS}?resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=xyz")
    ),
    "with initial events": exchange(get(f"{SECRETS}?sendInitialEvents=true")),
    "as a Table": exchange(*secrets("a", "b", x="y"), get(SECRETS, TABLE)),
    "as a Table without objects": exchange(*secrets("a"), get(f"{SECRETS}?includeObject=None", TABLE)),
    "as a Table with whole objects": exchange(*secrets("a"), get(f"{SECRETS}?includeObject=Object", TABLE)),
    "as a Table with something odd": exchange(*secrets("a"), get(f"{SECRETS}?includeObject=Odd", TABLE)),
    "a page as a Table": exchange(*secrets("a", "b"), get(f"{SECRETS}?limit=1", TABLE)),
    "an empty Table": exchange(get(SECRETS, TABLE)),
    "Pods as a Table": exchange(made(PODS, pod("a")), get(PODS, TABLE)),
    "Services as a Table": exchange(made(SERVICES, service("a", selector={"x": "y"})), get(SERVICES, TABLE)),
    "a Namespace as a Table": exchange(get("/api/v1/namespaces/{ns}", TABLE)),
    "as metadata": exchange(*secrets("a", "b", x="y"), get(SECRETS, PARTIAL_LIST)),
    "as metadata of an object": exchange(*secrets("a"), get(SECRETS, PARTIAL)),
    "as YAML": exchange(*secrets("a"), get(SECRETS, "application/yaml")),
    "a kind that does not exist": exchange(get("/api/v1/namespaces/{ns}/things")),
    "a group that does not exist": exchange(get("/apis/none.example.com/v1/namespaces/{ns}/things")),
    "a version that does not exist": exchange(get("/api/v2/namespaces/{ns}/secrets")),
    "a kind without a namespace in one": exchange(get("/api/v1/namespaces/{ns}/nodes")),
}


OWN_FAULTS: dict[str, Exchange] = {
    "get at a version that is no number": exchange(made(SECRETS, secret("a")), get(f"{SECRETS}/a?resourceVersion=x")),
}


def _selected(selector: str) -> Exchange:
    return exchange(
        made(SECRETS, labelled("a", colour="red", size="1")),
        made(SECRETS, labelled("b", colour="blue", size="2")),
        made(SECRETS, labelled("c", size="3", **{"example.com/big": ""})),
        get(f"{SECRETS}?labelSelector={selector}"),
    )


LABELS: dict[str, Exchange] = {
    "equal": _selected("colour%3Dred"),
    "doubly equal": _selected("colour%3D%3Dred"),
    "not equal": _selected("colour!%3Dred"),
    "one of": _selected("colour%20in%20(red,blue)"),
    "none of": _selected("colour%20notin%20(red)"),
    "one of with an empty value": _selected("colour%20in%20(,red)"),
    "there": _selected("colour"),
    "not there": _selected("!colour"),
    "with a prefix": _selected("example.com%2Fbig"),
    "an empty value": _selected("example.com%2Fbig%3D"),
    "several": _selected("colour,size%3E1"),
    "greater": _selected("size%3E1"),
    "less": _selected("size%3C3"),
    "greater than a word": _selected("size%3Ex"),
    "nothing": _selected(""),
    "one of nothing": _selected("colour%20in%20()"),
    "no operator": _selected("colour%20red"),
    "a bad key": _selected("-x%3D1"),
    "a bad value": _selected("x%3D-1-"),
    "a long value": _selected("x%3D" + "v" * 64),
    "an open list": _selected("x%20in%20(a"),
    "a comma too many": _selected("x%3D1,"),
    "only an operator": _selected("%3D"),
    "spaces": _selected("%20colour%20%3D%20red%20"),
}


def _by_field(path: str, selector: str) -> Exchange:
    return exchange(
        made(SECRETS, secret("a")),
        made(SECRETS, {**secret("b"), "type": "example.com/t"}),
        made(PODS, pod("p")),
        made(PODS, pod("q", nodeName="n", restartPolicy="Never")),
        made(
            EVENTS,
            {
                "metadata": {"name": "e"},
                "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}", "uid": "u"},
                "reason": "Why",
                "type": "Normal",
                "source": {"component": "me"},
            },
        ),
        get(f"{path}?fieldSelector={selector}"),
    )


FIELDS: dict[str, Exchange] = {
    "a name": _by_field(SECRETS, "metadata.name%3Da"),
    "not a name": _by_field(SECRETS, "metadata.name!%3Da"),
    "doubly equal": _by_field(SECRETS, "metadata.name%3D%3Da"),
    "a name and a namespace": _by_field(SECRETS, "metadata.name%3Da,metadata.namespace%3D{ns}"),
    "another namespace": _by_field(SECRETS, "metadata.namespace%3Dother"),
    "a namespace of all": _by_field("/api/v1/secrets", "metadata.namespace%3D{ns}"),
    "the type of a Secret": _by_field(SECRETS, "type%3Dexample.com%2Ft"),
    "the node of a Pod": _by_field(PODS, "spec.nodeName%3Dn"),
    "no node": _by_field(PODS, "spec.nodeName%3D"),
    "the phase of a Pod": _by_field(PODS, "status.phase%3DPending"),
    "another phase": _by_field(PODS, "status.phase!%3DPending"),
    "the restart policy of a Pod": _by_field(PODS, "spec.restartPolicy%3DNever"),
    "the object of an Event": _by_field(EVENTS, "involvedObject.name%3Dp,involvedObject.kind%3DPod"),
    "the reason of an Event": _by_field(EVENTS, "reason%3DWhy,type%3DNormal"),
    "the source of an Event": _by_field(EVENTS, "source%3Dme"),
    "an unknown field of a Pod": _by_field(PODS, "spec.colour%3Dred"),
    "an unknown field of a Secret": _by_field(SECRETS, "spec.colour%3Dred"),
    "an unknown field of a ConfigMap": _by_field(MAPS, "spec.colour%3Dred"),
    "an unknown field of an Event": _by_field(EVENTS, "spec.colour%3Dred"),
    "no operator": _by_field(SECRETS, "metadata.name"),
    "an escape": _by_field(SECRETS, "metadata.name%3Da\\,b"),
    "a broken escape": _by_field(SECRETS, "metadata.name%3Da\\x"),
    "the name of a namespace": exchange(get(f"{NAMESPACES}?fieldSelector=metadata.name%3D{{ns}}")),
    "a name and a label": exchange(
        made(SECRETS, labelled("a", x="y")),
        made(SECRETS, labelled("b", x="y")),
        get(f"{SECRETS}?fieldSelector=metadata.name%3Da&labelSelector=x%3Dy"),
    ),
}
