"""The rights of our accounts against the API server's audit log of everything that this suite did before.

Nothing was refused to us; and every right that was granted was used, or stands with its reason in one file.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from tests.harness import wait_until
from tests.node.cluster import PATIENCE, RealCluster
from tests.node.lan import Fleet
from tests.node.operator_stage import NAMESPACE, SYSTEM, Installation
from tests.node.rights import granted, refused, used

UNSEEN: Final = Path(__file__).with_name("rights-not-seen.txt")
MOST: Final = 10
OTHERS: Final = "others"


def entries() -> dict[str, str]:
    """What the file says: patterns of rights, and the reason of each."""
    lines = [line for line in UNSEEN.read_text().splitlines() if line and not line.startswith("#")]
    return {pattern.strip(): reason.strip() for pattern, _, reason in (line.partition(" -- ") for line in lines)}


def covers(pattern: str, right: str) -> bool:
    """Whether a pattern is about a right: account, verbs with commas, resources with commas."""
    account, _, rest = pattern.partition(": ")
    verbs, _, resources = rest.partition(" ")
    its_account, _, its_rest = right.partition(": ")
    its_verb, _, its_resource = its_rest.partition(" ")
    return account == its_account and its_verb in verbs.split(",") and its_resource in resources.split(",")


def test_a_mini_cluster_and_a_job_with_a_ttl_need_what_flashing_alone_does_not(
    operator: Installation, cluster: RealCluster
) -> None:
    """So that the log has it; that they work is the business of other suites."""
    cluster.kubectl("create", "namespace", OTHERS)
    for kind, spec in (("FluxSetup", {"size": 2}), ("Flux", {"image": cluster.image("pause"), "command": "sleep 2"})):
        document = {
            "apiVersion": "flux-framework.org/v1alpha1",
            "kind": kind,
            "metadata": {"name": "mini", "namespace": OTHERS},
            "spec": spec,
        }
        cluster.kubectl("apply", "-f", "-", input=json.dumps(document))
    with Fleet(cluster, NAMESPACE, count=1) as fleet:
        operator.flash("short", fleet, "0.2.0", ttlSecondsAfterFinished=0)
        path = "/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/flash/flashjobs/short"
        wait_until(lambda: not cluster.exists(path), what="the job is deleted by its ttl", timeout=PATIENCE)
    needed = {("create", "configmaps"), ("create", "statefulsets"), ("create", "secrets"), ("delete", "flashjobs")}

    def seen() -> bool:
        return needed <= {(each.verb, each.resource) for each in used(cluster.audit_events())}

    wait_until(seen, what="the API server saw all of it", timeout=PATIENCE, interval=0.5)
    for kind in ("fluxes", "fluxsetups"):
        cluster.kubectl("delete", f"{kind}.flux-framework.org", "--all", "-n", OTHERS, "--timeout=240s")
    cluster.kubectl("delete", "namespace", OTHERS, "--wait=false")


def test_metrics_are_for_those_whom_the_api_server_lets_read_them(operator: Installation, cluster: RealCluster) -> None:
    pod = cluster.request("GET", f"/api/v1/namespaces/{SYSTEM}/pods/{operator.leader()}")
    address = pod["status"]["podIP"]
    reader = cluster.kubectl("create", "token", "default", "-n", NAMESPACE).stdout.strip()

    def scraped(token: str) -> tuple[int, str]:
        anybody = ssl.create_default_context()
        anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE  # it is self-signed
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        asked = urllib.request.Request(f"https://{address}:8443/metrics", headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=60, context=anybody) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""

    assert scraped("")[0] == 401
    assert scraped(reader)[0] == 403
    role = ("--clusterrole=edgewright-metrics-reader", f"--serviceaccount={NAMESPACE}:default")
    cluster.kubectl("create", "clusterrolebinding", "metrics-of-tests", *role)
    seen = wait_until(lambda: scraped(reader)[1], what="the reader is let in", timeout=PATIENCE)
    assert "workqueue_depth" in seen
    cluster.kubectl("delete", "clusterrolebinding", "metrics-of-tests")


def test_nothing_was_refused_to_us(operator: Installation, cluster: RealCluster) -> None:
    assert refused(cluster.audit_events(), [*cluster.api_away, *operator.with_old_roles]) == []


def test_every_right_was_used_or_is_listed_with_its_reason(operator: Installation, cluster: RealCluster) -> None:
    listed = entries()
    assert len(listed) <= MOST
    assert all(listed.values())
    unseen = sorted(map(str, granted(cluster) - used(cluster.audit_events())))
    assert [right for right in unseen if not any(covers(pattern, right) for pattern in listed)] == []
