"""Whether what a definition asks for can be served: its names, versions, subresources, columns and conversion.

The rules of CustomResourceDefinition call it on every create and update; the sentences and the fields that they name
are those of kube-apiserver, which has what all versions share at the top of the spec.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from edgewright.local import field_errors, names
from edgewright.local.custom.paths import PathFault, follow
from edgewright.local.custom.schema_checks import schema_faults
from edgewright.local.errors import Cause
from edgewright.local.go_format import quote
from edgewright.runtime.objects import RawObject

APPROVED = "api-approved.kubernetes.io"
_COLUMN_TYPES = "boolean,date,integer,number,string"
_COLUMN_FORMATS = "byte,date,date-time,double,float,int32,int64,password"
_MAX_SELECTABLE = 8
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"


def spec_faults(spec: RawObject) -> list[Cause]:
    """What is wrong with the spec of a definition."""
    return [
        *_where_faults(spec),
        *_versions_faults(spec),
        *_names_faults(spec),
        *_shared_faults(spec),
        *_conversion_faults(spec),
    ]


def names_faults(kind_names: RawObject, path: str) -> Iterator[Cause]:
    """What is wrong with names that are there."""
    for field in ("plural", "singular"):
        name = kind_names.get(field, "")
        if name and (wrong := names.label1035(name)):
            yield field_errors.invalid(f"{path}.{field}", name, ",".join(wrong))
    for field in ("kind", "listKind"):
        name = kind_names.get(field, "")
        if name and (wrong := names.label1035(name.lower())):
            why = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            yield field_errors.invalid(f"{path}.{field}", name, why)
    yield from _labels(kind_names.get("shortNames"), f"{path}.shortNames")
    if kind_names.get("kind") and kind_names["kind"] == kind_names.get("listKind"):
        yield field_errors.invalid(f"{path}.listKind", kind_names["kind"], "kind and listKind may not be the same")
    yield from _labels(kind_names.get("categories"), f"{path}.categories")


def approval_faults(crd: RawObject, old: RawObject | None) -> Iterator[Cause]:
    """Groups of the Kubernetes project may only be used with its approval, or with a word that there is none."""
    group = crd["spec"].get("group", "")
    if group not in ("k8s.io", "kubernetes.io") and not group.endswith((".k8s.io", ".kubernetes.io")):
        return
    state = _approval(crd)
    if state in ("approved", "unapproved") or (old is not None and _approval(old) == state):
        return
    field, must = (
        f"metadata.annotations[{APPROVED}]",
        f"protected groups must have approval annotation {quote(APPROVED)}",
    )
    if state == "missing":
        yield field_errors.required(field, f"{must}, {_SEE}")
    else:
        why = f'{must} with either a URL or a reason starting with "unapproved", {_SEE}'
        yield field_errors.invalid(field, crd["metadata"]["annotations"][APPROVED], why)


def _approval(crd: RawObject) -> str:
    said = (crd["metadata"].get("annotations") or {}).get(APPROVED, "")
    if not said:
        return "missing"
    if said.startswith("unapproved"):
        return "unapproved"
    try:
        url = urlsplit(said)
    except ValueError:
        return "invalid"
    return "approved" if url.scheme and url.netloc else "invalid"


def _labels(values: Any, path: str) -> Iterator[Cause]:
    for index, name in enumerate(values or ()):
        if wrong := names.label1035(name):
            yield field_errors.invalid(f"{path}[{index}]", name, ",".join(wrong))


def _where_faults(spec: RawObject) -> Iterator[Cause]:
    group = spec.get("group", "")
    if not group:
        yield field_errors.required("spec.group")
    elif wrong := names.subdomain(group):
        yield field_errors.invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield field_errors.invalid("spec.group", group, "should be a domain with at least one dot")
    yield from _one_of(spec.get("scope", ""), ("Cluster", "Namespaced"), "spec.scope")


def _one_of(value: str, choices: tuple[str, ...], path: str) -> Iterator[Cause]:
    if not value:
        yield field_errors.required(path)
    elif value not in choices:
        yield field_errors.unsupported(path, value, choices)


def _versions_faults(spec: RawObject) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    schemas = [_schema(version) for version in versions]
    for index, schema in enumerate(schemas):
        if schema is None:
            yield field_errors.required(f"spec.versions[{index}].schema.openAPIV3Schema")
    apart = {field for field in _PER_VERSION if not _alike(versions, field)}
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if wrong := names.label1035(version.get("name", "")):
            yield field_errors.invalid(f"{path}.name", version.get("name", ""), ",".join(wrong))
        yield from _deprecation_faults(version, f"{path}.deprecationWarning")
        yield from _version_faults(version, apart, path, schema_word="schema")
    if len({version.get("name") for version in versions}) != len(versions):
        yield field_errors.invalid("spec.versions", _shown(spec.get("versions")), "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield field_errors.invalid("spec.versions", _shown(spec.get("versions")), why)
    if versions and (wrong := names.label1035(versions[0].get("name", ""))):
        yield field_errors.invalid("spec.version", versions[0].get("name", ""), ",".join(wrong))


_PER_VERSION = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def _alike(versions: list[RawObject], field: str) -> bool:
    """Whether a field is the same in all versions; the real server then sees it at the top of the spec."""
    return all((version.get(field) or None) == (versions[0].get(field) or None) for version in versions)


def _schema(version: RawObject) -> RawObject | None:
    schema: RawObject | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def _shown(versions: list[RawObject] | None) -> list[RawObject] | None:
    """Versions as the real server shows them in a message: by the names that their fields have in it."""
    if versions is None:
        return None
    return [
        {
            "Name": version.get("name", ""),
            "Served": bool(version.get("served")),
            "Storage": bool(version.get("storage")),
            "Deprecated": bool(version.get("deprecated")),
            "DeprecationWarning": version.get("deprecationWarning"),
            "Schema": None,
            "Subresources": None,
            "AdditionalPrinterColumns": None,
            "SelectableFields": None,
        }
        for version in versions
    ]


def _shared_faults(spec: RawObject) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    if versions:
        shared = {field for field in _PER_VERSION if _alike(versions, field)}
        # A rule may need to know whether any version has a status of its own.
        status = any(_has_status(version) for version in versions)
        yield from _version_faults(versions[0], shared, "spec", schema_word="validation", status=status)


def _has_status(version: RawObject) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _version_faults(
    version: RawObject, fields: set[str], path: str, *, schema_word: str, status: bool | None = None
) -> Iterator[Cause]:
    schema = _schema(version)
    if "schema" in fields and schema is not None:
        separate = _has_status(version) if status is None else status
        yield from schema_faults(schema, f"{path}.{schema_word}.openAPIV3Schema", status=separate)
    if "subresources" in fields:
        yield from _subresources_faults(version.get("subresources") or {}, f"{path}.subresources")
    if "additionalPrinterColumns" in fields:
        for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _column_faults(column, f"{path}.additionalPrinterColumns[{index}]")
    if "selectableFields" in fields and version.get("selectableFields"):
        yield from _selectable_faults(version["selectableFields"], schema or {}, f"{path}.selectableFields")


def _deprecation_faults(version: RawObject, path: str) -> Iterator[Cause]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield field_errors.invalid(path, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode()) > 256:
        yield field_errors.invalid(path, warning, "must be <= 256 characters long")
    if not warning:
        yield field_errors.invalid(path, warning, "must not be an empty string")
    for index, char in enumerate(warning):
        if not (char == " " or (char.isprintable() and not char.isspace())):
            at = len(warning[:index].encode())
            why = f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
            yield field_errors.invalid(path, warning, why)
            break


def _subresources_faults(subresources: RawObject, path: str) -> Iterator[Cause]:
    scale = subresources.get("scale")
    if scale is None:
        return
    for field, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        at, said = f"{path}.scale.{field}", scale.get(field) or ""
        if not said:
            if field != "labelSelectorPath":
                yield field_errors.required(at)
        elif not said.startswith("."):
            yield field_errors.invalid(at, said, "must be a simple json path starting with .")
        elif not said.startswith(roots):
            under = roots[0].rstrip(".") if len(roots) == 1 else "either .spec or .status"
            yield field_errors.invalid(at, said, f"should be a json path under {under}")


def _column_faults(column: RawObject, path: str) -> Iterator[Cause]:
    kind, form, at = column.get("type", ""), column.get("format", ""), column.get("jsonPath", "")
    if not column.get("name"):
        yield field_errors.required(f"{path}.name")
    if not kind:
        yield field_errors.required(f"{path}.type", f"must be one of {_COLUMN_TYPES}")
    elif kind not in _COLUMN_TYPES.split(","):
        yield field_errors.invalid(f"{path}.type", kind, f"must be one of {_COLUMN_TYPES}")
    if form and form not in _COLUMN_FORMATS.split(","):
        yield field_errors.invalid(f"{path}.format", form, f"must be one of {_COLUMN_FORMATS}")
    if not at:
        yield field_errors.required(f"{path}.JSONPath")
    elif not at.startswith("."):
        yield field_errors.invalid(f"{path}.JSONPath", at, "must be a simple json path starting with .")


def _selectable_faults(fields: list[RawObject], schema: RawObject, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, each in enumerate(fields):
        at, said = f"{path}[{index}].jsonPath", each.get("jsonPath", "")
        if not said:
            yield field_errors.required(at)
            continue
        try:
            found = follow(said, schema, brackets=False)
        except PathFault as fault:
            yield field_errors.invalid(at, said, f"is an invalid path: {fault}")
            continue
        if said.startswith(".metadata.") or said == ".metadata":
            yield field_errors.invalid(at, said, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            also = "Enum string fields and strings with formats are allowed."
            why = f"must point to a field of type string, boolean or integer. {also}"
            yield field_errors.invalid(at, said, why)
        if said in seen:
            yield field_errors.duplicate(at, said)
        seen.add(said)
    if len(seen) > _MAX_SELECTABLE:
        why = f"Too many: {len(seen)}: must have at most {_MAX_SELECTABLE} items"
        yield Cause("FieldValueTooMany", why, path)


def _names_faults(spec: RawObject) -> Iterator[Cause]:
    kind_names = spec.get("names") or {}
    for field in ("plural", "singular", "kind", "listKind"):
        if not kind_names.get(field):
            yield field_errors.required(f"spec.names.{field}")
    yield from names_faults(kind_names, "spec.names")


def _conversion_faults(spec: RawObject) -> Iterator[Cause]:
    conversion = spec.get("conversion")
    if conversion is None:
        return
    strategy, path = conversion.get("strategy", ""), "spec.conversion"
    yield from _one_of(strategy, ("None", "Webhook"), f"{path}.strategy")
    if strategy == "Webhook":
        why = "webhooks are not called by this API server: use None, or a Kubernetes cluster"
        yield field_errors.invalid(f"{path}.strategy", strategy, why)
    elif webhook := conversion.get("webhook"):
        why = "should not be set when strategy is not set to Webhook"
        if webhook.get("clientConfig") is not None:
            yield field_errors.forbidden(f"{path}.webhookClientConfig", why)
        if webhook.get("conversionReviewVersions"):
            yield field_errors.forbidden(f"{path}.conversionReviewVersions", why)
