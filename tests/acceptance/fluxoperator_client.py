"""What people do with PyPI's `fluxoperator`: creates a MiniCluster, waits for its Pods, follows its output, deletes it.

`test_minicluster` runs it as a program: NAMESPACE IMAGE FILE. The object is built from the client's models and sent as
its documentation does it: `FluxMiniCluster.create` of 0.2.0 gives its own model a field that it does not know, and
ends with a TypeError before it sends anything.
"""

from __future__ import annotations

import sys
from typing import Any

from fluxoperator import models
from fluxoperator.api_client import ApiClient
from fluxoperator.client import FluxMiniCluster
from kubernetes import client, config


def main(namespace: str, image: str, file: str) -> None:
    """The program."""
    config.load_kube_config()
    container = models.MiniClusterContainer(image=image, command="sh -c 'sleep 1; echo hello world'", run_flux=True)
    asked = models.MiniCluster(
        kind="MiniCluster",
        api_version="flux-framework.org/v1alpha2",
        metadata={"name": "from-pypi", "namespace": namespace},
        spec=models.MiniClusterSpec(
            size=2,
            tasks=1,
            containers=[container],
            logging=models.LoggingSpec(quiet=True),
            flux=models.FluxSpec(connect_timeout="5s", option_flags=""),
        ),
    )
    body: dict[str, Any] = ApiClient().sanitize_for_serialization(asked)
    made: Any = client.CustomObjectsApi().create_namespaced_custom_object(
        group="flux-framework.org", version="v1alpha2", namespace=namespace, plural="miniclusters", body=body
    )
    cluster = FluxMiniCluster()
    cluster.load(made)
    cluster.stream_output(file, stdout=False)
    cluster.delete()
    print("deleted")


if __name__ == "__main__":
    main(*sys.argv[1:])
