"""Drivers: how a device is asked and flashed, one file per protocol, found by the protocol's name."""
