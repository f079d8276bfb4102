"""The rules in a schema: expressions in CEL that must hold for the values they are written at.

`Compiled.validate` asks the tree that `tree` grows, and the validation of CustomResourceDefinitions asks `faulty`.
Values are given to the rules as their schemas type them; no rule can change anything.
"""

from edgewright.local.schema.rules.evaluation import Tree, tree
from edgewright.local.schema.rules.rule_checks import faulty

__all__ = ["Tree", "faulty", "tree"]
