"""The rules of Pods: what admission adds to a new one, what may change later, binding, and how long one takes to end.

The volume with a token of the ServiceAccount comes from `podtokens`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from edgewright.local.builtin import poddefaults, podtokens
from edgewright.local.builtin.binding import BindingRules
from edgewright.local.builtin.podspec import pod_spec
from edgewright.local.builtin.podupdate import changed_spec, changed_status
from edgewright.local.errors import Refusal, bad_request, conflict, forbidden
from edgewright.local.field_errors import forbidden as forbidden_field
from edgewright.local.field_errors import required, unsupported
from edgewright.local.names import label
from edgewright.local.quantities import value as amount_of
from edgewright.local.served import Write
from edgewright.local.structs.rules import CORE, BuiltinRules, flag_at, text_at
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import Kind, RawObject

KIND: Final = Kind(group="", version="v1", kind="Pod", plural="pods")
_BINDING: Final = Kind(group="", version="v1", kind="Binding", plural="pods/binding")
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TAINT_SECONDS = 300
_PRIORITIES = {"": 0, "system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
_PREEMPTION = "PreemptLowerPriority"
_TOPOLOGY = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
_ENDED = ("Failed", "Succeeded")


def _pod_ip(obj: RawObject) -> str:
    addresses = (obj.get("status") or {}).get("podIPs") or [{}]
    return str(addresses[0].get("ip", ""))


SELECTABLE: Final = {
    "spec.nodeName": text_at("spec", "nodeName"),
    "spec.restartPolicy": text_at("spec", "restartPolicy"),
    "spec.schedulerName": text_at("spec", "schedulerName"),
    "spec.serviceAccountName": text_at("spec", "serviceAccountName"),
    "spec.hostNetwork": flag_at("spec", "hostNetwork"),
    "status.phase": text_at("status", "phase"),
    "status.podIP": _pod_ip,
    "status.nominatedNodeName": text_at("status", "nominatedNodeName"),
}


class PodRules(BuiltinRules):
    """What is special about Pods."""

    definition = f"{CORE}.Pod"
    status = True
    generations = True
    returns_deleted = True
    graceful = True

    def __init__(self) -> None:
        super().__init__()
        self._bindings = BindingRules()

    def default(self, obj: RawObject) -> None:
        """The spec is filled in, and the status says the Pod's address in both of its fields."""
        poddefaults.fill_spec(obj["spec"])
        poddefaults.fill_pod(obj["spec"])
        _agree(obj["status"])

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """What the admission of a real cluster adds: an account, a priority, tolerations; the status begins again."""
        spec = obj["spec"]
        _tolerate(spec)
        _prioritise(obj)
        _check_runtime(obj)
        _give_account(obj, write)
        obj["status"] = {"phase": "Pending", "qosClass": quality(spec)}
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastProbeTime": None,
                    "lastTransitionTime": write.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
            ]

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """Keeps what admission added, and the other half of the object."""
        super().prepare_update(obj, old, write)
        if write.subresource == "status":
            _keep_with_status(obj, old)
            return
        _tolerate(obj["spec"])
        for name in ("priority", "preemptionPolicy"):
            if name in old["spec"]:
                obj["spec"].setdefault(name, old["spec"][name])

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """The spec of a new Pod, or what changed of one that is there."""
        if write.subresource == "status" and old is not None:
            return changed_status(obj, old)
        spec = obj["spec"]
        causes = pod_spec(spec, "spec", is_pod=True)
        if old is not None:
            return causes + changed_spec(spec, old["spec"])
        if spec.get("ephemeralContainers"):
            causes.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            why = "cannot be set until all schedulingGates have been cleared"
            causes.append(forbidden_field("spec.nodeName", why))
        return causes

    def warnings(self, obj: RawObject, old: RawObject | None, write: Write) -> list[str]:
        """What a new Pod's author should know."""
        if old is not None:
            return []
        found = []
        if faults := label(obj["metadata"].get("name", "")):
            found.append(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
                f"a DNS label is recommended: [{' '.join(faults)}]"
            )
        found += environment_warnings(obj["spec"], "spec")
        return found

    def act(self, obj: RawObject, body: RawObject, write: Write) -> RawObject | None:
        """The Pod after a Binding gave it a node."""
        if write.subresource != "binding":
            return None
        binding, _ = self._bindings.decode(body)
        return bound(obj, binding, write)

    def unowned(self, subresource: str) -> tuple[tuple[str, ...], ...]:
        """A write of the status keeps who owns the Pod and when it is to go."""
        kept = (("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")) if subresource == "status" else ()
        return (*super().unowned(subresource), *kept)

    def grace_seconds(self, obj: RawObject, asked: int | None) -> int:
        """What was asked for, or what the Pod wishes; nothing where no node has to end anything."""
        if not obj["spec"].get("nodeName") or obj["status"].get("phase") in _ENDED:
            return 0
        seconds: int = obj["spec"].get("terminationGracePeriodSeconds", 0) if asked is None else asked
        return 1 if seconds < 0 else seconds


def environment_warnings(spec: RawObject, path: str) -> list[str]:
    """That a variable of a container is said twice, in a Pod or in a template."""
    found = []
    for place, container in enumerate(spec.get("containers") or ()):
        seen: set[str] = set()
        for index, variable in enumerate(container.get("env") or ()):
            if variable["name"] in seen:
                found.append(
                    f"{path}.containers[{place}].env[{index}]: hides previous definition of "
                    f'"{variable["name"]}", which may be dropped when using apply'
                )
            seen.add(variable["name"])
    return found


def _agree(status: RawObject) -> None:
    """The single address and the list of addresses say the same; the single one wins."""
    addresses = status.get("podIPs") or []
    if status.get("podIP") and (not addresses or addresses[0].get("ip") != status["podIP"]):
        status["podIPs"] = [{"ip": status["podIP"]}]
    elif addresses:
        status["podIP"] = addresses[0].get("ip", "")


def _tolerate(spec: RawObject) -> None:
    """A Pod stays five minutes on a node that is not ready or not reached, unless it says otherwise."""
    listed = spec.get("tolerations") or []
    for taint in _TAINTS:
        if not any(
            each.get("key", "") in (taint, "") and each.get("effect", "") in ("NoExecute", "") for each in listed
        ):
            wanted = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TAINT_SECONDS}
            spec["tolerations"] = [*(spec.get("tolerations") or []), wanted]


def _check_runtime(obj: RawObject) -> None:
    """There are no runtime classes here."""
    if wanted := obj["spec"].get("runtimeClassName"):
        name = obj["metadata"].get("name", "")
        raise forbidden(KIND, name, f'pod rejected: RuntimeClass "{wanted}" not found')


def _prioritise(obj: RawObject) -> None:
    """There are no priority classes here but those that every cluster has."""
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    wanted = spec.get("priorityClassName", "")
    if wanted not in _PRIORITIES:
        raise forbidden(KIND, name, f"no PriorityClass with name {wanted} was found")
    for field, computed, kind in (
        ("priority", _PRIORITIES[wanted], "integer value of priority"),
        ("preemptionPolicy", _PREEMPTION, "string value of PreemptionPolicy"),
    ):
        given = spec.setdefault(field, computed)
        if given != computed:
            why = f"the {kind} ({given}) must not be provided in pod spec; priority admission controller computed"
            raise forbidden(KIND, name, f"{why} {computed} from the given PriorityClass name")


def _give_account(obj: RawObject, write: Write) -> None:
    spec, metadata = obj["spec"], obj["metadata"]
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = write.find("serviceaccounts", metadata.get("namespace", ""), name)
    if account is None:
        where = f"{metadata.get('namespace', '')}/{name}"
        why = f'error looking up service account {where}: serviceaccount "{name}" not found'
        raise forbidden(KIND, metadata.get("name", ""), why)
    podtokens.mount(spec, account)
    if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = account["imagePullSecrets"]


def _keep_with_status(obj: RawObject, old: RawObject) -> None:
    """A write of the status leaves owners alone, and does not forget what the API server itself wrote there."""
    obj["metadata"].pop("ownerReferences", None)
    if owners := old["metadata"].get("ownerReferences"):
        obj["metadata"]["ownerReferences"] = owners
    for name in ("qosClass", "observedGeneration"):
        if name in old["status"]:
            obj["status"].setdefault(name, old["status"][name])


def quality(spec: RawObject) -> str:
    """The class of a Pod by what it asks for: all of it guaranteed, some of it, or nothing."""
    whole = spec.get("resources") or {}
    parts = (
        [whole]
        if whole.get("limits") or whole.get("requests")
        else [each["resources"] for each in poddefaults.containers(spec)]
    )
    asked = False
    guaranteed = bool(parts)
    for resources in parts:
        limits, requests = _positive(resources.get("limits")), _positive(resources.get("requests"))
        asked = asked or bool(limits or requests)
        if set(limits) != {"cpu", "memory"} or limits != requests:
            guaranteed = False
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(amounts: dict[str, str] | None) -> dict[str, object]:
    found = {name: amount_of((amounts or {}).get(name, "0")) for name in ("cpu", "memory")}
    return {name: amount for name, amount in found.items() if amount > 0}


def bound(pod: RawObject, binding: RawObject, write: Write) -> RawObject:
    """The Pod on the node that a Binding names; a Refusal where it cannot be given one."""
    name, metadata = pod["metadata"]["name"], binding["metadata"]
    if metadata.get("name", "") != name:
        raise bad_request("name in URL does not match name in Binding object")
    if causes := _binding_faults(binding):
        raise Refusal(500, "", _aggregate(causes))
    for field in ("uid", "resourceVersion"):
        if metadata.get(field) and metadata[field] != pod["metadata"].get(field):
            raise conflict(KIND, name, _precondition(field, metadata[field], pod["metadata"]))
    if "deletionTimestamp" in pod["metadata"]:
        raise conflict(_BINDING, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if node := pod["spec"].get("nodeName"):
        raise conflict(_BINDING, name, f'pod {name} is already assigned to node "{node}"')
    if pod["spec"].get("schedulingGates"):
        raise conflict(_BINDING, name, f"pod {name} has non-empty .spec.schedulingGates")
    target = binding["target"]["name"]
    made = {**pod, "metadata": {**pod["metadata"]}, "spec": {**pod["spec"], "nodeName": target}}
    if annotations := {**(pod["metadata"].get("annotations") or {}), **(metadata.get("annotations") or {})}:
        made["metadata"]["annotations"] = annotations
    node_labels = ((write.find("nodes", "", target) or {}).get("metadata") or {}).get("labels") or {}
    topology = {key: node_labels[key] for key in _TOPOLOGY if key in node_labels}
    if labels := {**(pod["metadata"].get("labels") or {}), **(metadata.get("labels") or {}), **topology}:
        made["metadata"]["labels"] = labels
    status = {key: value for key, value in pod["status"].items() if key != "nominatedNodeName"}
    made["status"] = {**status, "conditions": _scheduled(status.get("conditions") or [], write.now)}
    return made


def _binding_faults(binding: RawObject) -> list[Cause]:
    target, causes = binding["target"], []
    if target.get("kind", "") not in ("", "Node"):
        causes.append(unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        causes.append(required("target.name"))
    return causes


def _aggregate(causes: list[Cause]) -> str:
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _precondition(field: str, wanted: str, metadata: RawObject) -> str:
    what, key = "UID" if field == "uid" else "ResourceVersion", f"{metadata.get('namespace', '')}/{metadata['name']}"
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/pods/{key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {metadata.get(field, '')}"
    )


def _scheduled(conditions: list[RawObject], now: datetime) -> list[RawObject]:
    """The conditions with one that says that the Pod has a node."""
    new: RawObject = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    before = next((each for each in conditions if each["type"] == "PodScheduled"), None)
    if before is None:
        return [*conditions, new]
    if before["status"] == "True":
        new["lastTransitionTime"] = before["lastTransitionTime"]
    return [new if each is before else each for each in conditions]
