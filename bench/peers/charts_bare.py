"""The limit of what a chart operator can reach: a bare loop over Helm's library with as many threads, and no more.

`bench/charts.py` runs it as a process: KUBECONFIG NAMESPACE CHART COUNT THREADS. It installs as many releases and ends
with a line of JSON: how long it took, and the CPU time of this process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import helm_python
from helm_python import _native


def main() -> None:
    kubeconfig, namespace, chart, count, threads = sys.argv[1:]
    config = helm_python.Config(kubeconfig_path=kubeconfig, namespace=namespace)
    options = json.dumps({"namespace": namespace, "timeout_seconds": 300, "force_conflicts": True})

    def install(number: int) -> None:
        none = _native.HANDLE(0)
        _native.call_string("helm_install", config._raw(), none, none, chart, f"bench-{number}", "{}", options)  # noqa: SLF001

    began = time.monotonic()
    with ThreadPoolExecutor(int(threads)) as pool:
        list(pool.map(install, range(int(count))))
    seconds = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": seconds, "cpu": used.ru_utime + used.ru_stime}))


if __name__ == "__main__":
    main()
