"""The generated CRDs on both API servers: taken without a warning, right about good and bad objects, well shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.api import (
    CUSTOM_KINDS,
    FlashJob,
    FlashJobPhase,
    FlashJobSpec,
    FlashJobStatus,
    Instance,
    custom_resource_definition,
    instance_crd,
)
from edgewright.api.instance import InstanceSpec
from edgewright.api.manifests import render
from edgewright.runtime.objects import Condition, ObjectMeta, RawObject
from tests.harness import ApiServer, KubectlError, RequestError, wait_until
from tests.unit.api.gadget import Gadget, OldGadget

ROOT = Path(__file__).parents[2]
BASES = ROOT / "config" / "crd" / "bases"
KINDS = {each.kind.kind: each.kind for each in (FlashJob, Instance, Gadget)}
SAMPLES = sorted((ROOT / "config" / "samples").rglob("*flashjob*.yaml"))


def install(api_server: ApiServer, crd: RawObject) -> str:
    """Installs a CRD, waits until it is served, and returns what kubectl had to remark."""
    remarks = api_server.kubectl("apply", "--server-side", "-f", "-", input=render(crd)).stderr
    api_server.until_served(crd["metadata"]["name"])
    return remarks


def conditions(api_server: ApiServer, name: str) -> dict[str, str]:
    crd = api_server.request("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    return {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}


@pytest.fixture(scope="module", autouse=True)
def our_kinds(api_server: ApiServer) -> str:
    """Our CRDs, served; the value is what kubectl remarked."""
    remarks = api_server.kubectl("apply", "--server-side", "-f", str(BASES)).stderr
    for kind in CUSTOM_KINDS:
        api_server.until_served(kind.kind.resource)
    return remarks


@pytest.fixture(scope="module")
def gadgets(api_server: ApiServer) -> str:
    """The kind that uses everything, served; the value is what kubectl remarked."""
    return install(api_server, custom_resource_definition(Gadget, OldGadget))


@pytest.fixture(scope="module")
def place(api_server: ApiServer) -> Iterator[str]:
    name = api_server.create_namespace("crds")
    yield name
    api_server.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def namespace(api_server: ApiServer, place: str) -> Iterator[str]:
    """One for all: to make and remove two hundred takes longer than what is tested. After each test it is empty."""
    yield place
    for kind in KINDS.values():
        if api_server.exists(kind.path(place)):
            api_server.request("DELETE", kind.path(place))


def job(**spec: Any) -> RawObject:
    """A good FlashJob, changed as said; None takes a field out, and `Null` puts a null in."""
    whole = {"uuid": "a", "firmware": "registry.example/fw:1", "version": "1.0"} | spec
    return {
        "apiVersion": FlashJob.kind.api_version,
        "kind": "FlashJob",
        "metadata": {"name": "job"},
        "spec": {name: None if value is Null else value for name, value in whole.items() if value is not None},
    }


class Null:
    """Stands for an explicit null."""


def gadget(**spec: Any) -> RawObject:
    return {
        "apiVersion": Gadget.kind.api_version,
        "kind": "Gadget",
        "metadata": {"name": "gadget"},
        "spec": {"title": "Thing"} | spec,
    }


def create(api_server: ApiServer, namespace: str, body: RawObject) -> RawObject:
    """Creates an object as kubectl does, in a tenth of its time, and returns it as the server has it."""
    path = KINDS[body["kind"]].path(namespace)
    created: RawObject = api_server.request("POST", f"{path}?fieldManager=kubectl-create&fieldValidation=Strict", body)
    return created


def why(refused: pytest.ExceptionInfo[RequestError]) -> str:
    """What the server said."""
    message: str = json.loads(refused.value.answer)["message"]
    return message


def apply(api_server: ApiServer, namespace: str, body: RawObject, manager: str = "kubectl") -> RawObject:
    """Applies an object on the server's side and returns what came of it."""
    flags = ("--server-side", "-n", namespace, "--field-manager", manager, "-o", "json")
    applied: RawObject = json.loads(api_server.kubectl("apply", *flags, "-f", "-", input=json.dumps(body)).stdout)
    return applied


# Our kinds


def test_our_crds_are_taken_without_a_warning(api_server: ApiServer, our_kinds: str) -> None:
    assert our_kinds == ""
    assert api_server.kubectl("replace", "--dry-run=server", "-f", str(BASES)).stderr == ""
    for kind in CUSTOM_KINDS:
        assert conditions(api_server, kind.kind.resource) == {"NamesAccepted": "True", "Established": "True"}


@pytest.fixture
def default_namespace(api_server: ApiServer) -> Iterator[str]:
    """The namespace that the published samples name, without FlashJobs before and after."""
    yield "default"
    api_server.kubectl("delete", "flashjobs", "--all", "-n", "default")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_a_published_sample_applies_unchanged_and_again(
    api_server: ApiServer, default_namespace: str, path: Path, flags: tuple[str, ...]
) -> None:
    for _ in range(2):
        assert api_server.kubectl("apply", *flags, "-f", str(path)).stderr == ""
    stored = api_server.request("GET", FlashJob.kind.path(default_namespace, "flashjob"))
    decoded = msgspec.convert(stored, FlashJob)
    assert decoded.spec.uuids
    assert decoded.spec.version == "0.2.0"
    assert stored["metadata"]["generation"] == 1
    assert decoded.spec.host_endpoint is None
    # kubectl itself leaves nulls out of a client-side apply; a server-side one sends them and the server keeps them.
    assert ("hostEndpoint" in stored["spec"]) == ("--server-side" in flags)


def test_one_form_of_uuid_can_be_changed_into_the_other(api_server: ApiServer, namespace: str) -> None:
    for uuid in ("a", ["a", "b"], "c"):
        assert apply(api_server, namespace, job(uuid=uuid))["spec"]["uuid"] == uuid


GOOD = {
    "firmware that is no reference": job(firmware="fsdsdsd"),
    "five thousand devices": job(uuid=[f"device-{number}" for number in range(5000)]),
    "a long name": job(uuid="a" * 253),
    "empty optional fields": job(device="", hostEndpoint="", externalIP="", applicationType="", flashjobPodImage=""),
    "null optional fields": job(
        device=Null, hostEndpoint=Null, externalIP=Null, applicationType=Null, flashjobPodImage=Null
    ),
}


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD.keys())
def test_a_good_job_is_taken_as_it_is(api_server: ApiServer, namespace: str, body: RawObject) -> None:
    assert create(api_server, namespace, body)["spec"] == body["spec"]


BAD = {
    "uuid number": (job(uuid=5), "spec.uuid"),
    "uuid fraction": (job(uuid=0.5), "spec.uuid"),
    "uuid zero": (job(uuid=0), "spec.uuid"),
    "uuid negative": (job(uuid=-1), "spec.uuid"),
    "uuid true": (job(uuid=True), "spec.uuid"),
    "uuid false": (job(uuid=False), "spec.uuid"),
    "uuid object": (job(uuid={"a": "b"}), "spec.uuid"),
    "uuid empty object": (job(uuid={}), "spec.uuid"),
    "uuid empty string": (job(uuid=""), "spec.uuid"),
    "uuid too long": (job(uuid="a" * 254), "spec.uuid"),
    "uuid empty list": (job(uuid=[]), "spec.uuid"),
    "uuid list with a number": (job(uuid=["a", 5]), "spec.uuid[1]"),
    "uuid list with an empty string": (job(uuid=["a", ""]), "spec.uuid[1]"),
    "uuid list with a null": (job(uuid=["a", None]), "spec.uuid[1]"),
    "uuid list of lists": (job(uuid=[["a"]]), "spec.uuid[0]"),
    "uuid list with a name too long": (job(uuid=["a" * 254]), "spec.uuid[0]"),
    "uuid list too long": (job(uuid=["a"] * 5001), "spec.uuid"),
    "uuid null": (job(uuid=Null), "spec.uuid: Required value"),
    "uuid missing": (job(uuid=None), "spec.uuid: Required value"),
    "firmware missing": (job(firmware=None), "spec.firmware: Required value"),
    "firmware empty": (job(firmware=""), "spec.firmware"),
    "firmware too long": (job(firmware="a" * 1025), "spec.firmware"),
    "version missing": (job(version=None), "spec.version: Required value"),
    "version without quotes": (job(version=1.0), "spec.version"),
    "version empty": (job(version=""), "spec.version"),
    "device list": (job(device=["esp32"]), "spec.device"),
    "hostEndpoint number": (job(hostEndpoint=80), "spec.hostEndpoint"),
    "field that does not exist": (job(uuids=["a"]), 'unknown field "spec.uuids"'),
    "no spec": ({name: value for name, value in job().items() if name != "spec"}, "spec: Required value"),
}


@pytest.mark.parametrize(("body", "named"), BAD.values(), ids=BAD.keys())
def test_a_bad_job_is_refused_and_the_field_is_named(
    api_server: ApiServer, namespace: str, body: RawObject, named: str
) -> None:
    with pytest.raises(RequestError) as refused:
        create(api_server, namespace, body)
    assert named in why(refused)
    assert not api_server.exists(FlashJob.kind.path(namespace, "job"))


def test_a_null_uuid_gets_past_the_server_by_apply_and_decodes(api_server: ApiServer, namespace: str) -> None:
    """The server counts it as there and then drops it, and no schema can refuse it: the controller has to report it."""
    apply(api_server, namespace, job())
    assert "uuid" not in apply(api_server, namespace, job(uuid=Null))["spec"]
    stored = api_server.request("GET", FlashJob.kind.path(namespace, "job"))
    assert msgspec.convert(stored, FlashJob).spec.uuids == ()


MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def write_status(api_server: ApiServer, namespace: str, status: Any) -> str:
    """Writes the status of `job` and returns what kubectl remarked."""
    patch = json.dumps({"status": status})
    return api_server.kubectl(
        "patch", "flashjob", "job", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch
    ).stderr


def test_a_status_written_from_the_struct_is_taken_and_read_back(api_server: ApiServer, namespace: str) -> None:
    status = FlashJobStatus(
        phase=FlashJobPhase.FAILED,
        message="one device did not answer",
        host_endpoint="192.0.2.7",
        completed_uuids=("a", "b"),
        observed_generation=1,
        conditions=(Condition(type="Ready", status="False", reason="Failed", last_transition_time=MOMENT),),
    )
    create(api_server, namespace, job())
    assert write_status(api_server, namespace, msgspec.to_builtins(status)) == ""
    stored = api_server.request("GET", FlashJob.kind.path(namespace, "job"))
    assert msgspec.convert(stored, FlashJob).status == status
    assert stored["metadata"]["generation"] == 1


BAD_STATUS = {
    "phase outside the enum": ({"phase": "Flashing"}, "status.phase"),
    "condition without a reason": (
        {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T00:00:00Z"}]},
        "status.conditions[0].reason",
    ),
    "condition neither true nor false": (
        {
            "conditions": [
                {"type": "Ready", "status": "Yes", "reason": "X", "lastTransitionTime": "2026-01-02T00:00:00Z"}
            ]
        },
        "status.conditions[0].status",
    ),
    "negative generation": ({"observedGeneration": -1}, "status.observedGeneration"),
}


@pytest.mark.parametrize(("status", "named"), BAD_STATUS.values(), ids=BAD_STATUS.keys())
def test_a_bad_status_is_refused(api_server: ApiServer, namespace: str, status: RawObject, named: str) -> None:
    create(api_server, namespace, job())
    with pytest.raises(KubectlError) as refused:
        write_status(api_server, namespace, status)
    assert named in str(refused.value)


SHOWN = {
    "phase": "InProgress",
    "message": "flashing",
    "progress": "2/3",
    "counts": {"total": 3, "done": 2, "failed": 0, "flashing": 1, "waiting": 0},
}


@pytest.mark.parametrize("name", ["flashjobs", "flashjob", "fj", "edgewright"])
def test_the_list_shows_what_a_person_wants_to_see(api_server: ApiServer, namespace: str, name: str) -> None:
    create(api_server, namespace, job(device="esp32"))
    write_status(api_server, namespace, SHOWN)
    headings, line = api_server.kubectl("get", name, "-n", namespace).stdout.splitlines()
    assert headings.split() == ["NAME", "PHASE", "DONE", "FAILED", "VERSION", "AGE"]
    called, *shown = line.split()
    assert called.rpartition("/")[2] == "job"  # of a category, which has several kinds, kubectl names the kind as well
    assert shown[:4] == ["InProgress", "2/3", "0", "1.0"]


def test_the_wide_list_shows_more(api_server: ApiServer, namespace: str) -> None:
    create(api_server, namespace, job(device="esp32"))
    write_status(api_server, namespace, SHOWN)
    headings, line = api_server.kubectl("get", "fj", "-n", namespace, "-o", "wide").stdout.splitlines()
    assert headings.split() == ["NAME", "PHASE", "DONE", "FAILED", "VERSION", "DEVICE", "FIRMWARE", "MESSAGE", "AGE"]
    assert line.split()[4:8] == ["1.0", "esp32", "registry.example/fw:1", "flashing"]


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("flashjob", "Says that these devices run this version of a firmware."),
        ("flashjob.spec.uuid", "The devices to flash: uids of Akri Instances"),
        ("flashjob.spec.version", "Put it in quotes"),
        ("flashjob.status.conditions.reason", "Why, in one word"),
    ],
)
def test_explain_shows_our_descriptions(api_server: ApiServer, field: str, says: str) -> None:
    # The server publishes the schema a moment after it serves the kind.
    def explained() -> str:
        try:
            return " ".join(api_server.kubectl("explain", field).stdout.split())
        except KubectlError:
            return ""

    wait_until(lambda: says in explained(), what=f"kubectl explain {field} says: {says}", interval=0.5)


def test_akris_instances_can_be_had_without_akri(api_server: ApiServer, namespace: str) -> None:
    assert install(api_server, instance_crd()) == ""
    spec = InstanceSpec(
        configuration_name="http",
        cdi_name="akri.sh/http=0c1c7b",
        capacity=1,
        nodes=("node",),
        device_usage={"http-0c1c7b-0": ""},
        broker_properties={"HOST_ENDPOINT": "192.0.2.7"},
    )
    instance = Instance(metadata=ObjectMeta(name="http-0c1c7b"), spec=spec)
    created = create(api_server, namespace, instance.to_raw())
    assert msgspec.convert(created, Instance).spec == spec
    with pytest.raises(RequestError, match=r"spec\.capacity: Required value"):
        create(api_server, namespace, Instance(spec=InstanceSpec(configuration_name="a", cdi_name="b")).to_raw())


def test_a_job_written_from_the_struct_is_taken(api_server: ApiServer, namespace: str) -> None:
    spec = FlashJobSpec(uuid=("a", "b"), firmware="registry.example/fw:1", version="1", external_ip="192.0.2.1")
    created = create(api_server, namespace, FlashJob(metadata=ObjectMeta(name="job"), spec=spec).to_raw())
    assert msgspec.convert(created, FlashJob).spec == spec


# Everything that the generator can do


def test_a_kind_that_uses_everything_is_taken_without_a_warning(api_server: ApiServer, gadgets: str) -> None:
    assert gadgets == ""
    assert conditions(api_server, Gadget.kind.resource) == {"NamesAccepted": "True", "Established": "True"}


def test_defaults_are_filled_in_as_python_has_them(api_server: ApiServer, namespace: str, gadgets: str) -> None:
    created = create(api_server, namespace, gadget(slots=[{"name": "a"}]))
    assert created["spec"] == {
        "title": "Thing",
        "replicas": 2,
        "ratio": 0.5,
        "colour": "Red",
        "mode": "safe",
        "level": 1,
        "enabled": False,
        "port": 80,
        "slots": [{"name": "a", "size": 64}],
        "steps": ["check", "flash"],
        "limits": {"low": 1, "high": 10},
    }
    without_defaults = msgspec.convert(gadget(slots=[{"name": "a"}]), Gadget)
    assert msgspec.convert(created, Gadget).spec == without_defaults.spec


TAKEN: dict[str, RawObject] = {
    "port as a number": {"port": 8080},
    "port as a name": {"port": "http"},
    "port as a percentage": {"port": "50%"},
    "one name": {"names": "a"},
    "a list of names": {"names": ["a", "b"]},
    "an explicit null": {"note": None},
    "a free-form object": {"settings": {"deep": {"list": [1, "a", None]}}},
    "an object with more fields": {"options": {"known": 1, "unknown": {"a": 2}}},
    "any number": {"anything": 3},
    "any list": {"anything": [1, {"a": 2}]},
    "an embedded object": {
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}}
    },
    "a map": {"labels": {"a": "b"}},
    "a moment and a day": {"since": "2026-01-02T03:04:05Z", "day": "2026-01-02"},
    "bytes": {"secret": "aGVsbG8="},
}


@pytest.mark.parametrize("spec", TAKEN.values(), ids=TAKEN.keys())
def test_a_value_of_each_type_is_taken_as_it_is(
    api_server: ApiServer, namespace: str, gadgets: str, spec: RawObject
) -> None:
    created = create(api_server, namespace, gadget(**spec))
    assert {name: created["spec"][name] for name in spec} == spec
    assert msgspec.convert(created, Gadget).spec.title == "Thing"


REFUSED: dict[str, tuple[RawObject, str]] = {
    "too short": ({"title": "No"}, "spec.title"),
    "against the pattern": ({"title": "thing"}, "spec.title"),
    "below the minimum": ({"replicas": -1}, "spec.replicas"),
    "beyond 32 bits": ({"replicas": 2**40}, "spec.replicas"),
    "at an exclusive bound": ({"ratio": 0}, "spec.ratio"),
    "not a multiple": ({"ratio": 0.3}, "spec.ratio"),
    "not in a string enum": ({"colour": "Green"}, 'supported values: "Red", "Blue"'),
    "not in a literal": ({"mode": "slow"}, 'supported values: "fast", "safe"'),
    "not in a number enum": ({"level": 4}, "spec.level"),
    "int or string: neither": ({"port": True}, "spec.port"),
    "int or string: too high": ({"port": 70000}, "spec.port"),
    "int or string: pattern": ({"port": "50"}, "spec.port"),
    "string or list: too many": ({"names": ["a"] * 4}, "spec.names"),
    "key twice": ({"slots": [{"name": "a"}, {"name": "a"}]}, "spec.slots[1]: Duplicate value"),
    "no key": ({"slots": [{"size": 1}]}, "spec.slots[0].name"),
    "duplicate in a set": ({"tags": ["a", "a"]}, "spec.tags[1]: Duplicate value"),
    "too few items": ({"steps": []}, "spec.steps"),
    "too many properties": ({"labels": dict.fromkeys("abcde", "x")}, "spec.labels"),
    "wrong type in a map": ({"labels": {"a": 1}}, "spec.labels.a"),
    "embedded object without a kind": ({"template": {"metadata": {"name": "p"}}}, "spec.template.kind"),
    "rule with a field": ({"limits": {"low": 5, "high": 2}}, "spec.limits.low: Invalid value: low must not be above"),
    "rule with an expression": ({"limits": {"low": 1, "high": 2000}}, "high must be below 1000"),
    "rule with another text": ({"limits": {"low": 1, "high": 9000}}, "high is far above 1000"),
    "no moment": ({"since": "yesterday"}, "spec.since"),
    "no base 64": ({"secret": "%"}, "spec.secret"),
}


@pytest.mark.parametrize(("spec", "named"), REFUSED.values(), ids=REFUSED.keys())
def test_a_value_against_the_schema_is_refused_and_named(
    api_server: ApiServer, namespace: str, gadgets: str, spec: RawObject, named: str
) -> None:
    with pytest.raises(RequestError) as refused:
        create(api_server, namespace, gadget(**spec))
    assert named in why(refused)


def test_a_transition_rule_holds_a_field_still(api_server: ApiServer, namespace: str, gadgets: str) -> None:
    apply(api_server, namespace, gadget(serial="1"))
    with pytest.raises(KubectlError, match="the serial cannot be changed"):
        apply(api_server, namespace, gadget(serial="2"))


def test_a_keyed_list_and_a_set_are_merged_and_an_atomic_list_is_not(
    api_server: ApiServer, namespace: str, gadgets: str
) -> None:
    apply(api_server, namespace, gadget(slots=[{"name": "a", "size": 1}], tags=["x"]), "one")
    merged = apply(api_server, namespace, gadget(slots=[{"name": "b", "size": 2}], tags=["y"]), "two")
    assert merged["spec"]["slots"] == [{"name": "a", "size": 1}, {"name": "b", "size": 2}]
    assert merged["spec"]["tags"] == ["x", "y"]
    apply(api_server, namespace, gadget(steps=["one"]), "three")
    with pytest.raises(KubectlError, match=r'conflict with "three": \.spec\.steps'):
        apply(api_server, namespace, gadget(steps=["two"]), "four")


def test_a_gadget_can_be_scaled(api_server: ApiServer, namespace: str, gadgets: str) -> None:
    create(api_server, namespace, gadget())
    api_server.kubectl("scale", "gadget/gadget", "--replicas=7", "-n", namespace)
    assert api_server.request("GET", Gadget.kind.path(namespace, "gadget"))["spec"]["replicas"] == 7
    assert api_server.request("GET", Gadget.kind.path(namespace, "gadget", "scale"))["spec"]["replicas"] == 7


def test_a_list_can_be_filtered_by_a_selectable_field(api_server: ApiServer, namespace: str, gadgets: str) -> None:
    create(api_server, namespace, gadget(colour="Blue"))
    found = [
        api_server.kubectl(
            "get", "gdt", "-n", namespace, "--field-selector", f"spec.colour={colour}", "-o", "name"
        ).stdout
        for colour in ("Blue", "Red")
    ]
    assert found == ["gadget.tests.edgewright.dev/gadget\n", ""]


def test_a_condition_can_be_a_column(api_server: ApiServer, namespace: str, gadgets: str) -> None:
    create(api_server, namespace, gadget())
    condition = {"type": "Ready", "status": "True", "reason": "Fine", "lastTransitionTime": "2026-01-02T00:00:00Z"}
    patch = json.dumps({"status": {"conditions": [condition]}})
    api_server.kubectl("patch", "gdt", "gadget", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    headings, line = api_server.kubectl("get", "things", "-n", namespace).stdout.splitlines()
    assert headings.split() == ["NAME", "REPLICAS", "READY", "AGE"]
    assert line.split()[:3] == ["gadget", "2", "True"]
    assert api_server.kubectl("wait", "--for=condition=Ready", "gadget/gadget", "-n", namespace).stderr == ""


def test_a_deprecated_version_is_served_with_its_warning(api_server: ApiServer, namespace: str, gadgets: str) -> None:
    old = gadget(title="old") | {"apiVersion": OldGadget.kind.api_version}
    done = api_server.kubectl("create", "-n", namespace, "-o", "json", "-f", "-", input=json.dumps(old))
    assert done.stderr == "Warning: tests.edgewright.dev/v1beta1 Gadget is old; use v1\n"
    assert msgspec.convert(json.loads(done.stdout), OldGadget).spec.title == "old"
    assert api_server.exists(Gadget.kind.path(namespace, "gadget"))
