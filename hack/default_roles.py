"""Writes the roles and bindings that a cluster has from the start: `python hack/default_roles.py [--check]`.

They are read from a real API server, which makes them itself. Those for controllers and parts of Kubernetes that the
embedded control plane does not have are left out. The file has one object a line.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.harness import ControlPlane  # noqa: E402  only the repository's root makes it importable

FILE = ROOT / "src" / "edgewright" / "local" / "access" / "default_roles.json"
ROLES = (
    "admin",
    "cluster-admin",
    "edit",
    "system:aggregate-to-admin",
    "system:aggregate-to-edit",
    "system:aggregate-to-view",
    "system:auth-delegator",
    "system:basic-user",
    "system:discovery",
    "system:monitoring",
    "system:node",
    "system:public-info-viewer",
    "system:service-account-issuer-discovery",
    "view",
)
_API = "/apis/rbac.authorization.k8s.io/v1"


def kept(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    """An object without what the server added when it was stored."""
    about = {key: obj["metadata"][key] for key in ("annotations", "labels", "name") if key in obj["metadata"]}
    rest = {key: value for key, value in obj.items() if key != "metadata" and value is not None}
    if "aggregationRule" in obj:
        rest.pop("rules", None)  # these come from a controller
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": about, **rest}


def objects(control_plane: ControlPlane) -> list[dict[str, Any]]:
    """The roles that are chosen, and the bindings that give them."""
    roles = control_plane.request("GET", f"{_API}/clusterroles")["items"]
    bindings = control_plane.request("GET", f"{_API}/clusterrolebindings")["items"]
    chosen = [kept(each, "ClusterRole") for each in roles if each["metadata"]["name"] in ROLES]
    given = [kept(each, "ClusterRoleBinding") for each in bindings if each["metadata"]["name"] in ROLES]
    if missing := set(ROLES) - {each["metadata"]["name"] for each in chosen}:
        raise SystemExit(f"this API server has no role {', '.join(sorted(missing))}")
    return chosen + given


def main() -> int:
    """Writes the file, or says that it is not as it would be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, and fail where the file would change")
    check = parser.parse_args().check
    with ControlPlane() as control_plane:
        lines = [json.dumps(each, sort_keys=True, separators=(",", ":")) for each in objects(control_plane)]
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    if not check:
        FILE.write_text(text, encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != text:
        print(f"{FILE.relative_to(ROOT)} differs: run `python hack/default_roles.py`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
