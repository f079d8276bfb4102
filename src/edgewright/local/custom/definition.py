"""The rules of CustomResourceDefinition: what is filled in, what is refused, and how a deletion begins.

`builtin` serves the kind with these. They are functions of the object alone; that names may be taken already is found
out later, by `crd_controller`.
"""

from __future__ import annotations

from edgewright.local import field_errors
from edgewright.local.custom.conditions import CLEANUP, find, is_true, set_condition, terminating
from edgewright.local.custom.spec_checks import approval_faults, names_faults, spec_faults
from edgewright.local.custom.structure import children
from edgewright.local.errors import Cause
from edgewright.local.go_format import quote
from edgewright.local.schema import formats
from edgewright.local.served import Write
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.objects import RawObject


def definition_rules() -> BuiltinRules:
    """The rules that CustomResourceDefinition is served with."""
    return DefinitionRules()


class DefinitionRules(BuiltinRules):
    """What happens to definitions on their way into the store."""

    definition = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
    status = True
    generations = True
    unconditional_update = False

    def decode(self, obj: RawObject) -> tuple[RawObject, list[str]]:
        """The object as Go's struct holds it; an empty list of versions, which is refused, is told from none."""
        read, unknown = super().decode(obj)
        if isinstance(spec := obj.get("spec"), dict) and spec.get("versions") == []:
            read["spec"]["versions"] = []
        return read, unknown

    def default(self, obj: RawObject) -> None:
        """Fills in the names that follow from the kind, the conversion and the stored version."""
        spec = obj["spec"]
        names = spec.get("names") or {}
        kind = names.get("kind", "")
        if not names.get("singular") and kind:
            names["singular"] = kind.lower()
        if not names.get("listKind") and kind:
            names["listKind"] = f"{kind}List"
        # In the order in which the real server writes names.
        order = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
        spec["names"] = {name: names[name] for name in order if name in names}
        spec.setdefault("conversion", {"strategy": "None"})
        if spec.get("preserveUnknownFields") is False:
            del spec["preserveUnknownFields"]
        if isinstance(obj.get("status"), dict) and not obj["status"].get("storedVersions"):
            _note_storage(obj)

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """A new definition has no status but the version that it stores."""
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
        _note_storage(obj)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """Keeps the status, or for a write of the status the spec; a new storage version is noted."""
        super().prepare_update(obj, old, write)
        if write.subresource != "status":
            _note_storage(obj)

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """What is wrong with the definition, or with the change of it."""
        status = obj.get("status") or {}
        accepted = [*names_faults(status.get("acceptedNames") or {}, "status.acceptedNames")]
        if write.subresource == "status":
            return accepted
        spec = obj["spec"]
        found = [] if old is not None else _name_faults(obj)
        found += spec_faults(spec)
        if old is not None:
            found += _changed_faults(obj, old)
        found += accepted
        found += _stored_faults(status.get("storedVersions"), spec.get("versions") or [])
        found += approval_faults(obj, old)
        if spec.get("preserveUnknownFields") and not (old or {}).get("spec", {}).get("preserveUnknownFields"):
            instead = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
            why = f"cannot set to true, {instead}"
            found.append(field_errors.invalid("spec.preserveUnknownFields", True, why))
        return found

    def warnings(self, obj: RawObject, old: RawObject | None, write: Write) -> list[str]:
        """Formats that are not checked, where they are new."""
        if write.subresource == "status":
            return []
        known = set(_unknown_formats(old)) if old is not None else set()
        return [f"unrecognized format {quote(name)}" for name in _unknown_formats(obj) if name not in known]

    def desired(self, obj: RawObject) -> RawObject:
        """The spec alone creates generations."""
        return {"spec": obj.get("spec")}

    def held(self, obj: RawObject) -> bool:
        """Until its objects are known to go a definition stays."""
        return not is_true(obj, "Terminating") and obj.get("metadata", {}).get("deletionTimestamp") is None

    def prepare_delete(self, obj: RawObject, write: Write) -> None:
        """Says that the deletion has begun, and holds the definition until its objects are gone."""
        if find(obj, "Terminating") is not None:
            return  # it has begun before; to ask for it again changes what it does for any kind
        metadata = obj["metadata"]
        if CLEANUP not in (metadata.get("finalizers") or ()):
            metadata["finalizers"] = [*(metadata.get("finalizers") or ()), CLEANUP]
        # Other kinds are given a period, and count this as a generation; the real server does not for this one.
        metadata.pop("deletionGracePeriodSeconds", None)
        if metadata.get("generation", 0) > 1:
            metadata["generation"] -= 1
        message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        set_condition(obj, terminating("InstanceDeletionPending", message, going=True), write.now)


def _note_storage(obj: RawObject) -> None:
    """Adds the version that is stored from now on to those of which objects may be in the store."""
    storage = next((each["name"] for each in obj["spec"].get("versions") or () if each.get("storage")), None)
    stored = obj["status"].get("storedVersions") or []
    if storage is not None and storage not in stored:
        obj["status"] = {**obj["status"], "storedVersions": [*stored, storage]}


def _name_faults(obj: RawObject) -> list[Cause]:
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"
    if name == wanted:
        return []
    return [field_errors.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _changed_faults(obj: RawObject, old: RawObject) -> list[Cause]:
    """What may not change: what the store's names are made of always, the rest once objects may exist."""
    new_spec, old_spec = obj["spec"], old["spec"]
    fixed = [("scope",), ("names", "kind")] if is_true(old, "Established") else []
    found = []
    for path in (*fixed, ("group",), ("names", "plural")):
        new, before = new_spec, old_spec
        for name in path:
            new, before = new.get(name, ""), before.get(name, "")
        if new != before:
            found.append(field_errors.invalid(f"spec.{'.'.join(path)}", new, "field is immutable"))
    return found


def _stored_faults(stored: list[str] | None, versions: list[RawObject]) -> list[Cause]:
    path = "status.storedVersions"
    if not stored:
        return [field_errors.invalid(path, stored, "must have at least one stored version")]
    named = {version.get("name") for version in versions}
    found = [
        field_errors.invalid(path, stored, f"must have the storage version {version['name']}")
        for version in versions
        if version.get("storage") and version["name"] not in stored
    ]
    for index, name in enumerate(stored):
        if name not in named:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} from status.storedVersions"
            )
            found.append(field_errors.invalid(f"{path}[{index}]", name, why))
    return found


def _unknown_formats(crd: RawObject) -> list[str]:
    found: list[str] = []
    for version in crd["spec"].get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            _collect_formats(schema, found)
    return list(dict.fromkeys(found))


def _collect_formats(schema: RawObject, found: list[str]) -> None:
    name = schema.get("format", "")
    if name and not formats.checked(name, schema.get("type", "")):
        found.append(name)
    for child in children(schema):
        _collect_formats(child, found)
