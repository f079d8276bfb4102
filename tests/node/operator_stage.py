"""Edgewright installed on the real node: by its installer file, as people install it, and the FlashJobs given to it.

The tests share one `Installation`. It types the project's own make targets in a checkout of links, and asks the
API server; what happened to devices is asked of the devices (`lan.Fleet`), never of it.
"""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.acceptance.flashjob_stage import Place, checkout
from tests.harness import wait_until
from tests.node.cluster import PATIENCE, RealCluster
from tests.node.lan import ATTESTATION_PORT, Fleet
from tests.node.layout import FIRMWARE, FLEET_ADDRESS, REGISTRY

SYSTEM: Final = "edgewright-system"
RESTRICTED: Final = "pod-security.kubernetes.io/enforce=restricted"
PREVIOUS: Final = Path(__file__).with_name("previous-install.yaml.gz")
OPERATOR: Final = "control-plane=controller-manager"
NAMESPACE: Final = "flash"
"""Where the FlashJobs, the Instances and the flash Pods are."""


def _jobs(namespace: str) -> str:
    return f"/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/{namespace}/flashjobs"


def previous_installer() -> str:
    """The installer of the version before this one."""
    return gzip.decompress(PREVIOUS.read_bytes()).decode()


class Installation:
    """The operator in the cluster, and the namespace of its jobs; both enforce the restricted standard."""

    def __init__(self, cluster: RealCluster, folder: Path) -> None:
        self.cluster = cluster
        self.place = Place(cluster, checkout(folder / "checkout"))
        self.with_old_roles: list[tuple[datetime, datetime]] = []
        """From when to when the program of today had the roles of the version before: it is refused what is new."""
        self._old_roles_since: datetime | None = None

    def install(self) -> None:
        """Applies the installer of the offline bundle, with what the operator must know of this LAN laid over it."""
        self._apply(self.installer())
        if self._old_roles_since is not None:
            self.with_old_roles.append((self._old_roles_since, datetime.now(UTC)))
            self._old_roles_since = None

    def installer(self) -> str:
        """The installer of the offline bundle."""
        return (self.cluster.bundle / "install.yaml").read_text(encoding="utf-8")

    def install_previous(self) -> None:
        """Applies the installer of the version before, for the image of this one."""
        self._old_roles_since = datetime.now(UTC)
        text = previous_installer()
        image = text.partition("with the image ")[2].partition(". Made by")[0]
        self._apply(text.replace(image, self.cluster.image("edgewright")))

    def arguments(self) -> list[str]:
        """What the operator must know of this LAN."""
        return [
            f"--flasher-image={self.cluster.image('flasher')}",
            f"--plain-registry={REGISTRY}",
            f"--attestation=http://{FLEET_ADDRESS}:{ATTESTATION_PORT}",
        ]

    def _apply(self, installer: str) -> None:
        folder = self.cluster.room / "overlay"
        folder.mkdir(exist_ok=True)
        (folder / "install.yaml").write_text(installer, encoding="utf-8")
        target = {"kind": "Deployment", "name": "edgewright-controller-manager"}
        place = "/spec/template/spec/containers/0/args/-"
        patch = [{"op": "add", "path": place, "value": each} for each in self.arguments()]
        overlay = {"resources": ["install.yaml"], "patches": [{"target": target, "patch": json.dumps(patch)}]}
        (folder / "kustomization.yaml").write_text(json.dumps(overlay))
        self.place.typed(f"kubectl apply --server-side --force-conflicts -k {folder}")

    def make_namespace(self) -> None:
        """The namespace of the jobs."""
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        self.cluster.kubectl("label", "namespace", NAMESPACE, RESTRICTED)

    def until_available(self) -> None:
        """Waits until every Deployment that was installed has all its Pods."""
        path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"

        def available() -> bool:
            found = self.cluster.request("GET", path)["items"]
            return bool(found) and all(
                each["status"].get("observedGeneration") == each["metadata"]["generation"]
                and each["status"].get("availableReplicas") == each["spec"]["replicas"]
                and each["status"].get("updatedReplicas") == each["status"].get("replicas")
                and not each["status"].get("unavailableReplicas")
                for each in found
            )

        try:
            wait_until(available, what="the Deployments are available", timeout=PATIENCE)
        except AssertionError as error:
            told = self.cluster.kubectl("describe", "pods", "-n", SYSTEM).stdout
            raise AssertionError(f"{error}\n{told}") from None

    def leader(self) -> str:
        """The name of the Pod that holds the operator's Lease, once one does that is there."""

        def holder() -> str | None:
            lease = self.cluster.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/edgewright")
            identity = lease["spec"].get("holderIdentity") or ""
            names = [each["metadata"]["name"] for each in self.cluster.pods(SYSTEM, OPERATOR)]
            return next((name for name in names if identity.startswith(name)), None)

        return wait_until(holder, what="an operator leads", timeout=PATIENCE)

    # --- FlashJobs --------------------------------------------------------------------------------------------------

    def flash(self, name: str, devices: Fleet | str, version: str, *, namespace: str = NAMESPACE, **more: Any) -> None:
        """Creates a FlashJob for all devices of a fleet, or for one by its uid."""
        firmware = f"{REGISTRY}/{FIRMWARE}:{version}"
        uuids = devices.uids() if isinstance(devices, Fleet) else [devices]
        spec = {"uuid": uuids, "firmware": firmware, "version": version, **more}
        document = {
            "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
            "kind": "FlashJob",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
        self.cluster.request("POST", _jobs(namespace), document)

    def job(self, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
        """A FlashJob as it is."""
        found: dict[str, Any] = self.cluster.request("GET", f"{_jobs(namespace)}/{name}")
        return found

    def until_phase(self, name: str, *, namespace: str = NAMESPACE, seconds: float = 240) -> Any:
        """The status of a FlashJob once it has ended."""
        phases = ("Completed", "Failed")

        def reached() -> dict[str, Any] | None:
            status: dict[str, Any] = self.job(name, namespace).get("status", {})
            return status if status.get("phase") in phases else None

        try:
            return wait_until(reached, what=f"{name} is {' or '.join(phases)}", timeout=seconds, interval=0.2)
        except AssertionError as error:
            pods = self.cluster.kubectl("describe", "pods", "-n", namespace).stdout
            raise AssertionError(f"{error}: {json.dumps(self.job(name, namespace).get('status'))}\n{pods}") from None

    def delete(self, name: str, namespace: str = NAMESPACE) -> None:
        """Deletes a FlashJob and waits until nothing is left that was made for it."""
        self.cluster.kubectl("delete", "flashjob", name, "-n", namespace, "--timeout=240s")

        def left() -> list[str]:
            kinds = ("pods", "services")
            listed = [self.cluster.request("GET", f"/api/v1/namespaces/{namespace}/{kind}")["items"] for kind in kinds]
            return [
                each["metadata"]["name"]
                for items in listed
                for each in items
                if each["metadata"].get("labels", {}).get("app") == name
            ]

        wait_until(lambda: not left(), what=f"nothing of {name} is left", timeout=PATIENCE)


def condition(status: dict[str, Any], name: str) -> str:
    """The status of one condition."""
    return next((str(each["status"]) for each in status.get("conditions", ()) if each["type"] == name), "")


def check_devices(fleet: Fleet, version: str) -> None:
    """What holds whatever went wrong: nobody is written by two at once, nor again once it showed what was wanted."""
    assert fleet.versions() == [version] * len(fleet.addresses)
    for address, journal in fleet.journals().items():
        told = [f"{entry.at:.1f} {entry.did} {entry.run} {entry.detail}" for entry in journal]
        assert not journal.written_by_two_at_once, (address, told)
        shown = [number for number, entry in enumerate(journal) if entry.did == "rebooted" and entry.version == version]
        assert shown, (address, told)
        assert not [entry for entry in list(journal)[shown[0] :] if entry.did in {"writing", "written"}], (
            address,
            told,
        )
