"""Everything that speaks to or for a device: drivers, the flasher program, firmware, attestation, simulated devices.

Nothing in this room talks to Kubernetes: it gets and returns plain structs.
"""
