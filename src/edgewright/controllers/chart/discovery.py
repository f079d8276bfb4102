"""Where a kind is served, asked of the API server: charts name kinds by apiVersion and kind alone.

`controller` asks for the kinds in the watches file, `dependents` for those in a release. An answer that a kind is not
served is not remembered: it may be installed in the next moment.
"""

from __future__ import annotations

import msgspec

from edgewright.controllers.chart.manifests import TypeName
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound, Undecodable
from edgewright.runtime.objects import Kind


class _ApiResource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ApiResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_ApiResource, ...] = ()


class Discovery:
    """The kinds of one API server, each asked for once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[TypeName, Kind] = {}

    async def kind_of(self, type_: TypeName) -> Kind | None:
        """Where the kind is served; None where it is not."""
        if type_ not in self._known:
            await self._ask(type_.api_version)
        return self._known.get(type_)

    async def _ask(self, api_version: str) -> None:
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            body = await self._client.get_path(path)
        except NotFound:
            return
        try:
            listed = msgspec.json.decode(body, type=_ApiResourceList)
        except msgspec.MsgspecError as error:
            raise Undecodable(f"GET {path}: {error}") from error
        for each in listed.resources:
            if "/" not in each.name and "get" in each.verbs:
                self._known[TypeName(api_version, each.kind)] = Kind(
                    group=group, version=version, kind=each.kind, plural=each.name, namespaced=each.namespaced
                )
