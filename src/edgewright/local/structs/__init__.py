"""Objects as Go's structs hold them: the fields of Kubernetes' own types, their values, and rules for such kinds.

Built-in kinds and CustomResourceDefinition are such kinds; `builtin` and `custom` build on it and not on each other.
"""
