"""Sends exchanges about built-in kinds to the real API server.

The cluster tests compare its outcomes with ours, and hack/builtin_exchanges.py records them for the unit tests.
"""

from __future__ import annotations

import json
from typing import Any

from tests.harness import ApiServer, RequestError
from tests.unit.local.builtin.exchanges import KINDS, Body, Exchange, body_of, changed, refusal


def quiet_namespace(cluster: ApiServer) -> str:
    """A namespace in which nothing is added to Pods for their tokens."""
    name = cluster.create_namespace("builtin")
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    quiet = {"automountServiceAccountToken": False}
    cluster.request("PATCH", account, quiet, content_type="application/merge-patch+json")
    return name


def recorded_form(plain: Any, place: str, name: str) -> Any:
    """A comparable outcome with the names that the record has."""
    text = json.dumps(plain).replace(f"{place}-{name}", "a-name").replace(f'"{name}"', '"a-name"')
    return json.loads(text.replace(place, "a-place"))


def sent(exchange: Exchange, cluster: ApiServer, place: str, name: str) -> tuple[Body, Body | None, Body]:
    """The body that was sent last, what it was to replace, and what became of it."""
    kind = KINDS[exchange.kind][0]
    if not kind.namespaced:
        name = f"{place}-{name}"
    where = place if kind.namespaced else None
    body = body_of(exchange, place, name)
    stored = outcome(cluster, "POST", kind.path(where), body)
    if exchange.change is None:
        return body, None, stored
    assert "refused" not in stored, stored
    update = changed(exchange, exchange.change, stored)
    path = kind.path(where, name, exchange.subresource or None)
    return update, stored, outcome(cluster, "PUT", path, update)


def outcome(cluster: ApiServer, method: str, path: str, body: Body | None) -> Body:
    """The object that was answered, or the refusal."""
    try:
        answer: Body = cluster.request(method, path, body)
    except RequestError as refused:
        return refusal(refused.code, json.loads(refused.answer))
    return answer
