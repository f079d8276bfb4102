"""Custom kinds: the rules of CustomResourceDefinition, the kinds that definitions bring, and what follows them."""

from edgewright.local.custom.crd_controller import Definitions
from edgewright.local.custom.definition import definition_rules
from edgewright.local.custom.kinds import CustomRules, served

__all__ = ["CustomRules", "Definitions", "definition_rules", "served"]
