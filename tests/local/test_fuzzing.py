"""Random requests to `edgewright up` by its own OpenAPI document: none is a server error, and its memory stays bounded.

`make soak SUITE=local MINUTES=10 ARGS="-k fuzzing"` asks one server for ten minutes. schemathesis makes the requests;
what it makes is mostly nonsense, so most of them are steered to objects that may exist.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from tests.harness import LocalPlane

if TYPE_CHECKING:
    import requests

EXAMPLES = 12
"""Requests for each operation of the document, of which there are some 120."""
MAX_GROWTH = 200.0
"""How many MB the server may grow by: what the requests create is small, and none may leave anything else behind."""
SEED = os.environ.get("EDGEWRIGHT_SEED", "1")
NAMES = ("fuzz-a", "fuzz-b", "default", "fuzz.example.com")
SANE = {"pretty", "limit", "continue", "timeoutSeconds", "watch", "allowWatchBookmarks", "gracePeriodSeconds", "follow"}
"""The query parameters that a steered request keeps: of the others nearly all values are refused at once."""


def memory_mb(plane: LocalPlane) -> float:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{plane.api.pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


@contextmanager
def administrator(plane: LocalPlane) -> Iterator[requests.Session]:
    """The client of schemathesis, with the administrator's certificate."""
    import requests

    made = plane.client_certificate("admin", ["system:masters"])
    file = plane.directory / "fuzzing.pem"
    file.write_bytes(made.certificate + made.key)
    with requests.Session() as session:
        session.trust_env = False  # neither proxies nor authorities of the environment
        session.cert, session.verify = str(file), str(plane.ca_file)
        yield session


def steered(case: Any, name: str, kind: dict[str, str]) -> Any:
    """The request about an object that may exist, with a body that says what it is."""
    if case.path_parameters:
        case.path_parameters = dict.fromkeys(case.path_parameters, name) | (
            {"namespace": "default"} if "namespace" in case.path_parameters else {}
        )
    case.query = {each: value for each, value in (case.query or {}).items() if each in SANE}
    if isinstance(case.body, dict):
        version = "/".join(filter(None, (kind.get("group"), kind.get("version"))))
        kept = {each: value for each, value in case.body.items() if each in {"spec", "data", "status", "subsets"}}
        case.body = {"apiVersion": version, "kind": kind.get("kind", ""), "metadata": {"name": name}, **kept}
    return case


def fuzz(plane: LocalPlane, session: requests.Session, operation: Any, answers: Counter[int], seed: str) -> list[str]:
    """Asks for one operation a few times; what got a server error, as a command for a shell."""
    wrong: list[str] = []
    kind = operation.definition.raw.get("x-kubernetes-group-version-kind") or {}

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
        database=None,
    )
    @hypothesis.given(case=operation.as_strategy(), name=st.none() | st.sampled_from(NAMES))
    def ask(case: Any, name: str | None) -> None:
        asked = case if name is None else steered(case, name, kind)
        wanted = asked.as_transport_kwargs(base_url=plane.server)
        # Only the head is read: a watch does not end. ValueError: of requests, where something cannot be sent at all.
        with suppress(ValueError), session.request(**wanted, stream=True, timeout=60) as answer:
            answers[answer.status_code] += 1
            if answer.status_code >= 500:
                wrong.append(f"{answer.status_code} {answer.text[:300]}: {asked.as_curl_command()}")

    ask()
    return wrong


@pytest.mark.soak
def test_fuzzing_by_its_own_openapi_document_finds_no_server_error(own_plane: LocalPlane) -> None:
    import schemathesis

    document = schemathesis.openapi.from_dict(own_plane.request("GET", "/openapi/v2"))
    before, answers = memory_mb(own_plane), Counter[int]()
    until = time.monotonic() + 60 * float(os.environ.get("EDGEWRIGHT_MINUTES", "0"))
    with administrator(own_plane) as session:
        for number in itertools.takewhile(lambda each: each == 0 or time.monotonic() < until, itertools.count()):
            wrong: list[str] = []
            for found in document.get_all_operations():
                wrong += fuzz(own_plane, session, found.ok(), answers, f"{SEED} {number}")
            grown = memory_mb(own_plane) - before
            print(f"{answers.total()} requests: {dict(sorted(answers.items()))}; {before:.0f} MB and {grown:.0f} more")
            assert not wrong, "\n".join(wrong)
            assert grown < MAX_GROWTH
    assert answers[200] + answers[201] > answers.total() / 20, answers
    own_plane.request("GET", "/api/v1/namespaces/default")
