"""Who may in, and how one gets in: the control plane's own authority, its users, and the kubeconfigs that name them.

`control_plane` puts these together. Who somebody is says `authentication`, what they may do `authorization`. Nothing
here opens a port.
"""

from edgewright.local.access.authentication import ADMINISTRATOR, ANONYMOUS, Authentication, User, user_of_connection
from edgewright.local.access.authority import Authority, Identity, client_tls, serving_names, serving_tls
from edgewright.local.access.entrance import Entrance

__all__ = [
    "ADMINISTRATOR",
    "ANONYMOUS",
    "Authentication",
    "Authority",
    "Entrance",
    "Identity",
    "User",
    "client_tls",
    "serving_names",
    "serving_tls",
    "user_of_connection",
]
