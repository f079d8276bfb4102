"""The commands about objects that charts serve, against a control plane; what the operator would write is put there."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from edgewright.cli import chart_text
from edgewright.runtime.client import Client
from edgewright.runtime.definitions import install
from edgewright.runtime.errors import AlreadyExists
from edgewright.runtime.objects import Key, RawObject
from tests.unit.cli.typed import Plane, typed
from tests.unit.controllers.chart.charts import CONFIG_MAP, SECRET, release_secret
from tests.unit.controllers.chart.stage import DEFINITION, SHOP

MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {greeting: hello}\n"


def condition(type_: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": 1}


READY = condition("Ready", "True", "ReleaseReady", "all is well")


async def put(client: Client, name: str = "a", *conditions: dict[str, Any], **values: Any) -> None:
    """A Shop as the operator leaves it."""
    await install(client, DEFINITION)
    metadata = {"name": name, "namespace": "default"}
    body = {"apiVersion": SHOP.api_version, "kind": "Shop", "metadata": metadata, "spec": values}
    with suppress(AlreadyExists):
        await client.raw(SHOP).create(body)
    shown = {"conditions": list(conditions), "state": "InSync", "revision": 2, "deployedRelease": {"name": name}}
    await client.raw(SHOP).patch(Key("default", name), {"status": shown}, subresource="status")


async def store(client: Client, name: str, version: int, status: str, **more: Any) -> None:
    secret = release_secret(name, version, status, manifest=MANIFEST, description=f"made {version}", **more)
    secret["metadata"]["namespace"] = "default"
    await client.raw(SECRET).create(secret)


def shop(plane: Plane, name: str = "a") -> RawObject:
    return plane.do(lambda client: client.raw(SHOP).get(Key("default", name)))


@pytest.fixture(scope="module")
def shops(plane: Plane) -> Plane:
    """One Shop with two revisions, whose ConfigMap somebody has changed."""

    async def work(client: Client) -> None:
        await put(client, "a", READY, greeting="two", more={"x": 1})
        await store(client, "a", 1, "superseded", labels={})
        await store(client, "a", 2, "deployed")
        marks = {"meta.helm.sh/release-name": "a", "meta.helm.sh/release-namespace": "default"}
        names = {"name": "a", "namespace": "default", "annotations": marks}
        names["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": names, "data": {"greeting": "foreign"}}
        await client.raw(CONFIG_MAP).create(body)

    plane.do(work)
    return plane


def test_objects_are_listed_with_the_state_of_their_release(
    shops: Plane, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    done = typed(capsys, "chart", "list", "shops", plane=shops)
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].split() == list(chart_text.HEAD)
    assert done.out.splitlines()[1].split()[:5] == ["a", "Shop", "InSync", "True", "2"]
    file = tmp_path / "watches.yaml"
    file.write_text("- {group: charts.example.com, version: v1alpha1, kind: Shop, chart: c}\n")
    listed = typed(capsys, "chart", "list", "--watches", file, "-o", "json", "-A", plane=shops)
    assert [each["metadata"]["name"] for each in json.loads(listed.out)] == ["a"]


def test_what_cannot_be_found_is_one_sentence(shops: Plane, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words, sentence in (
        (("list", "boats"), "does not serve a kind boats"),
        (("list", "--watches", str(tmp_path / "none.yaml")), "name the kinds, or the file with --watches"),
        (("status", "a"), "'a' is not KIND/NAME"),
        (("status", "shop/none"), "there is no Shop none in namespace default"),
        (("rollback", "shop/a", "9"), "has no revision 9: there are 1, 2"),
    ):
        done = typed(capsys, "chart", *words, plane=shops)
        assert done.code != 0
        assert sentence in done.err
        assert "Traceback" not in done.err


def test_a_status_has_the_state_and_the_conditions(shops: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    done = typed(capsys, "chart", "status", "shop/a", plane=shops)
    assert done.out.splitlines()[0] == "Shop a: it is ready."
    assert "  Ready=True ReleaseReady: all is well" in done.out.splitlines()
    assert json.loads(typed(capsys, "chart", "status", "shop/a", "-o", "json", plane=shops).out)["state"] == "InSync"


def test_the_history_is_that_of_helm(shops: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    done = typed(capsys, "chart", "history", "shops.charts.example.com/a", plane=shops)
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[0] == list(chart_text.HISTORY_HEAD)
    assert rows[1] == ["1", "superseded", "shop-0.1.0", "made", "1"]
    assert rows[2][1:3] == ["deployed", "shop-0.1.0"]


def test_a_diff_names_what_others_changed_and_what_is_not_released(
    shops: Plane, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = typed(capsys, "chart", "diff", "shop/a", plane=shops).out.splitlines()
    assert "ConfigMap a: /data/greeting" in lines
    assert "values: /greeting" in lines
    found = shops.do(lambda client: client.raw(CONFIG_MAP).get(Key("default", "a")))
    assert found["data"] == {"greeting": "foreign"}, "a diff changes nothing"


def test_suspend_resume_and_retry_are_annotations(shops: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    assert "resume shop/a" in typed(capsys, "chart", "suspend", "shop/a", plane=shops).err
    assert shop(shops)["metadata"]["annotations"]["edgewright.dev/suspend"] == "true"
    typed(capsys, "chart", "resume", "shop/a", plane=shops)
    assert "edgewright.dev/suspend" not in shop(shops)["metadata"].get("annotations", {})
    typed(capsys, "chart", "retry", "shop/a", plane=shops)
    assert shop(shops)["metadata"]["annotations"]["edgewright.dev/retry"]


def test_a_rollback_gives_the_object_the_values_of_the_revision(
    plane: Plane, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work(client: Client) -> None:
        await put(client, "back", READY, greeting="two", more={"x": 1, "y": 2})
        await store(client, "back", 1, "superseded", config={"greeting": "one", "more": {"x": 3}})
        await store(client, "back", 2, "deployed", config={"greeting": "two"})
        await put(client, "secret", READY)
        hidden = {"edgewright.dev/values-from": "true"}
        await store(client, "secret", 1, "superseded", labels=hidden, config={"token": "s3cret"})
        await store(client, "secret", 2, "deployed")

    plane.do(work)
    done = typed(capsys, "chart", "rollback", "shop/back", plane=plane)
    assert "has the values of revision 1" in done.err + done.out
    assert shop(plane, "back")["spec"] == {"greeting": "one", "more": {"x": 3}}
    done = typed(capsys, "chart", "rollback", "shop/secret", plane=plane)
    assert "takes values from ConfigMaps or Secrets" in done.err
    assert "s3cret" not in json.dumps(shop(plane, "secret"))


def described(*conditions: dict[str, Any], **metadata: Any) -> str:
    body = {"metadata": {"name": "a", "generation": 1, **metadata}, "status": {"conditions": list(conditions)}}
    return chart_text.why(body, "Shop")


@pytest.mark.parametrize(
    ("conditions", "metadata", "sentence"),
    [
        ([READY], {}, "it is ready."),
        ([], {}, "no operator has seen it yet"),
        ([READY], {"generation": 2}, "its last change has not been looked at yet"),
        ([READY], {"deletionTimestamp": "x"}, "it is being deleted"),
        ([READY, condition("Suspended", "True", "Suspended")], {}, "`edgewright chart resume shop/a`"),
        ([READY, condition("Drifted", "True", "D", "ConfigMap a: /data")], {}, "others changed objects of it"),
        ([condition("Ready", "False", "RetriesExhausted", "it failed once")], {}, "it failed once."),
        (
            [
                condition("Ready", "False", "UpgradeError"),
                condition("ReleaseFailed", "True", "UpgradeError", "no room"),
                condition("Remediated", "True", "R", "rolled back to revision 1"),
            ],
            {},
            "failed (rolled back to revision 1): no room. It is tried again; `edgewright chart retry shop/a`",
        ),
        (
            [condition("Irreconcilable", "True", "R", "does not render")],
            {"generation": 0},
            "nothing was done: does not",
        ),
        ([condition("Ready", "Unknown", "DependentsNotReady", "Pod a")], {}, "DependentsNotReady: Pod a."),
    ],
)
def test_why_is_a_sentence_with_what_to_do(
    conditions: list[dict[str, Any]], metadata: dict[str, Any], sentence: str
) -> None:
    assert sentence in described(*conditions, **metadata)


def test_why_is_a_command(shops: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(capsys, "chart", "why", "shop/a", plane=shops).out == "Shop a: it is ready.\n"
