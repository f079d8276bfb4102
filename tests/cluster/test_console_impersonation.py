"""People of a real provider that no API server knows: the console acts for them, with no more than it is allowed.

On the embedded and on the real API server, with the role of config/console-impersonation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from edgewright.console.identity import START
from tests.acceptance import console_stage
from tests.cluster import oidc_stage as stage
from tests.cluster.oidc_stage import CLIENT, SCOPE, Browser, ProviderProcess
from tests.documents import ROOT
from tests.harness import ApiServer, wait_until, wait_until_async

RBAC = "/apis/rbac.authorization.k8s.io/v1"
JOB = {"spec": {"firmware": "registry.example/firmware:1.1.0", "version": "1.1.0", "uuid": ["a"]}}
PREFIX = "oidc:"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """A provider that no API server is told of."""
    with stage.provider(tmp_path_factory.mktemp("provider")) as running:
        yield running


@dataclass(frozen=True)
class Place:
    """A namespace in which jane may do everything with FlashJobs and the group `people` may read them."""

    server: ApiServer
    provider: ProviderProcess
    namespace: str
    kubeconfig: Path
    """Of the console's own ServiceAccount, which may act for users and for that group."""

    @property
    def jobs(self) -> str:
        """The path of the FlashJobs that they may see."""
        return f"/api/v1/namespaces/{self.namespace}/flashjobs"


def bind(server: ApiServer, namespace: str, name: str, role: dict[str, Any], subject: dict[str, str]) -> None:
    """Makes a role and gives it to somebody, in a namespace or (empty) everywhere."""
    sort = "Role" if namespace else "ClusterRole"
    path = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": sort, "name": name}
    server.request("POST", f"{path}/{sort.lower()}s", {**about, "kind": sort, "rules": role["rules"]})
    binding = {**about, "kind": f"{sort}Binding", "roleRef": reference, "subjects": [subject]}
    server.request("POST", f"{path}/{sort.lower()}bindings", binding)


@pytest.fixture
def place(api_server: ApiServer, provider: ProviderProcess, namespace: str, tmp_path: Path) -> Iterator[Place]:
    """The kinds, the rights of people, and a console's ServiceAccount with the role that comes with it."""
    console_stage.install(api_server)
    verbs = ["get", "list", "watch"]
    rules = {"apiGroups": ["application.flashjob.nbfc.io"], "resources": ["flashjobs"]}
    group = {"apiGroup": "rbac.authorization.k8s.io"}
    everything = {"rules": [{**rules, "verbs": [*verbs, "create", "patch", "update", "delete"]}]}
    bind(api_server, namespace, "jane", everything, {**group, "kind": "User", "name": f"{PREFIX}jane"})
    reading = {"rules": [{**rules, "verbs": verbs}]}
    bind(api_server, namespace, "readers", reading, {**group, "kind": "Group", "name": f"{PREFIX}people"})
    role = yaml.safe_load((ROOT / "config/console-impersonation/role.yaml").read_text(encoding="utf-8"))
    role["rules"][1]["resourceNames"] = [f"{PREFIX}people"]
    account = {"kind": "ServiceAccount", "name": "console", "namespace": namespace}
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api_server.request("POST", accounts, {"metadata": {"name": "console"}})
    bind(api_server, "", f"console-{namespace}", role, account)
    token = api_server.request("POST", f"{accounts}/console/token", {"spec": {}})["status"]["token"]
    kubeconfig = yaml.safe_load(api_server.kubeconfig.read_text(encoding="utf-8"))
    kubeconfig["users"] = [{"name": each["name"], "user": {"token": token}} for each in kubeconfig["users"]]
    file = tmp_path / "console.kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    yield Place(api_server, provider, namespace, file)
    for sort in ("clusterrolebindings", "clusterroles"):
        api_server.request("DELETE", f"{RBAC}/{sort}/console-{namespace}")


@asynccontextmanager
async def browsing(place: Place, folder: Path, *groups: str) -> AsyncIterator[Browser]:
    """A browser in front of `edgewright console` as a process, which acts for people and lets these groups count."""
    arguments = (
        *("--oidc-issuer", place.provider.issuer, "--oidc-client-id", CLIENT, "--oidc-scope", SCOPE),
        *("--oidc-ca", str(place.provider.authority), "--impersonate-prefix", PREFIX),
        *(word for group in groups for word in ("--impersonate-group", group)),
    )
    with console_stage.console(place.kubeconfig, folder / "console", *arguments) as process:
        url = await asyncio.to_thread(lambda: process.url)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            yield Browser(session, place.provider.tls, url)


async def until(browser: Browser, path: str, status: int) -> Any:
    """Waits until the API server has heard of the roles."""

    async def answers() -> Any:
        answer = await browser("GET", path)
        return answer if answer.status == status else None

    return await wait_until_async(answers, what=f"{path} is answered with {status}", interval=0.2)


async def test_people_act_under_their_own_names_and_with_their_own_rights(place: Place, tmp_path: Path) -> None:
    async with browsing(place, tmp_path, "people") as browser:
        assert (await browser("GET", "/api/v1/me")).body["signIn"] == START
        await browser.sign_in("jane")
        await until(browser, place.jobs, 200)
        me = (await browser("GET", "/api/v1/me")).body
        assert (me["user"]["name"], me["session"]) == ("oidc:jane", "oidc")
        assert set(me["user"]["groups"]) == {"oidc:people", "system:authenticated"}
        made = await browser("PUT", f"{place.jobs}/mine", JOB)
        assert made.status == 201, made.text
        refused = await browser("GET", "/api/v1/namespaces/default/flashjobs")
        assert (refused.status, refused.body["user"], refused.body["verb"]) == (403, "oidc:jane", "list")
    async with browsing(place, tmp_path, "people") as browser:
        await browser.sign_in("joe")
        listed = await until(browser, place.jobs, 200)
        assert [each["metadata"]["name"] for each in listed.body["items"]] == ["mine"]
        refused = await browser("DELETE", f"{place.jobs}/mine")
        assert (refused.status, refused.body["user"], refused.body["verb"]) == (403, "oidc:joe", "delete")


async def test_a_group_counts_only_where_it_was_allowed(place: Place, tmp_path: Path) -> None:
    async with browsing(place, tmp_path) as browser:
        await browser.sign_in("joe")
        await until(browser, "/api/v1/me", 200)
        assert (await browser("GET", "/api/v1/me")).body["user"]["groups"] == ["system:authenticated"]
        refused = await browser("GET", place.jobs)
        assert (refused.status, refused.body["user"]) == (403, "oidc:joe")


async def test_a_console_without_the_right_acts_for_nobody(place: Place, tmp_path: Path) -> None:
    path = f"{RBAC}/clusterroles/console-{place.namespace}"
    role = place.server.request("GET", path)
    role["rules"] = role["rules"][:1]
    place.server.request("PUT", path, role)
    review = {
        "user": f"system:serviceaccount:{place.namespace}:console",
        "resourceAttributes": {"resource": "groups", "verb": "impersonate", "name": f"{PREFIX}people"},
    }

    def gone() -> bool:
        asked = place.server.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": review})
        return not asked["status"].get("allowed")

    await asyncio.to_thread(wait_until, gone, what="the right is gone")
    async with browsing(place, tmp_path, "people") as browser:
        await browser.sign_in("jane")
        refused = await browser("GET", place.jobs)
        # From 1.35 on the real server asks for narrower rights first, and names the first of them that is missing.
        assert (refused.status, refused.body["verb"].partition("-")[0]) == (403, "impersonate"), refused.text
        assert refused.body["user"] == f"system:serviceaccount:{place.namespace}:console"
