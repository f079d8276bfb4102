"""API servers for tests, the real one and ours: processes that die with the test, and a proxy that misbehaves.

The public face of the harness: fixtures in `tests/cluster`, tests and benchmarks import from here. It touches nothing
outside its own directories, processes and loopback ports.
"""

from .apiserver import ApiServer, KubectlError, RequestError
from .certificates import Authority, Certificate, TokenKey
from .controlplane import ControlPlane
from .localplane import LocalPlane
from .processes import PortTakenError, Process, ProcessError, free_port
from .programs import NODE, NotBuiltError
from .proxy import Proxy
from .waiting import WaitError, wait_until, wait_until_async

__all__ = [
    "NODE",
    "ApiServer",
    "Authority",
    "Certificate",
    "ControlPlane",
    "KubectlError",
    "LocalPlane",
    "NotBuiltError",
    "PortTakenError",
    "Process",
    "ProcessError",
    "Proxy",
    "RequestError",
    "TokenKey",
    "WaitError",
    "free_port",
    "wait_until",
    "wait_until_async",
]
