"""What people do with kubectl about what runs: logs, Pods, the Services in front of them, and Nodes.

`kubectl_scenarios` puts them together. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.cluster.kubectl_manifests import (
    BARE_POD,
    NODE,
    OF_WEB,
    POD,
    POD_SPEC,
    READY_NODE,
    RESTARTED,
    RUNNING,
    WEB,
    Step,
    Watch,
    nothing,
    program,
    run,
    sorted_lines,
    without_events,
    without_node_controller,
    without_suffix,
)

PROGRAMS: dict[str, Sequence[Step | Watch]] = {
    # logs
    "logs of what does not run": [
        run("create -f -", POD, BARE_POD),
        run("logs bare"),
        run("logs worker"),
        run("logs worker -c side"),
        run("logs worker -c nobody"),
        run("logs worker --all-containers"),
        run("logs nobody"),
        run("logs -l app=a"),
        run("logs gadget/red"),
    ],
    "logs": [
        run("create -f -", program("talker", "echo one; echo two; echo three >&2", "echo from the other")),
        run("wait pod talker --for=jsonpath='{.status.phase}'=Succeeded --timeout=80s"),
        run("logs talker"),
        *(
            run(f"logs talker {options}")
            for options in (
                "-c second",
                "--tail=1",
                "--tail=0",
                "--since=1h",
                "--since-time=2099-01-01T00:00:00Z",
                "--timestamps",
                "--prefix",
                "--limit-bytes=5",
                "-f",
                "-c nobody",
                "--previous",
            )
        ),
        run("logs talker --all-containers --prefix", compared=sorted_lines),
        run("logs -l app=programs --prefix --all-containers", compared=sorted_lines),
        run("logs pod/talker --max-log-requests=1 --all-containers --ignore-errors", compared=sorted_lines),
        run("get pods"),
        run("describe pod talker", compared=sorted_lines),
    ],
    "logs of a container that started again": [
        run(
            "create -f -", program("again", "echo here; test -e /again/x && sleep 600; touch /again/x", policy="Always")
        ),
        run(f"wait pod again --for={RESTARTED} --timeout=80s"),
        run("wait pod again --for=condition=Ready --timeout=80s"),
        run("logs again"),
        run("logs again --previous"),
        run("get pods"),
        run("delete pod again --grace-period=1"),
    ],
    "logs -f": [
        run(
            "create -f -",
            program("slow", "echo one; until test -e /again/x; do sleep 0.1; done; echo two", "sleep 600"),
        ),
        run("wait pod slow --for=condition=Ready --timeout=80s"),
        Watch(arguments=("logs", "-f", "slow", "-c", "first"), before=1, meanwhile=(), after=1),
        run("create -f -", program("counts", "for each in 1 2 3; do echo $each; sleep 0.3; done")),
        run("wait pod counts --for=jsonpath='{.status.containerStatuses[0].state}' --timeout=80s", compared=nothing),
        run("logs -f counts"),
        run("logs -f counts --tail=1 --timestamps"),
        run("logs -f counts --since=1h --limit-bytes=3"),
        run("delete pod slow --grace-period=1"),
    ],
    "a program that waits": [
        run("create -f -", program("sleeper", "echo waiting; exec sleep 600")),
        run("wait pod sleeper --for=condition=Ready --timeout=80s"),
        run("logs sleeper"),
        run("get pods"),
        run("get pods -o wide"),
        run("describe pod sleeper", compared=sorted_lines),
        run("get pod sleeper -o yaml"),
        run("delete pod sleeper --grace-period=1"),
        run("get pods"),
    ],
    "a program that is not there": [
        run("create -f -", program("lost", "true", image="example.com/no/such:1")),
        run("wait pod lost --for=jsonpath='{.status.containerStatuses[0].state.waiting.reason}' --timeout=80s"),
        run("get pods"),
        run("logs lost"),
        run("describe pod lost", compared=sorted_lines),
        run("delete pod lost --grace-period=1"),
    ],
    # Pods that run somewhere
    "a pod that runs": [
        run("create -f -", NODE, {**POD, "spec": {**POD_SPEC, "nodeName": "node-of-NAMESPACE"}}),
        run("patch pod worker --subresource=status -p", argument=RUNNING),
        run("get pods"),
        run("get pods -o wide"),
        run("describe pod worker"),
        run("get pod worker -o yaml"),
        run("wait pod worker --for=condition=Ready --timeout=80s"),
        run("get pods --field-selector spec.nodeName=node-of-NAMESPACE,status.phase=Running -o name"),
        run("set image pod/worker main=example/other"),
        run("set env pod/worker --list"),
        run("get all"),
        run("delete pod worker --wait=false"),
        run("get pods"),
        run("describe pod worker"),
        run("delete pod worker --grace-period=0 --force"),
        run("get pods"),
        run("delete node node-of-NAMESPACE"),
    ],
    "a service with a pod behind it": [
        run("create -f -", WEB, NODE, {**POD, "spec": {**POD_SPEC, "nodeName": "node-of-NAMESPACE"}}),
        run("patch pod worker --subresource=status -p", argument=RUNNING),
        run(f"wait --for=create endpointslice -l {OF_WEB} --timeout=80s", compared=nothing),
        run(
            f"wait endpointslice -l {OF_WEB} --for=jsonpath='{{.endpoints[0].conditions.ready}}'=true --timeout=80s",
            compared=nothing,
        ),
        run("describe service web", compared=without_events),
        run(f"get endpointslices -l {OF_WEB}", compared=without_suffix),
        run(f"get endpointslices -l {OF_WEB} -o yaml", compared=without_suffix),
        run(f"describe endpointslices -l {OF_WEB}", compared=without_suffix),
        run("delete pod worker --grace-period=0 --force"),
        run("delete node node-of-NAMESPACE"),
    ],
    # kinds without a namespace
    "nodes": [
        run("create -f -", NODE),
        run("patch node node-of-NAMESPACE --subresource=status -p", argument=READY_NODE),
        run("cordon node-of-NAMESPACE"),
        run("cordon node-of-NAMESPACE"),
        run("get node node-of-NAMESPACE"),
        run("get node node-of-NAMESPACE -o wide"),
        run("describe node node-of-NAMESPACE", compared=without_node_controller),
        run("uncordon node-of-NAMESPACE"),
        run("taint node node-of-NAMESPACE a=b:NoSchedule"),
        run("taint node node-of-NAMESPACE a-"),
        run("label node node-of-NAMESPACE node-role.kubernetes.io/edge="),
        run("get node node-of-NAMESPACE"),
        run("delete node node-of-NAMESPACE"),
    ],
}
