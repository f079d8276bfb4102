"""The scripts that start the containers of an indexed mini-cluster, and the lines that start its brokers.

`indexed_manifests` puts them into a ConfigMap. They are plain shell, because an image need not have more. Pieces of
shell that people give stand in them as they are. No script prints the certificate, or any variable. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from edgewright.api.minicluster_container import MiniClusterContainer
from edgewright.controllers.minicluster import broker, curve
from edgewright.controllers.minicluster.model import IndexedCluster

FILES: Final = "/flux_operator"
"""Where the scripts are in every container."""
CERTIFICATE: Final = "/flux_operator_certificate"
"""Where the Secret is in the container that runs Flux."""
SOFTWARE: Final = "/flux_software"
"""Where the init container puts what other containers have as /opt/software."""
COMPLETE: Final = "flux-operator-complete.txt"
"""The file that tells containers next to Flux that it has ended."""
STOPPED: Final = 143
"""The exit code of a lead broker that was told to stop: its Pod comes back, because its command has not ended."""
FANOUT: Final = 256
_PAUSE: Final = 2


def scripts(cluster: IndexedCluster) -> dict[str, str]:
    """All files of the ConfigMap by name."""
    number, runner = cluster.runner
    found = {
        broker.FILE_NAME: cluster.broker,
        "hostlist": cluster.hostfile,
        f"wait-{number}.sh": wait_script(cluster, runner, number),
    }
    if not cluster.serves:
        found[f"lead-{number}.sh"] = lead_script(cluster, runner, number)
    if runner.commands.script.strip():
        found[f"script-{number}.sh"] = _ending_line(runner.commands.script)
    if runner.batch and not cluster.serves:
        found[f"batch-{number}.sh"] = batch_script(cluster, runner)
    if not cluster.spec.flux.container.disable:
        found["flux-init.sh"] = init_script(cluster)
    for at, container in enumerate(cluster.spec.containers):
        if at != number and not container.no_wrap_entrypoint and container.shell:
            found[f"start-{at}.sh"] = start_script(cluster, container)
    for at, service in enumerate(cluster.spec.services):
        if not service.no_wrap_entrypoint and service.command.strip():
            found[f"service-{at}.sh"] = _joined(service.commands.service_pre, service.command)
    return found


def broker_options(cluster: IndexedCluster, *, lead: bool) -> list[str]:
    """What brokers are started with; the lead's waits for the others."""
    flux, logging = cluster.spec.flux, cluster.spec.logging
    mount = flux.container.mount_path
    attributes = {
        **({"tbon.topo": flux.topology} if flux.topology else {"tbon.fanout": str(FANOUT)}),
        "rundir": f"{mount}/run",
        "statedir": f"{mount}/state",
        **({} if flux.disable_socket else {"local-uri": socket_of(cluster)}),
        "tbon.connect_timeout": flux.connect_timeout,
        "log-stderr-level": "7" if logging.debug else "3" if logging.quiet else str(flux.log_level),
        "log-stderr-mode": "local",
        **({"tbon.zmqdebug": "1"} if logging.zeromq else {}),
        **({"broker.quorum": str(cluster.quorum)} if lead else {}),
        **({"broker.rc2_none": "1"} if lead and cluster.serves else {}),
    }
    options = [f"--config-path={mount}/config", *(f"-S{name}={value}" for name, value in attributes.items())]
    wrap = [f"--wrap={flux.wrap}"] if flux.wrap else []
    return [*wrap, *(word for option in options for word in ("-o", option))]


def socket_of(cluster: IndexedCluster) -> str:
    """Where the lead broker serves: `flux proxy` connects to it."""
    return f"local://{cluster.spec.flux.container.mount_path}/run/local"


def wait_script(cluster: IndexedCluster, runner: MiniClusterContainer, number: int) -> str:
    """Starts a broker in the container that runs Flux: sets up, leads or works, and tells the others of the end."""
    commands, logging = runner.commands, cluster.spec.logging
    strict = "set -e" if logging.strict else ""
    lead = ["flux", "start", *broker_options(cluster, lead=True)]
    lead += [] if cluster.serves else ["sh", f"{FILES}/lead-{number}.sh"]
    work = ["flux", "start", *broker_options(cluster, lead=False)]
    again = "false" if cluster.spec.flux.complete_workers else '[ "$code" -ne 0 ]'
    say = ":" if logging.quiet else "echo"
    return _joined(
        "#!/bin/sh",
        strict,
        commands.init,
        _set_up(cluster),
        commands.pre,
        _RUN,
        'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then',
        commands.broker_pre or ":",
        f'{say} "edgewright: the lead broker starts and waits for {cluster.quorum} of {cluster.hostfile.strip()}"',
        "began=$(date +%s)",
        f"run {shlex.join(lead)}",
        'echo "edgewright: flux took $(($(date +%s) - began)) seconds"' if logging.timed else "",
        f'if [ -n "$stopped" ]; then code={STOPPED}; fi',
        "else",
        commands.worker_pre or ":",
        "while :; do",
        f"run {shlex.join(work)}",
        f'if [ -n "$stopped" ] || ! {again}; then break; fi',
        # The lead is not there yet, or was started again: brokers that ask soon make the quorum early.
        f"sleep {_PAUSE}",
        "done",
        "code=0",
        "fi",
        commands.post,
        f'touch "$mount/{COMPLETE}"',
        'exit "$code"',
    )


_RUN: Final = """\
# A broker that is told to stop ends in order; what it ends with is in $code.
broker= stopped= code=0
trap 'stopped=1; if [ -n "$broker" ]; then kill -TERM "$broker" 2>/dev/null; fi' TERM INT
run() {
  if [ -n "$stopped" ]; then return 0; fi
  "$@" &
  broker=$!
  code=0
  wait "$broker" || code=$?
  while kill -0 "$broker" 2>/dev/null; do code=0; wait "$broker" || code=$?; done
  broker=
}"""


def _set_up(cluster: IndexedCluster) -> str:
    """What a broker needs and only its Pod knows: its address, and a certificate that nobody else may read."""
    flux = cluster.spec.flux
    python = flux.container.python_path
    resources = 'flux R encode --hosts="$(cat "$config/hostlist")" --local > "$config/R"'
    return _joined(
        f"mount={flux.container.mount_path}",
        'config="$mount/config"',
        'if [ -d "$mount/view/bin" ]; then PATH="$mount/view/bin:$PATH"; export PATH; fi',
        f"PYTHONPATH={shlex.quote(python)}${{PYTHONPATH:+:$PYTHONPATH}}; export PYTHONPATH" if python else "",
        f'rm -f "$mount/{COMPLETE}"',
        'mkdir -p "$config" "$mount/run" "$mount/state" && chmod 700 "$mount/run" "$mount/state"',
        f'(umask 077 && rm -f "$config/{curve.FILE_NAME}" &&'
        f' cat {CERTIFICATE}/{curve.FILE_NAME} > "$config/{curve.FILE_NAME}")',
        f'sed "s/{broker.POD_IP}/$POD_IP/g" {FILES}/{broker.FILE_NAME} > "$config/{broker.FILE_NAME}"',
        f'cat {FILES}/hostlist > "$config/hostlist"',
        resources if not flux.broker_config else f"if ! [ -e $config/R ]; then {resources}; fi",
        'cat > "$mount/flux-view.sh" <<EOF',
        'export PATH="$mount/view/bin:\\$PATH"',
        f'export fluxsocket="{socket_of(cluster)}" FLUX_URI="{socket_of(cluster)}"',
        "EOF",
    )


def lead_script(cluster: IndexedCluster, runner: MiniClusterContainer, number: int) -> str:
    """What the lead broker runs: the command itself, or what submits it and waits for its end."""
    prefix = f"{runner.commands.prefix.strip()} " if runner.commands.prefix.strip() else ""
    folder = f"mkdir -p {shlex.quote(runner.logs)}" if runner.logs else ""
    command = runner.command.strip()
    copied = ""
    if runner.commands.script.strip():
        mount = cluster.spec.flux.container.mount_path
        command = f"{mount}/script-{number}.sh"
        copied = f"cat {FILES}/script-{number}.sh > {command} && chmod 700 {command}"
    if runner.batch:
        output = f" --output={shlex.quote(runner.logs)}/flux-batch.out" if runner.logs else ""
        flags = _flags(cluster)
        submitted = f"{prefix}flux batch --flags=waitable{flags}{output} {FILES}/batch-{number}.sh"
        return _joined("#!/bin/sh", folder, f"{submitted} && flux job wait --all")
    if runner.launcher:
        return _joined("#!/bin/sh", folder, copied, f"{prefix}{command}")
    return _joined("#!/bin/sh", folder, copied, f"{prefix}{submit_line(cluster)} {command}")


def submit_line(cluster: IndexedCluster) -> str:
    """What submits the command."""
    verbose = " -vvv" if cluster.spec.logging.debug else " --quiet"
    return f"{cluster.spec.flux.submit_command or 'flux submit'}{_flags(cluster)}{verbose} --watch"


def _flags(cluster: IndexedCluster) -> str:
    """Nodes, tasks and what people add. A job cannot have fewer tasks than nodes."""
    nodes = f" -N {cluster.first_size}" if cluster.first_size > 1 and cluster.spec.tasks >= cluster.first_size else ""
    more = f" {cluster.spec.flux.option_flags.strip()}" if cluster.spec.flux.option_flags.strip() else ""
    return f"{nodes} -n {cluster.spec.tasks}{more}"


def batch_script(cluster: IndexedCluster, runner: MiniClusterContainer) -> str:
    """The jobs of a batch: each line of the command is one, unless people submit them themselves."""
    lines = [line for line in runner.command.splitlines() if line.strip()]
    if not runner.batch_raw:
        submit = f"{cluster.spec.flux.submit_command or 'flux submit'} --flags=waitable"
        lines = [f"{submit}{_output(runner, at)} {line.strip()}" for at, line in enumerate(lines)]
        lines.append("flux job wait --all")
    return _joined("#!/bin/sh", *lines)


def _output(runner: MiniClusterContainer, number: int) -> str:
    return f" --output={shlex.quote(runner.logs)}/job-{number}.out" if runner.logs else ""


def init_script(cluster: IndexedCluster) -> str:
    """Brings Flux into the Pod: it is copied from the image that has it to where all containers see it."""
    mount = cluster.spec.flux.container.mount_path
    return _joined(
        "#!/bin/sh",
        "set -e",
        f"mkdir -p {mount}/view",
        f"if [ -d /opt/view ]; then cp -R /opt/view/. {mount}/view/; fi",
        f"if [ -d /opt/software ]; then cp -R /opt/software/. {SOFTWARE}/; fi",
    )


def start_script(cluster: IndexedCluster, container: MiniClusterContainer) -> str:
    """Starts a container next to Flux, which ends with it: a Pod has ended when all of its containers have."""
    flux = cluster.spec.flux
    ready = f"while [ ! -e {flux.container.mount_path}/flux-view.sh ]; do sleep 1; done"
    return _joined(
        "#!/bin/sh",
        container.commands.init,
        f"mount={flux.container.mount_path}",
        "" if flux.no_wait_socket else ready,
        'if [ -d "$mount/view/bin" ]; then PATH="$mount/view/bin:$PATH"; export PATH; fi',
        container.commands.pre,
        "main() {",
        container.shell,
        "}",
        "main &",
        "child=$!",
        "trap 'kill -TERM \"$child\" 2>/dev/null; exit 0' TERM INT",
        'while kill -0 "$child" 2>/dev/null; do',
        f'if [ -e "$mount/{COMPLETE}" ]; then kill -TERM "$child" 2>/dev/null; exit 0; fi',
        "sleep 1",
        "done",
        'wait "$child"',
        "code=$?",
        container.commands.post,
        'exit "$code"',
    )


def _joined(*pieces: str) -> str:
    return "\n".join(_lines(pieces)) + "\n"


def _lines(pieces: tuple[str, ...]) -> Iterator[str]:
    for piece in pieces:
        if piece.strip():
            yield piece.rstrip("\n")


def _ending_line(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
