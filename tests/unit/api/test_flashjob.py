"""FlashJob's spec: what counts where a field is absent, said once and told by everybody who tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewright.api.crd import custom_resource_definition
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.api.reference import Reference
from edgewright.devices.flasher.environment import Order, Target, WantedFirmware

ABSENT = {
    "maxConcurrent": FlashJobSpec().concurrency,
    "timeoutSeconds": FlashJobSpec().timeout,
    "retries": FlashJobSpec().attempts - 1,
    "discoveryTimeoutSeconds": FlashJobSpec().discovery_timeout,
    "tlsSecretName": FlashJobSpec().tls_secret,
}
FLEET = Path(__file__).parents[3] / "docs" / "howto-flash-a-fleet.md"


@pytest.mark.parametrize(("name", "value"), ABSENT.items())
def test_what_counts_where_a_field_is_absent_is_what_the_schema_and_the_docs_say(name: str, value: int | str) -> None:
    spec = custom_resource_definition(FlashJob)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
        "spec"
    ]
    assert spec["properties"][name]["description"].endswith(f"; {value} where it is absent.")
    (row,) = [line for line in FLEET.read_text().splitlines() if line.startswith(f"| `{name}`")]
    assert row.strip(" |").rpartition("| ")[2].strip("`") == str(value)


def test_what_a_spec_says_counts() -> None:
    said = FlashJobSpec(
        max_concurrent=3, timeout_seconds=1, retries=0, discovery_timeout_seconds=0, tls_secret_name="mine"
    )
    assert (said.concurrency, said.timeout, said.attempts, said.discovery_timeout) == (3, 1, 1, 0)
    assert said.tls_secret == "mine"
    order = Order(
        firmware=WantedFirmware(reference=Reference(host="h", repository="r"), version="1"), target=Target(endpoint="e")
    )
    assert order.timeout == ABSENT["timeoutSeconds"]
