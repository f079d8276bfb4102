"""The operations that are about the API itself: who is calling, which kinds there are, the OpenAPI document, sign-in.

`operations` lists them. They read, and the one that signs in changes nothing but the console's own sessions.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from aiohttp import web

from edgewright.console import openapi, schemas
from edgewright.console.answers import KindEntries, KindEntry, Link, Me, ProblemSort, Rights, User
from edgewright.console.call import Call, answer
from edgewright.console.identity import COOKIE, SESSION_SECONDS
from edgewright.console.kinds import OURS, Served
from edgewright.console.problems import PATH, SORTS, Refusal
from edgewright.runtime.errors import UNFIT
from edgewright.runtime.objects import Kind

VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete")
_REVIEW: Final = Kind(
    group="authentication.k8s.io",
    version="v1",
    kind="SelfSubjectReview",
    plural="selfsubjectreviews",
    namespaced=False,
)
_ACCESS: Final = Kind(
    group="authorization.k8s.io",
    version="v1",
    kind="SelfSubjectAccessReview",
    plural="selfsubjectaccessreviews",
    namespaced=False,
)


async def who_am_i(call: Call) -> web.Response:
    """As whom the API server knows the caller and, for one kind, what the caller may do."""
    status = (await _review(call, _REVIEW, {}))["status"]["userInfo"]
    user = User(name=status.get("username", ""), groups=tuple(status.get("groups") or ()))
    rights = None
    if name := call.query.get("of"):
        kind = await call.shared.kinds.find(call.client, name)
        namespace = call.query.get("namespace", "") if kind.namespaced else ""
        allowed = await asyncio.gather(*(_may(call, kind, verb, namespace) for verb in VERBS))
        rights = Rights(resource=name, namespace=namespace, verbs=dict(zip(VERBS, allowed, strict=True)))
    return answer(Me(user=user, rights=rights))


async def _may(call: Call, kind: Kind, verb: str, namespace: str) -> bool:
    asked = {"group": kind.group, "version": kind.version, "resource": kind.plural, "verb": verb}
    review = await _review(call, _ACCESS, {"resourceAttributes": {**asked, "namespace": namespace}})
    return bool(review["status"].get("allowed"))


async def _review(call: Call, kind: Kind, spec: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind}
    if spec:
        body["spec"] = spec
    got = await call.exchange("POST", kind.path(), body=msgspec.json.encode(body))
    found: dict[str, Any] = msgspec.json.decode(got.body)
    return found


async def list_kinds(call: Call) -> web.Response:
    """Every kind that is installed."""
    found = await call.shared.kinds.all(call.client, call.caller.digest if call.caller else "")
    return answer(KindEntries(items=tuple(_entry(each) for each in found)))


def _entry(served: Served) -> KindEntry:
    kind = served.kind
    return KindEntry(
        name=served.name,
        kind=kind.kind,
        api_version=kind.api_version,
        namespaced=kind.namespaced,
        ours=served.name in OURS,
    )


async def describe(call: Call) -> web.Response:
    """The OpenAPI document: with the kinds that are installed for who is known, else with ours."""
    from edgewright.console.operations import OPERATIONS  # noqa: PLC0415 - the table names this handler

    if call.caller is None:
        served = tuple(Served(name=name, kind=kind) for name, kind in OURS.items())
        return answer(openapi.document(OPERATIONS, served, schemas.ours()))
    served = await call.shared.kinds.all(call.client, call.caller.digest)
    found = await call.shared.schemas.of(call.client, served)
    return answer(openapi.document(OPERATIONS, served, found))


async def explain_problem(call: Call) -> web.Response:
    """What a sort of problem means, and what can be done: the page that a problem's `type` leads to."""
    name = call.part("problem")
    sort = SORTS.get(name)
    if sort is None:
        raise Refusal("not-found", "there is no such sort of problem")
    return answer(ProblemSort(type=PATH + name, title=sort.title, status=sort.status, advice=sort.advice))


async def sign_in(call: Call) -> web.Response:
    """Turns the secret of the one-time link into a session's cookie."""
    if call.shared.sign_in is None:
        raise Refusal("not-found", "this console has no sign-in: send a Bearer token")
    try:
        link = msgspec.json.decode(await call.body(), type=Link)
    except UNFIT as error:
        raise Refusal("bad-request", 'the body must be {"secret": …}') from error
    response = web.Response(status=204)
    response.set_cookie(
        COOKIE,
        call.shared.sign_in.redeem(link.secret),
        max_age=int(SESSION_SECONDS),
        path="/",
        secure=True,
        httponly=True,
        samesite="Strict",
    )
    return response
