"""What every staged change has in common: amounts, steps, gates and the threshold of failures; pure.

FirmwareRollouts (`rollout`) and changed workloads of edge devices (`edgeworkload`) are decided with it. It knows
neither kind, reads no clock and writes nothing.
"""
