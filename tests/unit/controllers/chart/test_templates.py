"""Templates in overrides: what is one, and what of the environment goes into it. Helm expands them in tests/cluster."""

from __future__ import annotations

from edgewright.controllers.chart.templates import has_template, with_environment


def test_only_actions_ask_the_environment() -> None:
    assert with_environment('env "A" {{ env "A" }}', {"A": 'x"y'}) == 'env "A" {{ "x\\"y" }}'
    assert has_template({"a": "{{ 1 }}"})
    assert not has_template({"a": "1"})
