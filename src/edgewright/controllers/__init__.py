"""What keeps the declared state: one package a kind, put together by `operator`.

Controllers read caches, decide with pure functions and write to the API server. They never open a socket to a device:
that is what the Pods do that they make.
"""
