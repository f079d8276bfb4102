"""Flux mini-clusters: brokers as workers, a launcher that runs one command in them, and what becomes of it.

`model` turns a Flux and its FluxSetup into one MiniCluster, `decisions` says what is to be done for it, `manifests`
builds its objects and `loop` carries it out. The operator adds it with `add_miniclusters`.
"""
