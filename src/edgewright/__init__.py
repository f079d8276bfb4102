"""Edgewright keeps fleets of edge devices in the state that people declare."""

__version__ = "0.2.0"
