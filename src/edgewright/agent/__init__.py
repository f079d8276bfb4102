"""The program on a Linux edge device: it registers, sends heartbeats, and runs the workloads that the gateway names.

`edgewright agent` runs `Agent`. It speaks to the gateway, to podman on the same machine and to an S3 bucket, and never
to Kubernetes. It touches no pod, secret or firewall rule that is not its own.
"""

from edgewright.agent.agent import Agent
from edgewright.agent.settings import Settings, load

__all__ = ["Agent", "Settings", "load"]
