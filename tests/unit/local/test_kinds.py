"""Which kinds are served: by path, by the name in the store, and what changes with custom kinds."""

from __future__ import annotations

import asyncio

from edgewright.local import builtin, custom
from edgewright.local.kinds import Kinds
from tests.unit.local.custom.samples import GROUP, widgets


def kinds() -> Kinds:
    return Kinds(builtin.served(), builtin.definitions())


def test_a_kind_is_found_by_group_version_and_plural() -> None:
    known = kinds()
    found = known.find("discovery.k8s.io", "v1", "endpointslices")
    assert found is not None
    assert found.kind.kind == "EndpointSlice"
    assert known.find("discovery.k8s.io", "v2", "endpointslices") is None
    assert known.find("", "v1", "endpointslices") is None


def test_custom_kinds_come_and_go_and_the_built_in_ones_stay() -> None:
    known = kinds()
    before = known.revision
    known.set_custom(custom.served(widgets()))
    assert known.revision == before + 1
    assert known.find(GROUP, "v1beta1", "widgets") is not None
    assert known.find(GROUP, "v1", "widgets") is not None
    assert {each.kind.kind for each in known.all()} - {each.kind.kind for each in known.builtin()} == {"Widget"}
    known.set_custom([])
    assert known.find(GROUP, "v1", "widgets") is None
    assert not any(each.kind.group == GROUP for each in known.all())
    assert known.all() == known.builtin()


def test_of_several_versions_the_stored_one_is_found_by_the_name_in_the_store() -> None:
    known = kinds()
    known.set_custom(reversed(custom.served(widgets())))
    found = known.stored_as(f"widgets.{GROUP}")
    assert found is not None
    assert found.kind.version == "v1"
    assert known.stored_as("nothing") is None


def test_the_types_of_fields_are_made_once_until_the_kinds_change() -> None:
    known = kinds()
    pods = known.find("", "v1", "pods")
    assert pods is not None
    first = known.fields(pods)
    assert known.fields(pods) is first
    known.set_custom([])
    assert known.fields(pods) is not first


async def test_who_waits_for_a_change_is_told_of_the_next_one() -> None:
    known = kinds()
    waiting = [asyncio.create_task(known.changed()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    known.set_custom([])
    await asyncio.gather(*waiting)
    later = asyncio.create_task(known.changed())
    await asyncio.sleep(0)
    assert not later.done()
    later.cancel()


def test_objects_of_built_in_kinds_and_options_of_deletions_may_come_as_protobuf() -> None:
    known = kinds().protobuf
    assert known["v1", "Pod"] == "io.k8s.api.core.v1.Pod"
    assert known["v1", "DeleteOptions"] == known["meta.k8s.io/v1", "DeleteOptions"]
    assert ("v1", "Nothing") not in known
