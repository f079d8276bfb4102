"""The configuration of brokers: what is the operator's, what is kept, and that it is TOML in any case."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.controllers.minicluster.broker import broker_config, to_toml
from edgewright.controllers.minicluster.config_texts import BadText

PLACE: dict[str, Any] = {"hosts": ("w-launcher", "w-[0-1]"), "service": "w-workers", "namespace": "n"}
OURS = {
    "curve_cert": "/mnt/flux/config/curve.cert",
    "default_port": 8050,
    "default_bind": "tcp://@POD_IP@:%p",
    "default_connect": "tcp://%h.w-workers.n.svc.cluster.local:%p",
    "hosts": [{"host": "w-launcher"}, {"host": "w-[0-1]"}],
}


def test_without_a_given_one_it_is_as_the_recorded_ones_were() -> None:
    assert broker_config("", **PLACE) == (
        "[bootstrap]\n"
        'curve_cert = "/mnt/flux/config/curve.cert"\n'
        "default_port = 8050\n"
        'default_bind = "tcp://@POD_IP@:%p"\n'
        'default_connect = "tcp://%h.w-workers.n.svc.cluster.local:%p"\n'
        'hosts = [{ host = "w-launcher" }, { host = "w-[0-1]" }]\n'
        "\n"
        "[resource]\n"
        'exclude = "0"\n'
    )


def test_names_addresses_and_certificate_are_ours_and_all_else_is_kept() -> None:
    published = """
      [bootstrap]
        curve_cert = "/mnt/curve/curve.cert"
        default_port = 8051
        default_bind = "tcp://eth0:%p"
        default_connect = "tcp://%h:%p"
        hosts = [ { host="flux-workers-0.flux-workers"}, ]
        enable_ipv6 = false
      [tbon]
        tcp_user_timeout = "2m"
      [resource]
        noverify = true
    """
    assert tomllib.loads(broker_config(published, **PLACE)) == {
        "bootstrap": {**OURS, "default_port": 8051, "enable_ipv6": False},
        "tbon": {"tcp_user_timeout": "2m"},
        "resource": {"noverify": True},
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = = b", "is no TOML: "),
        ("bootstrap = 3", "bootstrap that is no table"),
        ("[bootstrap]\ndefault_port = 'x'", "default_port that is no port: x"),
        ("[bootstrap]\ndefault_port = 70000", "default_port that is no port: 70000"),
    ],
)
def test_a_configuration_that_cannot_be_used_says_why(text: str, problem: str) -> None:
    with pytest.raises(BadText, match=problem):
        broker_config(text, **PLACE)


_TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
_VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | _TEXTS | st.floats().filter(lambda x: not math.isnan(x)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(_TEXTS, _VALUES, max_size=4))
def test_whatever_is_in_a_table_is_read_back_as_it_was(table: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(table)) == table
