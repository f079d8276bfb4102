"""What the API server says of who asks it: as whom it knows them, and whether it would allow something.

Handlers ask it as the caller where an answer depends on who is calling, and the shared cache as the console. It decides
nothing itself.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from edgewright.console.answers import User
from edgewright.console.call import Call
from edgewright.runtime.client import Client
from edgewright.runtime.objects import Kind

_SELF: Final = Kind(
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


async def user_of(call: Call) -> User:
    """As whom the API server knows the caller."""
    found = (await _review(call.client, _SELF, {}))["status"]["userInfo"]
    return User(name=found.get("username", ""), groups=tuple(found.get("groups") or ()))


async def may(client: Client, kind: Kind, verb: str, namespace: str, *, subresource: str = "") -> bool:
    """Whether the API server would allow whoever the client is a verb on a kind, or on a part of its objects."""
    asked = {"group": kind.group, "version": kind.version, "resource": kind.plural, "verb": verb}
    if subresource:
        asked["subresource"] = subresource
    review = await _review(client, _ACCESS, {"resourceAttributes": {**asked, "namespace": namespace}})
    return bool(review["status"].get("allowed"))


async def _review(client: Client, kind: Kind, spec: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind}
    if spec:
        body["spec"] = spec
    got = await client.transport.exchange("POST", kind.path(), body=msgspec.json.encode(body))
    found: dict[str, Any] = msgspec.json.decode(got.body)
    return found
