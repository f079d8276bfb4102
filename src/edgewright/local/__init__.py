"""The embedded control plane: a Kubernetes API in one process. It serves any CRD and knows nothing of our own kinds."""
