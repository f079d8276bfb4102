"""The rules of ServiceAccounts, which have none beyond those of every object."""

from __future__ import annotations

from edgewright.local.structs.rules import CORE, BuiltinRules


class ServiceAccountRules(BuiltinRules):
    """ServiceAccounts are plain data; their tokens are made by `serving.token_requests`."""

    definition = f"{CORE}.ServiceAccount"
    returns_deleted = True
