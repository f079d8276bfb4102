"""The operations that are about the API itself: who is calling, which kinds there are, the OpenAPI document, sign-in.

`operations` lists them. They read, and the one that signs in changes nothing but the console's own sessions.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from aiohttp import web

from edgewright.console import openapi, schemas
from edgewright.console.answers import KindEntries, KindEntry, KindSchema, Link, Me, ProblemSort, Rights, SignedOut
from edgewright.console.call import Call, answer
from edgewright.console.identity import COOKIE, SESSION_SECONDS
from edgewright.console.kinds import OURS, Served, name_of
from edgewright.console.problems import PATH, SORTS, Refusal
from edgewright.console.reviews import may, user_of
from edgewright.runtime.errors import UNFIT

VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete")


async def who_am_i(call: Call) -> web.Response:
    """As whom the API server knows the caller and, for one kind, what the caller may do."""
    rights = None
    if name := call.query.get("of"):
        kind = await call.shared.kinds.find(call.client, name)
        namespace = call.query.get("namespace", "") if kind.namespaced else ""
        part = call.query.get("subresource", "")
        asked = (may(call.client, kind, verb, namespace, subresource=part) for verb in VERBS)
        verbs = dict(zip(VERBS, await asyncio.gather(*asked), strict=True))
        rights = Rights(resource=f"{name}/{part}" if part else name, namespace=namespace, verbs=verbs)
    return answer(Me(user=await user_of(call), rights=rights, session=call.caller.session if call.caller else ""))


async def list_kinds(call: Call) -> web.Response:
    """Every kind that is installed."""
    found = await call.shared.kinds.all(call.client, call.caller.digest if call.caller else "")
    return answer(KindEntries(items=tuple(_entry(each) for each in found)))


async def describe_kind(call: Call) -> web.Response:
    """One kind with its schema: a small part of the OpenAPI document, for forms."""
    name = call.part("kind")
    kind = await call.shared.kinds.find(call.client, name)
    schema = await call.shared.schemas.one(call.client, Served(name=name_of(kind), kind=kind))
    return answer(
        KindSchema(
            name=name_of(kind),
            kind=kind.kind,
            api_version=kind.api_version,
            namespaced=kind.namespaced,
            schema=schema,
        )
    )


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


async def sign_out(call: Call) -> web.Response:
    """Ends the session that the request came with."""
    session = call.caller.session if call.caller else ""
    response = web.Response(status=204)
    if session == "oidc" and call.shared.oidc is not None:
        if there := await call.shared.oidc.end(call.request):
            return answer(SignedOut(provider=there))
    elif session == "link" and call.shared.sign_in is not None:
        call.shared.sign_in.end(call.request.cookies.get(COOKIE, ""))
        response.del_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="Strict")
    else:
        raise Refusal("not-found", "there is no session: a token is not kept here")
    return response
