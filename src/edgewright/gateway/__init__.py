"""What Linux edge devices dial into: the agents' HTTP API over TLS, with their certificates and configurations.

`edgewright gateway` runs it, as many replicas as one likes, without a lease: everything that it writes is conditional.
It reads and writes Kubernetes objects and never talks to a device that has not dialled in.
"""
