"""Drivers: how a device is asked and flashed, one file a protocol, found by the protocol's name."""
