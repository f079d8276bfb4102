"""Discovery: what clients are told is served, in the order in which they look for it."""

from __future__ import annotations

from edgewright.local import custom
from edgewright.local.documents import discovery
from edgewright.local.served import Served, Subresource
from edgewright.runtime.objects import Kind
from tests.unit.local.custom import samples

CUSTOM = [*custom.served(samples.widgets()), *custom.served(samples.gadgets())]
CUSTOM_VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
V1 = {"groupVersion": "probe.example.io/v1", "version": "v1"}
V1BETA1 = {"groupVersion": "probe.example.io/v1beta1", "version": "v1beta1"}


def builtin(group: str, version: str, kind: str, plural: str, *subresources: Subresource, **settings: object) -> Served:
    """A kind that is no custom one."""
    about = Kind(group=group, version=version, kind=kind, plural=plural)
    storage = {"storage": plural, "storage_api_version": about.api_version, **settings}
    return Served(
        kind=about,
        singular=kind.lower(),
        list_kind=f"{kind}List",
        subresources=subresources,
        **storage,  # type: ignore[arg-type]  # settings are those of Served
    )


BINDING = Subresource(
    name="binding", verbs=("create",), kind=Kind(group="", version="v1", kind="Binding", plural="bindings")
)
EVICTION = Subresource(
    name="eviction", verbs=("create",), kind=Kind(group="policy", version="v1", kind="Eviction", plural="evictions")
)
KINDS = [
    builtin("", "v1", "Pod", "pods", BINDING, EVICTION, Subresource(name="status"), short_names=("po",)),
    builtin("coordination.k8s.io", "v1", "Lease", "leases"),
    builtin("events.k8s.io", "v1", "Event", "events", storage_api_version="v1"),
    builtin("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", verbs=("create",)),
    *CUSTOM,
]


def test_the_group_without_a_name_has_its_address() -> None:
    assert discovery.core_versions("127.0.0.1:6443") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    }


def test_custom_groups_come_after_those_of_kubernetes() -> None:
    listed = discovery.group_list(KINDS)
    assert [each["name"] for each in listed["groups"]] == [
        "events.k8s.io",
        "authentication.k8s.io",
        "coordination.k8s.io",
        "probe.example.io",
    ]
    assert listed["groups"][-1] == {"name": "probe.example.io", "versions": [V1, V1BETA1], "preferredVersion": V1}


def test_a_group_tells_its_versions_the_preferred_one_first() -> None:
    assert discovery.group(KINDS, "probe.example.io") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "probe.example.io",
        "versions": [V1, V1BETA1],
        "preferredVersion": V1,
    }


def test_what_is_not_served_has_no_document() -> None:
    assert discovery.group(KINDS, "nope.example.io") is None
    assert discovery.group(KINDS, "") is None
    assert discovery.resource_list(KINDS, "probe.example.io", "v2") is None


def test_resources_of_a_custom_group_are_those_that_the_real_server_lists() -> None:
    assert discovery.resource_list(KINDS, "probe.example.io", "v1") == {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "probe.example.io/v1",
        "resources": [
            {
                "name": "gadgets",
                "singularName": "gadget",
                "namespaced": False,
                "kind": "Gadget",
                "verbs": CUSTOM_VERBS,
                "storageVersionHash": "kAyhL/ArOto=",
            },
            {
                "name": "widgets",
                "singularName": "widget",
                "namespaced": True,
                "kind": "Widget",
                "verbs": CUSTOM_VERBS,
                "shortNames": ["wd"],
                "categories": ["all"],
                "storageVersionHash": "k6NT5UPYRjU=",
            },
            {
                "name": "widgets/status",
                "singularName": "",
                "namespaced": True,
                "kind": "Widget",
                "verbs": ["get", "patch", "update"],
            },
            {
                "name": "widgets/scale",
                "singularName": "",
                "namespaced": True,
                "group": "autoscaling",
                "version": "v1",
                "kind": "Scale",
                "verbs": ["get", "patch", "update"],
            },
        ],
    }


def test_subresources_of_built_in_kinds_name_a_group_only_where_it_is_another() -> None:
    listed = discovery.resource_list(KINDS, "", "v1")
    assert listed is not None
    assert "apiVersion" not in listed
    assert listed["resources"][0]["storageVersionHash"] == "xPOwRZ+Yhw8="
    assert [(each["name"], each["kind"], each.get("group")) for each in listed["resources"][1:]] == [
        ("pods/binding", "Binding", None),
        ("pods/eviction", "Eviction", "policy"),
        ("pods/status", "Pod", None),
    ]


def test_the_hash_is_that_of_the_stored_form() -> None:
    assert discovery.storage_version_hash(KINDS[1]) == "gqkMMb/YqFM="
    assert discovery.storage_version_hash(KINDS[2]) == "r2yiGXH7wu8="
    assert discovery.storage_version_hash(KINDS[3]) == ""


def test_the_aggregated_document_has_everything_of_the_named_groups() -> None:
    whole = discovery.aggregated(KINDS, core=False)
    assert (whole["kind"], whole["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    assert [each["metadata"] for each in whole["items"]] == [{"name": name} for name in discovery.groups(KINDS)]
    versions = whole["items"][-1]["versions"]
    assert [(each["version"], each["freshness"]) for each in versions] == [
        ("v1", "Current"),
        ("v1beta1", "Current"),
    ]
    assert versions[0]["resources"][1] == {
        "resource": "widgets",
        "responseKind": {"group": "probe.example.io", "version": "v1", "kind": "Widget"},
        "scope": "Namespaced",
        "singularResource": "widget",
        "verbs": CUSTOM_VERBS,
        "shortNames": ["wd"],
        "categories": ["all"],
        "subresources": [
            {
                "subresource": "status",
                "responseKind": {"group": "probe.example.io", "version": "v1", "kind": "Widget"},
                "verbs": ["get", "patch", "update"],
            },
            {
                "subresource": "scale",
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": ["get", "patch", "update"],
            },
        ],
    }


def test_built_in_kinds_leave_their_group_and_version_to_the_reader() -> None:
    items = discovery.aggregated(KINDS, core=True)["items"]
    assert len(items) == 1
    assert items[0]["metadata"] == {}
    pod = items[0]["versions"][0]["resources"][0]
    assert pod["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
    assert [each["responseKind"] for each in pod["subresources"][:2]] == [
        {"group": "", "version": "", "kind": "Binding"},
        {"group": "policy", "version": "v1", "kind": "Eviction"},
    ]


def test_the_tag_of_a_document_changes_with_it() -> None:
    one, other = discovery.aggregated(KINDS, core=False), discovery.aggregated(CUSTOM, core=False)
    assert discovery.etag(one) == discovery.etag(discovery.aggregated(KINDS, core=False))
    assert discovery.etag(one) != discovery.etag(other)
    assert discovery.etag(one).startswith('"')


def test_of_a_kind_that_is_on_the_way_out_no_writes_are_told() -> None:
    crd = samples.widgets()
    crd["status"]["conditions"].append({"type": "Terminating", "status": "True"})
    listed = discovery.resource_list(custom.served(crd), samples.GROUP, "v1")
    assert listed is not None
    assert listed["resources"][0]["verbs"] == ["delete", "deletecollection", "get", "list", "watch"]
