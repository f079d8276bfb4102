"""Random requests to the console by its own OpenAPI document, in front of both API servers.

No answer is a server error, and each is one that the document tells of: its status, its media type, its headers, its
body. `make soak SUITE=cluster MINUTES=10 ARGS="-k console_fuzzing"` asks for every operation on every kind at length,
kind by kind; here it is a few times for the kinds that differ most. schemathesis makes the requests; what it makes is
mostly nonsense, so most of them are steered to objects that may exist.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import yaml
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from edgewright.api.fleet import FLEET
from edgewright.console import Settings
from edgewright.console.kinds import OURS
from edgewright.runtime import config
from tests.acceptance import console_stage as stage
from tests.cluster.rights_stage import SPECS as SPECS_OF_ALL
from tests.documents import ROOT
from tests.harness import ApiServer, wait_until_async
from tests.unit.cli.command import edgewright
from tests.unit.console.consoles import HERE, PLENTY, Application, calling, in_front_of

if TYPE_CHECKING:
    import requests

SEED = os.environ.get("EDGEWRIGHT_SEED", "1")
ONE_NAME = {"fleets": FLEET}
"""Kinds of which there is one object, and its name."""


def sampled() -> dict[str, Any]:
    """The specs of the samples that come with our kinds."""
    names = {(kind.api_version, kind.kind): name for name, kind in OURS.items()}
    samples = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in (ROOT / "config/samples").rglob("*.yaml")]
    found = {names.get((each.get("apiVersion"), each["kind"]), ""): each.get("spec", {}) for each in samples}
    return {name: spec for name, spec in found.items() if name}


NAMES = ("fuzz-a", "fuzz-b", "fuzz-c")
ABOUT = "about"
"""The tag of operations that are on no kind."""
GROUPS = (ABOUT, *OURS, stage.MINIMARTS)
"""The tags of all operations."""
AT_LENGTH = 50
"""So often each operation is asked for at length, at least."""
FEW = ("devices", "flashjobs", stage.MINIMARTS)
"""The kinds of the short run: in no namespace, of ours, and foreign."""
ACCESS = {"device": "fuzz", "workload": "fuzz"}
UNSAMPLED = {
    "edgeheartbeatshards": {"replica": "fuzz"},
    "edgeworkloadrevisions": {"kind": "EdgeWorkload", "workload": "fuzz", "number": 1, "hash": "fuzz", "content": {}},
    "edgelogrequests": ACCESS,
    "edgeexecrequests": {**ACCESS, "command": ["true"]},
}
"""What objects may be of the kinds that nobody writes by hand."""
SPECS = sampled() | UNSAMPLED | {kind: SPECS_OF_ALL[kind] for kind in (*FEW, "rollouts")}
"""What objects may be, of each kind."""
LABELS = {"fuzz": "made"}
STREAM = "/api/v1/stream"
SANE = {"dryRun", "fieldManager", "force", "limit", "of", "namespace", "groupBy", "propagationPolicy", "q", "sort"}
"""The query parameters that a steered request keeps: of selectors and places in lists nearly all are refused."""


@dataclass
class Run:
    """What was asked and answered."""

    url: str
    token: str
    namespace: str
    examples: int
    answers: Counter[int] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    """How often each operation was asked for."""
    wrong: list[str] = field(default_factory=list)

    @property
    def good(self) -> float:
        """The share of answers that are 2xx."""
        fine = sum(count for status, count in self.answers.items() if 200 <= status < 300)
        return fine / max(1, self.answers.total())


def steered(case: Any, name: str, namespace: str) -> Any:
    """The request about an object that may exist, with metadata that can be."""
    kind = case.operation.definition.raw["tags"][0]
    name = ONE_NAME.get(kind, name)
    parts = case.path_parameters or {}
    wanted = {"name": name, "namespace": namespace, "problem": "forbidden", "kind": stage.MINIMARTS}
    case.path_parameters = {each: wanted.get(each, value) for each, value in parts.items()}
    case.query = {each: value for each, value in (case.query or {}).items() if each in SANE}
    for each, value in (("of", stage.MINIMARTS), ("namespace", namespace)):
        if each in case.query:
            case.query[each] = value
    case.headers = {each: value for each, value in (case.headers or {}).items() if each == "Idempotency-Key"}
    if case.method == "DELETE" and name != NAMES[0]:
        case.query["dryRun"] = "All"  # or soon there is nothing left to ask about
    if kind in SPECS and case.method in {"PUT", "POST"}:
        named = {"name": name} if case.method == "PUT" or kind in ONE_NAME else {"generateName": f"{name}-"}
        case.body = {"metadata": {**named, "labels": LABELS}, "spec": SPECS[kind]}
    elif case.method == "PATCH" and isinstance(case.body, dict):
        case.body = {"metadata": {"labels": {"fuzz": name}}}
    elif case.path.endswith("/rollouts/plan"):
        case.body = {"spec": SPECS["rollouts"]}
    return case


def made(run: Run, session: requests.Session, kind: str) -> None:
    """Makes the objects that steered requests on a kind (or on none) are about, where they are missing."""
    for each in (kind,) if kind in SPECS else () if kind in OURS else (*FEW, "rollouts"):
        namespaced = OURS[each].namespaced if each in OURS else True
        place = f"/api/v1/namespaces/{run.namespace}" if namespaced else "/api/v1"
        for name in (ONE_NAME[each],) if each in ONE_NAME else NAMES:
            headers = {"Authorization": f"Bearer {run.token}"}
            url = f"{run.url}{place}/{each}/{name}?force=true"
            body = {"metadata": {"labels": LABELS}, "spec": SPECS[each]}
            session.put(url, json=body, headers=headers, timeout=120).raise_for_status()


def ask(run: Run, session: requests.Session, operation: Any, seed: str) -> None:
    """Asks for one operation a few times; what is not as the document has it is noted as a command for a shell."""
    from schemathesis import checks

    whole = [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]

    label = operation.label

    @hypothesis.settings(
        max_examples=run.examples,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
        database=None,
    )
    @hypothesis.given(case=operation.as_strategy(), name=st.sampled_from((*NAMES * 3, None)))
    def once(case: Any, name: str | None) -> None:
        asked = case if name is None else steered(case, name, run.namespace)
        wanted = asked.as_transport_kwargs(base_url=run.url)
        wanted["headers"]["Authorization"] = f"Bearer {run.token}"  # and not one that is made up
        # ValueError: of requests, where something cannot be sent at all.
        with suppress(ValueError), session.request(**wanted, stream=True, timeout=120) as answer:
            run.answers[answer.status_code] += 1
            run.asked[label] += 1
            if operation.path == STREAM and answer.status_code == 200:
                return  # it does not end
            try:
                asked.validate_response(answer, checks=whole)
            except* Exception as failures:
                said = "; ".join(str(each) for each in failures.exceptions)
                run.wrong.append(f"{said}: {answer.status_code} {answer.text[:300]}: {asked.as_curl_command()}")

    # Where there is little to say, all of it is said soon: then it is said again.
    for turn in range(run.examples):
        if run.asked[label] < run.examples:
            hypothesis.seed(f"{seed} {turn}")(once)()


def fuzz(run: Run, document: dict[str, Any], *, tags: Collection[str], seed: str = SEED) -> None:
    """Asks for every operation of the document that has one of these tags."""
    import requests
    import schemathesis

    with requests.Session() as session:
        session.trust_env = False  # neither proxies nor credentials of the environment
        untouched = ""  # of what only was read since its objects were made
        for found in schemathesis.openapi.from_dict(document).get_all_operations():
            operation = found.ok()
            (tag, *_) = operation.definition.raw["tags"]
            if tag in tags:
                if tag != untouched:
                    made(run, session, tag)
                ask(run, session, operation, seed)
                untouched = tag if operation.method.upper() == "GET" else ""
    times = f"{len(run.asked)} operations, each asked for {min(run.asked.values())} times or more"
    print(f"{times}: {run.answers.total()} requests, {run.good:.0%} of them 2xx: {dict(sorted(run.answers.items()))}")
    assert not run.wrong, f"{len(run.wrong)} answers:\n" + "\n".join(run.wrong[:20])


@pytest.fixture
def token(api_server: ApiServer, namespace: str) -> Iterator[str]:
    """The token of an administrator: of what nobody may do, nothing can be learnt."""
    words = ("-n", namespace, "--kubeconfig", str(api_server.kubeconfig))
    done = edgewright("token", "fuzzer", "--role", "admin", "-A", *words, timeout=180)
    assert done.returncode == 0, done.stderr
    yield done.stdout.strip()
    edgewright("token", "fuzzer", "--revoke", *words, timeout=180)


@asynccontextmanager
async def console_of(server: ApiServer, *, cached: bool = False) -> AsyncIterator[str]:
    """A console without limits of requests, and where it is; with the shared cache where that is said."""
    stage.install(server)
    settings = Settings(gate=HERE, limits=PLENTY, shared_cache=cached, page=Path("not built"))
    async with in_front_of(config.load(kubeconfig=server.kubeconfig), settings) as (_, url):
        yield url


async def described(url: str, token: str) -> dict[str, Any]:
    """The document, once the token's rights are known and the schemas are published."""
    async with calling() as session:
        caller = Application(url, session, token)

        async def whole() -> dict[str, Any] | None:
            listed = await caller("GET", f"/api/v1/{stage.MINIMARTS}")
            document: dict[str, Any] = (await caller("GET", "/api/v1/openapi.json")).body
            schemas = document.get("components", {}).get("schemas", {})
            known = "spec" in schemas.get("Minimart.charts.samutup.com", {}).get("properties", {})
            return document if listed.status == 200 and known else None

        return await wait_until_async(whole, what="the API server knows the token and the kinds", interval=0.5)


def removed(server: ApiServer) -> None:
    """Takes away what requests have made where it is in no namespace."""
    for name, kind in OURS.items():
        if not kind.namespaced:
            chosen = "" if name in ONE_NAME else "?labelSelector=fuzz"
            for each in server.request("GET", f"{kind.path()}{chosen}")["items"]:
                server.request("DELETE", kind.path(name=each["metadata"]["name"]))


@pytest.mark.parametrize("cached", [False, True], ids=["as-caller", "shared-cache"])
async def test_no_answer_is_a_server_error_or_one_that_the_document_does_not_tell_of(
    api_server: ApiServer, namespace: str, token: str, cached: bool
) -> None:
    async with console_of(api_server, cached=cached) as url:
        run = Run(url, token, namespace, examples=2 if cached else 5)
        kinds = tuple(each for each in FEW if not cached or each != stage.MINIMARTS)  # which no cache holds
        await asyncio.to_thread(fuzz, run, await described(url, token), tags=(ABOUT, *kinds))
    removed(api_server)
    assert run.good > 0.6, run.answers  # of what is refused at once, little is learnt


async def test_the_document_is_one_by_the_published_schema_of_openapi(api_server: ApiServer, token: str) -> None:
    import schemathesis
    from jsonschema_rs import ValidationError

    async with console_of(api_server) as url:
        document = await described(url, token)
    schemathesis.openapi.from_dict(document).validate()
    document["paths"]["/api/v1/me"]["get"]["responses"]["200"].pop("description")
    with pytest.raises(ValidationError):
        schemathesis.openapi.from_dict(document).validate()


async def test_no_operation_is_left_out_of_the_groups(api_server: ApiServer, token: str) -> None:
    async with console_of(api_server) as url:
        document = await described(url, token)
    tags = {each["tags"][0] for path in document["paths"].values() for each in path.values()}
    of_others = {tag for tag in tags - set(GROUPS) if "." in tag}  # kinds of other tests, on the same server
    assert tags - of_others == set(GROUPS)


@pytest.mark.soak
@pytest.mark.parametrize("group", GROUPS)
async def test_the_same_at_length_for_every_kind_that_is_installed(
    api_server: ApiServer, namespace: str, token: str, group: str
) -> None:
    until = time.monotonic() + 60 * float(os.environ.get("EDGEWRIGHT_MINUTES", "0")) / 2 / len(GROUPS)
    async with console_of(api_server, cached=True) as url:
        document = await described(url, token)
        for number in itertools.takewhile(lambda each: each == 0 or time.monotonic() < until, itertools.count()):
            run = Run(url, token, namespace, examples=AT_LENGTH)
            await asyncio.to_thread(fuzz, run, document, tags=(group,), seed=f"{SEED} {number}")
            assert min(run.asked.values()) >= AT_LENGTH, run.asked
            assert run.good > 0.6, run.answers
    removed(api_server)
