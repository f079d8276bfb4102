"""All exchanges by the name under which the real server's outcome is recorded."""

from __future__ import annotations

from tests.unit.local.builtin import (
    plain_exchanges,
    pod_exchanges,
    service_exchanges,
    volume_exchanges,
    workload_exchanges,
)
from tests.unit.local.builtin.exchanges import Exchange

EXCHANGES: dict[str, Exchange] = {
    f"{table}: {title}": exchange
    for table, exchanges in {
        "config map": plain_exchanges.CONFIG_MAPS,
        "secret": plain_exchanges.SECRETS,
        "event": plain_exchanges.EVENTS,
        "endpoint slice": plain_exchanges.SLICES,
        "other": plain_exchanges.OTHERS,
        "pod": pod_exchanges.SPECS,
        "volume": volume_exchanges.VOLUMES,
        "change of a pod": pod_exchanges.CHANGES,
        "pod template": pod_exchanges.TEMPLATES,
        "service": service_exchanges.NEW,
        "change of a service": service_exchanges.CHANGES,
        "deployment": workload_exchanges.DEPLOYMENTS,
        "replica set": workload_exchanges.REPLICA_SETS,
        "stateful set": workload_exchanges.STATEFUL_SETS,
        "daemon set": workload_exchanges.DAEMON_SETS,
        "controller revision": workload_exchanges.REVISIONS,
        "job": workload_exchanges.JOBS,
        "cron job": workload_exchanges.CRON_JOBS,
        "budget": workload_exchanges.BUDGETS,
        "claim": workload_exchanges.CLAIMS,
    }.items()
    for title, exchange in exchanges.items()
}
