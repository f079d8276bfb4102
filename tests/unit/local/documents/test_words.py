"""What the documents say of metadata."""

from __future__ import annotations

from edgewright.local import builtin
from edgewright.local.documents import words

META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def test_every_field_of_metadata_is_described_and_nothing_else_is_changed() -> None:
    plain = builtin.definitions()
    described = words.described(plain)
    fields = described[META]["properties"]
    assert set(fields) == set(plain[META]["properties"])
    for name, field in fields.items():
        assert field["description"].endswith("."), name
        assert {key: value for key, value in field.items() if key != "description"} == plain[META]["properties"][name]
    assert {name: each for name, each in described.items() if name != META} == {
        name: each for name, each in plain.items() if name != META
    }


def test_a_field_without_words_and_definitions_without_metadata_stay_as_they_are() -> None:
    assert words.described({"a": {}}) == {"a": {}}
    newer = {META: {"properties": {"name": {"type": "string"}, "newer": {"type": "string"}}}}
    fields = words.described(newer)[META]["properties"]
    assert ("description" in fields["name"], fields["newer"]) == (True, {"type": "string"})
