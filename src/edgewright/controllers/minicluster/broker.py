"""The configuration of the brokers of a mini-cluster: what people give, with what only the operator can know put in.

`conversion` builds it. Hosts, addresses and the certificate's place follow from the names of the Pods, so they replace
what a given configuration says; all else in it is kept. Pure.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from edgewright.controllers.minicluster.config_texts import BadText

CONFIG_PATH: Final = "/mnt/flux/config"
"""Where a broker finds its configuration and its certificate."""
FILE_NAME: Final = "broker.toml"
POD_IP: Final = "@POD_IP@"
"""Stands in the configuration where each Pod puts its own address: a broker binds to no name."""
PORT: Final = 8050
CLUSTER_DOMAIN: Final = "cluster.local"

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def broker_config(given: str, *, hosts: tuple[str, ...], service: str, namespace: str) -> str:
    """The configuration as TOML; rank 0 is the first host. BadText where the given one is no TOML."""
    config = _loaded(given)
    bootstrap = config.get("bootstrap", {})
    if not isinstance(bootstrap, dict):
        raise BadText("has a bootstrap that is no table: write it as [bootstrap]")
    port = bootstrap.get("default_port", PORT)
    if not isinstance(port, int) or not 0 < port < 65_536:
        raise BadText(f"has a bootstrap.default_port that is no port: {port}")
    config["bootstrap"] = bootstrap | {
        "curve_cert": f"{CONFIG_PATH}/curve.cert",
        "default_port": port,
        "default_bind": f"tcp://{POD_IP}:%p",
        "default_connect": f"tcp://%h.{service}.{namespace}.svc.{CLUSTER_DOMAIN}:%p",
        "hosts": [{"host": host} for host in hosts],
    }
    # The launcher is there for the command; jobs run on the workers.
    config.setdefault("resource", {"exclude": "0"})
    return to_toml(config)


def indexed_config(*, mount: str, host: str, service: str, namespace: str, queue_policy: str) -> str:
    """The configuration of the brokers of an indexed Job as TOML; an empty policy leaves the scheduler its own."""
    config: dict[str, Any] = {
        "access": {"allow-guest-user": True, "allow-root-owner": True},
        "bootstrap": {
            "curve_cert": f"{mount}/config/curve.cert",
            "default_port": PORT,
            "default_bind": f"tcp://{POD_IP}:%p",
            "default_connect": f"tcp://%h.{service}.{namespace}.svc.{CLUSTER_DOMAIN}:%p",
            "hosts": [{"host": host}],
        },
        # A Pod may see more cores than it is given; and hosts that are not there yet count as down, not as missing.
        "resource": {"noverify": True, "path": f"{mount}/config/R"},
    }
    if queue_policy:
        config["sched-fluxion-qmanager"] = {"queue-policy": queue_policy}
    return to_toml(config)


def checked_config(given: str) -> str:
    """A whole configuration that somebody gave, as it is; BadText where it is no TOML or has no bootstrap."""
    if not isinstance(_loaded(given).get("bootstrap"), dict):
        raise BadText("has no table [bootstrap]: brokers would not find each other")
    return given


def _loaded(given: str) -> dict[str, Any]:
    try:
        return tomllib.loads(given)
    except tomllib.TOMLDecodeError as error:
        raise BadText(f"is no TOML: {error}") from None


def to_toml(config: Mapping[str, Any]) -> str:
    """A table of texts, numbers, lists and tables as TOML."""
    return "\n".join(_table(config, ())).lstrip("\n") + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    lines = ["", f"[{'.'.join(map(_key, path))}]"] if path and (plain or not inner) else []
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in inner.items():
        lines += _table(value, (*path, key))
    return lines


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    return str(value)


def _text(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
