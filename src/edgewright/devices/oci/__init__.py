"""Firmware from an OCI registry: pulling with credentials, picking the file for a device, checking signatures.

The flasher calls `pull`; references themselves are read by `edgewright.api.reference`.
"""

from edgewright.devices.oci.access import Access, BadCredentials, Credentials, Login, read_dockerconfig
from edgewright.devices.oci.limits import Limits
from edgewright.devices.oci.pull import pull

__all__ = ["Access", "BadCredentials", "Credentials", "Limits", "Login", "pull", "read_dockerconfig"]
