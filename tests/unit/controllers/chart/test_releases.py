"""Stored releases: what labels and contents tell, and how one that was cut short is marked failed."""

from __future__ import annotations

import msgspec
import pytest

from edgewright.controllers.chart.releases import (
    REVISION_LABEL,
    NotARelease,
    ReleaseSecret,
    history,
    labels_of,
    marked_failed,
    read_content,
    release_name,
)
from edgewright.runtime.objects import RawObject
from tests.unit.controllers.chart.charts import release_secret


def decoded(raw: RawObject) -> ReleaseSecret:
    return msgspec.json.decode(msgspec.json.encode(raw), type=ReleaseSecret)  # as it comes from a server


def test_the_history_is_oldest_first_and_leaves_out_what_is_no_revision() -> None:
    raws = [release_secret("a", 10, "deployed", modified=7), release_secret("a", 9, "superseded")]
    raws.append({"metadata": {"name": "x", "labels": {"version": "x"}}})
    found = history(decoded(each) for each in raws)
    assert [(each.version, each.status) for each in found] == [(9, "superseded"), (10, "deployed")]
    assert (found[1].modified, found[1].key.name) == (7.0, "sh.helm.release.v1.a.v10")


def test_a_revision_is_ours_only_where_its_labels_are_about_itself() -> None:
    ours = release_secret("a", 2, "deployed", labels=labels_of(2, chart="c", values="v"))
    copied = release_secret("a", 3, "deployed", labels=labels_of(2, chart="c", values="v"))
    found = history([decoded(ours), decoded(copied)])
    assert [each.ours for each in found] == [True, False]
    assert (found[0].chart, found[0].values) == ("c", "v")


def test_the_content_is_read() -> None:
    stored = read_content(release_secret("a", 1, "deployed", manifest="m", notes="n", description="d"))
    assert (stored.chart_name, stored.manifest, stored.notes, stored.description) == ("shop", "m", "n", "d")


def test_a_revision_that_was_cut_short_is_marked_failed_and_keeps_the_rest() -> None:
    before = release_secret("a", 2, "pending-upgrade", labels=labels_of(2, chart="c", values="v"), manifest="m")
    after = marked_failed(before)
    assert read_content(after).manifest == "m"
    assert "interrupted" in read_content(after).description
    (revision,) = history([decoded(after)])
    assert (revision.status, revision.ours, revision.pending) == ("failed", False, False)
    assert after["metadata"]["labels"][REVISION_LABEL] == "interrupted"
    assert before["metadata"]["labels"]["status"] == "pending-upgrade"


@pytest.mark.parametrize("data", [None, {}, {"release": "!"}, {"release": "YWJj"}, {"release": "WVdKag=="}])
@pytest.mark.parametrize("read", [read_content, marked_failed])
def test_what_is_no_release_is_told(data: object, read: object) -> None:
    with pytest.raises(NotARelease, match="odd"):
        read({"metadata": {"name": "odd"}, "data": data})  # type: ignore[operator]


def test_a_long_name_is_shortened_with_a_hash() -> None:
    assert release_name("a" * 53) == "a" * 53
    long, other = release_name("a" * 54), release_name("a" * 55)
    assert len(long) == len(other) == 53
    assert long != other
    assert long.startswith("a" * 40 + "-")
