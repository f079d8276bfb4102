"""YAML as Kubernetes reads it, the other way: what is a text stays one for every reader, ours, Go's and PyYAML's.

Whatever of ours writes YAML for others dumps it with `Dumper`. PyYAML alone leaves `n`, `1e3` and `08` without quotes,
which podman, kubectl and Helm take for a boolean and for numbers: an environment variable with such a value is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from edgewright.runtime.yaml_loader import Loader

_BASE: type[yaml.SafeDumper | yaml.CSafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class QuotesForKubernetes:
    """Part of a dumper: knows the scalars of PyYAML and those of Kubernetes, and so quotes texts that look like any."""

    yaml_implicit_resolvers = {
        first: [*yaml.SafeDumper.yaml_implicit_resolvers.get(first, ()), *Loader.yaml_implicit_resolvers.get(first, ())]
        for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *Loader.yaml_implicit_resolvers}
    }


class Dumper(QuotesForKubernetes, _BASE):  # type: ignore[misc, valid-type]  # the C dumper, where PyYAML has it
    """A safe dumper; hand it to `yaml.dump` where `dump` does not do."""


def dump(value: Any, *, sort_keys: bool = False) -> str:
    """One document."""
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=sort_keys)
    return text


def dump_all(values: Iterable[Any], *, sort_keys: bool = False) -> str:
    """One document after the other."""
    text: str = yaml.dump_all(values, Dumper=Dumper, sort_keys=sort_keys)
    return text
