"""The node: runs Pods as processes of one machine or as containers of podman, for any Kubernetes API server.

`node.Node` is the program; `addresses` hands out the addresses of Pods. It speaks only the Kubernetes API and knows
neither the embedded API server nor Services. What would reach out of a Pod is refused (`refusals`); what only cgroups
could hold (requests and limits, sizes of volumes) is not enforced for processes; lifecycle hooks are not offered.
"""
