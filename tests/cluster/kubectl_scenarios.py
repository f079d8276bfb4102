"""What people do with kubectl, command by command; `test_kubectl_equal` runs it.

A scenario begins in an empty namespace, named alike on both servers, and its steps build on one another.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.cluster.kubectl_changes import CHANGES
from tests.cluster.kubectl_manifests import Step, Watch
from tests.cluster.kubectl_programs import PROGRAMS
from tests.cluster.kubectl_reads import READS

SCENARIOS: dict[str, Sequence[Step | Watch]] = {**READS, **CHANGES, **PROGRAMS}
