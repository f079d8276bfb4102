"""The controller of FirmwareRollouts: which devices are in which batch, when a batch opens, and when all stops.

`loop` is what the operator adds; `decisions` is the pure part.
"""
