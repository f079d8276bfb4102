"""Helm as a library in a process of its own: one action, told as JSON in the first argument, answered as JSON.

The tests of the chart start it, because what Go does to the signals and threads of a process is not for pytest's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def helm(verb: str, *, fails: bool = False, **asked: Any) -> Any:
    """What Helm says to one action in a process of its own, or why it fails."""
    done = subprocess.run(
        # Helm names its field manager after the program: so it is the one that the helm program has.
        [Path(sys.executable).parent / "helm", Path(__file__), json.dumps({"verb": verb, "values": {}, **asked})],
        executable=sys.executable,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode != 0) is fails, done.stderr
    return done.stderr if fails else json.loads(done.stdout.splitlines()[-1])


def main(asked: dict[str, Any]) -> Any:
    """What Helm says."""
    helm, verb = import_module("helm_python"), asked.pop("verb")
    native = import_module("helm_python._native")
    if verb == "lint":
        return import_module("helm_python.chart").lint(asked["chart"])
    if verb == "render":
        with helm.Chart.load(asked["chart"]) as chart:
            options = {"name": asked["release"], "namespace": asked["namespace"]}
            return json.loads(
                native.call_string("helm_render", chart._raw(), json.dumps(asked["values"]), json.dumps(options))
            )
    config = helm.Config(kubeconfig_path=asked.pop("kubeconfig"), namespace=asked["namespace"])
    if verb in {"install", "upgrade"}:
        options = {"namespace": asked["namespace"], "timeout_seconds": 120}
        options |= {"create_namespace": True} if verb == "install" else {"reset_values": True}
        none = native.HANDLE(0)
        text = native.call_string(
            f"helm_{verb}",
            config._raw(),
            none,
            none,
            asked["chart"],
            asked["release"],
            json.dumps(asked["values"]),
            json.dumps(options),
        )
        return json.loads(text)
    if verb == "rollback":
        return config.rollback(asked["release"], version=asked["version"], timeout=120)
    if verb == "list":
        return config.list()
    if verb == "history":
        return config.history(asked["release"])
    return config.uninstall(asked["release"], timeout=120)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
