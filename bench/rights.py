"""What it costs to look at somebody's rights: the time of a check next to that of a whole request.

In one process, in time of the processor: an authorizer with many roles and bindings decides for an ordinary user, asked
for the first time and asked again; then the same user reads an object over TLS, client and server together. The ratio
is what RBAC adds to a request.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import drive
from edgewright.local.access import Entrance, User
from edgewright.local.access.attributes import Attributes
from edgewright.local.access.authorization import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, Authorizer
from edgewright.local.control_plane import Settings
from edgewright.local.control_plane import open as open_plane
from edgewright.local.history import StoreKey
from edgewright.local.store import Store

USER = User(name="user-7", groups=("team-7", "system:authenticated"))
ASKED = Attributes(verb="get", resource="configmaps", namespace="default", name="kube-root-ca.crt")


async def _fill(store: Store, count: int) -> None:
    """Many roles of ten rules, each given to a user and a group."""
    for number in range(count):
        rules = [{"verbs": ["get", "list"], "apiGroups": [""], "resources": [f"r{each}"]} for each in range(9)]
        rules.append({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]})
        role = json.dumps({"metadata": {"name": f"r{number}"}, "rules": rules}).encode()
        subjects = [{"kind": "User", "name": f"user-{number}"}, {"kind": "Group", "name": f"team-{number}"}]
        ref = {"kind": "ClusterRole", "name": f"r{number}"}
        body = json.dumps({"metadata": {"name": f"b{number}"}, "roleRef": ref, "subjects": subjects}).encode()
        await _store(store, StoreKey(CLUSTER_ROLES, "", f"r{number}"), role)
        await _store(store, StoreKey(CLUSTER_ROLE_BINDINGS, "", f"b{number}"), body)


async def _store(store: Store, key: StoreKey, body: bytes) -> None:
    await store.create(key, lambda _: body)


def _first(rights: Authorizer, count: int) -> float:
    """Microseconds of a check whose answer is not remembered, each in another namespace."""
    asked = [Attributes(verb="get", resource="configmaps", namespace=f"n{number}") for number in range(count)]
    started = time.process_time()
    for each in asked:
        rights.check(each, USER)
    return 1e6 * (time.process_time() - started) / count


def _again(rights: Authorizer, count: int) -> float:
    """Microseconds of a check whose answer is remembered."""
    rights.check(ASKED, USER)
    started = time.process_time()
    for _ in range(count):
        rights.check(ASKED, USER)
    return 1e6 * (time.process_time() - started) / count


async def _request(entrance: Entrance, url: str, count: int) -> float:
    """Microseconds of a whole read by the same user, one after another over one connection."""
    tls = ssl.create_default_context(cafile=str(entrance.authority.file))
    tls.load_cert_chain(entrance.authority.client("bench", user=USER.name, groups=["team-7"]).file)
    path = f"{url}/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
    async with aiohttp.ClientSession() as session:
        for _ in range(600):
            async with session.get(path, ssl=tls) as answer:
                if answer.status == 200:
                    break
            await asyncio.sleep(0.05)
        started = time.process_time()
        for _ in range(count):
            async with session.get(path, ssl=tls) as answer:
                answer.raise_for_status()
                await answer.read()
    return 1e6 * (time.process_time() - started) / count


async def measure(args: Namespace) -> drive.Outcome:
    """All three numbers, and the ratio."""
    outcome = drive.Outcome("rights", columns=("number", "value"))
    with tempfile.TemporaryDirectory() as folder:
        async with open_plane(Settings(data=Path(folder) / "data", port=0)) as running:
            await _fill(running.store, args.roles)
            rights = Authorizer(running.store)
            first, again = _first(rights, 2000), _again(rights, 100_000)
            request = await _request(running.entrance, running.url, args.requests)
    for what, value in (("first check", first), ("check again", again), ("whole request", request)):
        outcome.rows.append((f"{what}, us", f"{value:.3g}"))
    outcome.add("a check / a whole request", again / request, "<=0.02")
    outcome.add("a first check / a whole request", first / request, "<=0.2")
    outcome.notes.append(f"{args.roles} roles of ten rules, each bound to a user and a group.")
    return outcome


def main() -> int:
    args = drive.arguments(
        __doc__,
        roles={"type": int, "default": 1000, "help": "how many roles and bindings there are (default 1000)"},
        requests={"type": int, "default": 2000, "help": "how many requests are measured (default 2000)"},
    )
    return drive.finish(asyncio.run(measure(args)), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
