"""How a release is looked after: the watches file, and the annotations of its object over it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgewright.controllers.chart.policy import Ignored, Policy, PolicyError, Source, from_entry, of_object

SDK = "helm.sdk.operatorframework.io/"


def test_an_entry_without_any_of_it_is_looked_after_as_operator_sdk_does() -> None:
    assert from_entry({}, period=None) == Policy()
    policy = Policy()
    assert (policy.drift, policy.on_failed_install, policy.on_failed_upgrade) == ("correct", "uninstall", "rollback")


def test_an_entry_says_all_of_it() -> None:
    entry = {
        "drift": {"mode": "warn", "ignore": [{"kind": "Deployment", "name": "shop-.*", "paths": ["/spec/replicas"]}]},
        "remediation": {"install": "retry", "upgrade": "retry", "retries": 3},
        "maxHistory": 5,
        "test": True,
        "crds": "replace",
        "valuesFrom": [{"kind": "Secret", "name": "site", "valuesKey": "token", "targetPath": "a.token"}],
    }
    assert from_entry(entry, period=60.0) == Policy(
        drift="warn",
        ignored=(Ignored(kind="Deployment", name="shop-.*", paths=("/spec/replicas",)),),
        on_failed_install="retry",
        on_failed_upgrade="retry",
        retries=3,
        max_history=5,
        test=True,
        crds="replace",
        values_from=(Source(kind="Secret", name="site", key="token", path="a.token"),),
        period=60.0,
    )


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"drift": "warn"}, "drift: must be a mapping"),
        ({"drift": {"mode": "fix"}}, "drift: mode: 'fix' is not one of correct, warn, off"),
        ({"drift": {"modes": "off"}}, "drift: unknown key 'modes'"),
        ({"drift": {"ignore": "x"}}, "drift: ignore: must be a list"),
        ({"drift": {"ignore": [{"paths": ["spec"]}]}}, "JSON pointers such as /spec/replicas"),
        ({"drift": {"ignore": [{"paths": ["/a"], "name": "("}]}}, "is not a regular expression"),
        ({"drift": {"ignore": [{"paths": ["/a"], "kind": 1}]}}, "kind and name must be texts"),
        ({"remediation": {"retries": -1}}, "retries: must be a number from 0 to 1000"),
        ({"remediation": {"install": "rollback"}}, "is not one of uninstall, retry"),
        ({"maxHistory": 1}, "maxHistory: must be a number from 2 to 100"),
        ({"maxHistory": True}, "maxHistory: must be a number"),
        ({"test": "yes"}, "test: must be true or false"),
        ({"crds": "delete"}, "crds: 'delete' is not one of create, replace, skip"),
        ({"valuesFrom": [{"kind": "Pod", "name": "a"}]}, "valuesFrom: kind: 'Pod' is not one of ConfigMap, Secret"),
        ({"valuesFrom": [{"kind": "Secret"}]}, "each needs the name of a ConfigMap or Secret"),
        ({"valuesFrom": [{"kind": "Secret", "name": "a", "optional": 1}]}, "optional true or false"),
        ({"valuesFrom": [{"kind": "Secret", "name": "a"}] * 17}, "more than 16"),
    ],
)
def test_what_cannot_be_is_named(entry: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PolicyError) as refused:
        from_entry(entry, period=None)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("text", "truth"), [("1", True), ("t", True), ("TRUE", True), ("true", True), ("0", False), ("F", False)]
)
def test_annotations_take_the_truth_values_of_go(text: str, truth: bool) -> None:
    assert of_object(Policy(), {f"{SDK}uninstall-wait": text}).wait_uninstalled is truth


def test_the_annotations_of_operator_sdk_keep_their_meaning() -> None:
    policy = of_object(
        Policy(period=60.0),
        {
            f"{SDK}upgrade-force": "true",
            f"{SDK}rollback-force": "true",
            f"{SDK}reconcile-period": "1m30s",
            f"{SDK}install-disable-hooks": "true",
            f"{SDK}upgrade-description": "because",
        },
    )
    assert (policy.force_upgrade, policy.force_rollback, policy.period) == (True, True, 90.0)
    assert policy.disabled_hooks == {"install"}
    assert policy.descriptions == {"upgrade": "because"}


def test_our_annotations_go_over_the_entry() -> None:
    base = Policy(test=True, values_from=(Source(kind="ConfigMap", name="site"),))
    more = json.dumps([{"kind": "Secret", "name": "own", "optional": True}])
    policy = of_object(
        base,
        {
            "edgewright.dev/suspend": "true",
            "edgewright.dev/drift": "off",
            "edgewright.dev/test": "false",
            "edgewright.dev/values-from": more,
            "edgewright.dev/retry": "now",
        },
    )
    assert (policy.suspended, policy.drift, policy.test, policy.retry) == (True, "off", False, "now")
    assert [(each.name, each.optional) for each in policy.values_from] == [("site", False), ("own", True)]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (f"{SDK}uninstall-wait", "maybe", "is neither true nor false"),
        (f"{SDK}reconcile-period", "soon", "'soon' is not a duration such as 30s"),
        ("edgewright.dev/drift", "fix", "is not one of correct, warn, off"),
        ("edgewright.dev/values-from", "{", "is not JSON"),
        ("edgewright.dev/values-from", "{}", "must be a list"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_named(name: str, text: str, sentence: str) -> None:
    with pytest.raises(PolicyError) as refused:
        of_object(Policy(), {name: text})
    assert name in str(refused.value)
    assert sentence in str(refused.value)


def test_a_rule_fits_by_kind_and_whole_name() -> None:
    rule = Ignored(paths=("/a",), kind="Deployment", name="shop-.*")
    assert rule.fits("Deployment", "shop-a")
    assert not rule.fits("Deployment", "a-shop-a")
    assert not rule.fits("StatefulSet", "shop-a")
    assert Ignored(paths=("/a",)).fits("Any", "thing")
