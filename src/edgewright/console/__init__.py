"""The REST API for applications, and in time the web page on top of it: custom resources over HTTP, as the caller.

An application sends its own token, and that token's rights count, as with kubectl. One table of operations feeds the
routes, the OpenAPI document and the reference page. Nothing here decides what a controller does.
"""

from edgewright.console.gate import Gate
from edgewright.console.limits import Limits
from edgewright.console.listener import Listener, listen
from edgewright.console.operations import OPERATIONS
from edgewright.console.server import Console, Settings

__all__ = ["OPERATIONS", "Console", "Gate", "Limits", "Listener", "Settings", "listen"]
