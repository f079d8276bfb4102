"""What every namespace has without anybody asking: the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`.

`add` registers a controller that creates them, creates them again when they are deleted, and puts the ConfigMap right
when somebody changes it. It never touches a namespace that is being deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from edgewright.local.controllers.resources import ConfigMap, Namespace, ServiceAccount
from edgewright.runtime import DONE, For, Key, Manager, Maps, RawObject, Resource, Result
from edgewright.runtime.errors import AlreadyExists, Forbidden, NotFound
from edgewright.runtime.predicates import anything

ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
CERTIFICATE = "ca.crt"
DESCRIPTION = {"kubernetes.io/description": "The authority that signed the certificate of this cluster's API server."}


def account(namespace: str) -> RawObject:
    """The ServiceAccount that Pods get which ask for none."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": namespace},
    }


def root_ca(namespace: str, certificate: str) -> RawObject:
    """The ConfigMap by which a Pod can trust the API server."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ROOT_CA, "namespace": namespace, "annotations": DESCRIPTION},
        "data": {CERTIFICATE: certificate},
    }


def correction(found: ConfigMap, certificate: str) -> RawObject | None:
    """The merge patch that puts a ConfigMap right that somebody changed; None where it is right."""
    change: RawObject = {}
    if found.data != {CERTIFICATE: certificate}:
        change["data"] = {**dict.fromkeys(found.data), CERTIFICATE: certificate}
    if found.binary_data:
        change["binaryData"] = None
    if any(found.metadata.annotations.get(name) != text for name, text in DESCRIPTION.items()):
        change["metadata"] = {"annotations": DESCRIPTION}
    return change or None


def add(manager: Manager, *, certificate: bytes) -> None:
    """Registers the controller; `certificate` is the authority's certificate as PEM."""
    _Defaults(manager, certificate.decode()).add()


class _Defaults:
    def __init__(self, manager: Manager, certificate: str) -> None:
        self._manager = manager
        self._certificate = certificate
        self._client = manager.client
        self._namespaces = manager.cache(Namespace)
        # By name, so that no other ConfigMap of the cluster is held in memory.
        self._accounts = manager.cache(ServiceAccount, fields=f"metadata.name={ACCOUNT}")
        self._config_maps = manager.cache(ConfigMap, fields=f"metadata.name={ROOT_CA}")

    def add(self) -> None:
        self._manager.controller(
            "namespace-defaults",
            self._reconcile,
            For(self._namespaces, when=anything),
            Maps(self._accounts, _namespace_of),
            Maps(self._config_maps, _namespace_of),
        )

    async def _reconcile(self, key: Key) -> Result:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.deleting or namespace.status.phase == "Terminating":
            return DONE
        try:
            await self._make_so(key.name)
        except (Forbidden, NotFound):
            # The namespace is going, which the cache does not know yet.
            current = await self._namespaces.fetch(key)
            if current is not None and not current.deleting:
                raise
        return DONE

    async def _make_so(self, namespace: str) -> None:
        if self._accounts.get(Key(namespace, ACCOUNT)) is None:
            await self._create(ServiceAccount, account(namespace))
        found = self._config_maps.get(Key(namespace, ROOT_CA))
        if found is None:
            await self._create(ConfigMap, root_ca(namespace, self._certificate))
        elif change := correction(found, self._certificate):
            version = found.metadata.resource_version
            await self._client.of(ConfigMap).patch(found.key, change, resource_version=version)

    async def _create(self, resource: type[Resource], wanted: RawObject) -> None:
        with suppress(AlreadyExists):  # the cache is behind, and will bring what is there
            await self._client.raw(resource.kind).create(wanted)


def _namespace_of(obj: Resource) -> Iterable[Key]:
    return (Key("", obj.metadata.namespace),)
