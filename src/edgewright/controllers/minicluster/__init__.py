"""Flux mini-clusters: brokers on several Pods, one command that runs in them, and what becomes of it.

`conversion` turns a Flux with its FluxSetup, or a MiniCluster, into one model; decisions say what is to be done for it,
manifests build its objects, and `loop` carries it out. The operator adds it with `add_miniclusters`.
"""
