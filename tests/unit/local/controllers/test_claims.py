"""Claims are bound to volumes of their own, which go with them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from edgewright.local.controllers import claims
from edgewright.local.controllers.workloads.kinds import Claim, Volume
from tests.unit.local.controllers.miniature import POD, Miniature, controlled, miniature, settled, until

SPEC: Any = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
HELD: Any = {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}
USES: Any = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
ADD = partial(claims.add, folders=Path("/folders"))


def phase(server: Miniature, name: str) -> str | None:
    found = server.get(Claim.kind, name) or {}
    said: str | None = found.get("status", {}).get("phase")
    return said


async def test_a_claim_gets_a_volume_that_says_where_its_folder_is() -> None:
    async with miniature() as server, controlled(server, ADD):
        uid = server.make(Claim.kind, "data", spec=SPEC)["metadata"]["uid"]
        await until(lambda: phase(server, "data") == "Bound")
        await settled(server)
        claim, volume = server.get(Claim.kind, "data"), server.get(Volume.kind, f"pvc-{uid}")
        assert claim is not None
        assert volume is not None
        assert (claim["spec"]["volumeName"], claim["status"]["capacity"]) == (f"pvc-{uid}", {"storage": "1Gi"})
        assert volume["spec"]["hostPath"] == {"path": f"/folders/default/data/pvc-{uid}"}
        assert (volume["spec"]["claimRef"]["uid"], volume["status"]["phase"]) == (uid, "Bound")
        asked = len(server.writes)
        server.make(Claim.kind, "data", metadata={"labels": {"a": "b"}})
        await settled(server)
        assert len(server.writes) == asked, "what is bound is not written again"


async def test_a_claim_that_grows_has_a_volume_that_grows() -> None:
    async with miniature() as server, controlled(server, ADD):
        server.make(Claim.kind, "data", spec=SPEC)
        await until(lambda: phase(server, "data") == "Bound")
        await settled(server)
        bound = server.get(Claim.kind, "data") or {}
        server.make(Claim.kind, "data", spec={**bound["spec"], "resources": {"requests": {"storage": "2Gi"}}})
        await settled(server)
        (volume,) = server.all(Volume.kind).values()
        assert volume["spec"]["capacity"] == {"storage": "2Gi"}


async def test_a_volume_goes_with_its_claim_and_the_claim_when_no_pod_uses_it() -> None:
    async with miniature() as server, controlled(server, ADD):
        server.make(Claim.kind, "data", spec=SPEC, **HELD)
        await until(lambda: phase(server, "data") == "Bound")
        await settled(server)
        (volume,) = server.all(Volume.kind).values()
        server.make(Volume.kind, volume["metadata"]["name"], metadata={"finalizers": ["kubernetes.io/pv-protection"]})
        server.make(POD, "user", spec=USES, status={"phase": "Running"})
        await settled(server)
        server.delete(Claim.kind, "data")
        server.delete(Volume.kind, volume["metadata"]["name"])
        await settled(server)
        assert server.get(Claim.kind, "data") is not None, "a Pod uses it"
        assert server.all(Volume.kind), "it has its claim"
        server.make(POD, "user", spec=USES, status={"phase": "Succeeded"})
        await until(lambda: not server.all(Claim.kind) and not server.all(Volume.kind))


async def test_a_claim_of_the_same_name_gets_a_volume_of_its_own() -> None:
    async with miniature() as server:
        old = {"claimRef": {"namespace": "default", "name": "data", "uid": "another"}}
        server.make(Volume.kind, "pvc-another", spec=old)
        server.make(Volume.kind, "by-hand", spec={})
        async with controlled(server, ADD):
            uid = server.make(Claim.kind, "data", spec=SPEC)["metadata"]["uid"]
            await until(lambda: phase(server, "data") == "Bound")
            await settled(server)
        assert {key.name for key in server.all(Volume.kind)} == {f"pvc-{uid}", "by-hand"}


async def test_what_asks_for_the_volume_of_another_waits() -> None:
    async with miniature() as server, controlled(server, ADD):
        server.make(Claim.kind, "first", spec={**SPEC, "volumeName": "shared"})
        await until(lambda: phase(server, "first") == "Bound")
        server.make(Claim.kind, "second", spec={**SPEC, "volumeName": "shared"})
        server.make(Claim.kind, "third", spec={**SPEC, "storageClassName": ""})
        await settled(server)
        assert (phase(server, "second"), phase(server, "third")) == (None, None)
        assert len(server.all(Volume.kind)) == 1
