"""Devices and services that are not there: for the demo, for tests, and for trying things out."""
