"""`edgewright token NAME`: a token for a person, a portal or a script, with the rights of a role and an end.

It creates a ServiceAccount, the roles and the bindings, and asks the API server for a token, on any Kubernetes and on
`edgewright up` alike. The token alone goes to standard output; it is kept nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import typer

from edgewright.api.capabilities import CAPABILITIES, Rule
from edgewright.api.user_roles import TokenRole, token_rules
from edgewright.cli import terminal
from edgewright.cli.cluster import Context, Kubeconfig, Namespace, Place, place
from edgewright.cli.failure import Failed
from edgewright.cli.rollout_flags import seconds
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, Kind, RawObject

LABEL: Final = "edgewright.dev/token-role"
"""What an account that this command made is known by; it says its role, and whether that counts everywhere."""
_MANAGER: Final = "edgewright-token"
_RBAC: Final = "rbac.authorization.k8s.io"
_ACCOUNT: Final = Kind(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts")
_ROLE: Final = Kind(group=_RBAC, version="v1", kind="ClusterRole", plural="clusterroles", namespaced=False)
_BINDING: Final = Kind(group=_RBAC, version="v1", kind="RoleBinding", plural="rolebindings")
_WIDE_BINDING: Final = Kind(
    group=_RBAC, version="v1", kind="ClusterRoleBinding", plural="clusterrolebindings", namespaced=False
)
_MIN_SECONDS: Final = 600
_MAX_SECONDS: Final = 2**32


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Who is to get a token, and for what."""

    name: str
    namespace: str
    role: TokenRole
    everywhere: bool = False

    @property
    def rights(self) -> str:
        """The role and where it counts, in a word."""
        return f"{self.role}-everywhere" if self.everywhere else str(self.role)

    def objects(self) -> list[tuple[Kind, RawObject]]:
        """What must be there for it: the account, its roles, and the bindings that give them."""
        made: list[tuple[Kind, RawObject]] = [(_ACCOUNT, self._object(_ACCOUNT, self.name))]
        if self.role is TokenRole.ADMIN:
            return [*made, self._binding("cluster-admin", wide=self.everywhere)]
        for namespaced in (True, False):
            rules = token_rules(self.role, CAPABILITIES, namespaced=namespaced)
            role = f"edgewright-token-{self.role}{'' if namespaced else '-cluster'}"
            metadata = {"name": role}
            made.append((_ROLE, {**_head(_ROLE), "metadata": metadata, "rules": [_rule(each) for each in rules]}))
            made.append(self._binding(role, wide=self.everywhere or not namespaced))
        return made

    def bindings(self) -> list[tuple[Kind, Key]]:
        """Everything that gives it rights, whatever its role."""
        roles = (f"edgewright-token-{role}{wide}" for role in TokenRole for wide in ("", "-cluster"))
        return [
            each
            for role in (*roles, "cluster-admin")
            for each in (
                (_BINDING, Key(self.namespace, self._bound(role))),
                (_WIDE_BINDING, Key("", self._wide(role))),
            )
        ]

    def _binding(self, role: str, *, wide: bool) -> tuple[Kind, RawObject]:
        kind = _WIDE_BINDING if wide else _BINDING
        body = self._object(kind, self._wide(role) if wide else self._bound(role))
        body["roleRef"] = {"apiGroup": _RBAC, "kind": _ROLE.kind, "name": role}
        body["subjects"] = [{"kind": _ACCOUNT.kind, "name": self.name, "namespace": self.namespace}]
        return kind, body

    def _bound(self, role: str) -> str:
        return f"{self.name}.{role}"

    def _wide(self, role: str) -> str:
        return f"{self.namespace}.{self.name}.{role}"

    def _object(self, kind: Kind, name: str) -> RawObject:
        metadata: RawObject = {"name": name, "labels": {LABEL: self.rights}}
        if kind.namespaced:
            metadata["namespace"] = self.namespace
        return {**_head(kind), "metadata": metadata}


def token(
    name: Annotated[str, typer.Argument(help="Whom it is for: the name of its ServiceAccount.", show_default=False)],
    *,
    role: Annotated[
        TokenRole, typer.Option("--role", help="What it may do: look, work, decide, or everything.")
    ] = TokenRole.VIEWER,
    lasts: Annotated[str, typer.Option("--for", help="How long it is good, such as 12h or 30d.")] = "30d",
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Let it count in all namespaces.", show_default=False)
    ] = False,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="End all tokens of this name, and remove its rights.", show_default=False)
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Make a token with the rights of a role, and print it.

    viewer looks at all kinds, operator also creates and changes objects, approver looks and decides (rollouts that
    wait, devices that ask to be let in), admin may do everything. Rights count in one namespace, and for what has none,
    such as Devices; with -A everywhere. A second token of the same name ends none before it: --revoke ends all.
    """
    where = place(kubeconfig, context, namespace)
    wanted = Wanted(name=name, namespace=where.namespace, role=role, everywhere=everywhere)
    if revoke:
        where.run(lambda client: _revoke(client, wanted))
        terminal.say(f"No token of {name} in namespace {where.namespace} is good any more.")
        return
    duration = seconds(lasts, "--for")
    if not _MIN_SECONDS <= duration <= _MAX_SECONDS:
        raise typer.BadParameter(f"{lasts!r}: a token is good for 10m at least", param_hint="--for")
    made, until = where.run(lambda client: _make(client, wanted, duration, where))
    terminal.give(made)
    terminal.say(
        f"It acts as the ServiceAccount {name} in namespace {where.namespace} with the rights of {role}, until {until}."
        f" `edgewright token {name} --revoke{where.typed}` ends it before."
    )


async def _make(client: Client, wanted: Wanted, duration: int, where: Place) -> tuple[str, str]:
    await _check(client, wanted, where)
    for kind, obj in wanted.objects():
        await client.raw(kind).apply(obj, manager=_MANAGER, force=True)
    return await _request(client, wanted, duration)


async def _check(client: Client, wanted: Wanted, where: Place) -> None:
    """Refuses a name that stands for something else, before anything is made."""
    try:
        found = await client.raw(_ACCOUNT).get(Key(wanted.namespace, wanted.name))
    except NotFound:
        return
    known = (found["metadata"].get("labels") or {}).get(LABEL)
    if known is None:
        raise Failed(
            f"the ServiceAccount {wanted.name} in namespace {wanted.namespace} is somebody else's: choose another name"
        )
    if known != wanted.rights:
        again = f"edgewright token {wanted.name} --revoke{where.typed}"
        raise Failed(f"{wanted.name} has the rights of {known} already: choose another name, or run `{again}` first")


async def _request(client: Client, wanted: Wanted, duration: int) -> tuple[str, str]:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": duration},
    }
    path = _ACCOUNT.path(wanted.namespace, wanted.name, "token")
    answer = await client.transport.request("POST", path, body=msgspec.json.encode(body))
    status = msgspec.json.decode(answer)["status"]
    return str(status["token"]), str(status["expirationTimestamp"])


async def _revoke(client: Client, wanted: Wanted) -> None:
    """Removes the account, with which its tokens end, and its bindings; what others made stays."""
    key = Key(wanted.namespace, wanted.name)
    try:
        found = await client.raw(_ACCOUNT).get(key)
    except NotFound:
        found = None
    if found is not None and LABEL not in (found["metadata"].get("labels") or {}):
        raise Failed(f"the ServiceAccount {wanted.name} in namespace {wanted.namespace} was not made by this command")
    for kind, each in ((_ACCOUNT, key), *wanted.bindings()):
        with suppress(NotFound):
            await client.raw(kind).delete(each)
    if found is None:
        raise Failed(f"there is no token {wanted.name} in namespace {wanted.namespace}")


def _head(kind: Kind) -> RawObject:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def _rule(rule: Rule) -> dict[str, Sequence[str]]:
    return {"apiGroups": list(rule.groups), "resources": list(rule.resources), "verbs": list(rule.verbs)}
