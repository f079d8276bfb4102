"""One object in one pass: what its release is to be, and how it is looked after. Plain data for `controller`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from edgewright.controllers.chart.digests import text_digest
from edgewright.controllers.chart.objects import ChartObject
from edgewright.controllers.chart.policy import Policy
from edgewright.controllers.chart.releases import labels_of, release_name
from edgewright.controllers.chart.states import Wanted


@dataclass(frozen=True, kw_only=True)
class Task:
    """An object, its policy, and the values of its release."""

    obj: ChartObject
    policy: Policy
    values: dict[str, Any]
    wanted: Wanted

    @property
    def release(self) -> str:
        """The release's name."""
        return release_name(self.obj.metadata.name)

    @property
    def generation(self) -> int:
        """Which state of the object this is about."""
        return self.obj.metadata.generation

    @property
    def retry(self) -> str:
        """A digest of the request to try again; empty where there is none."""
        return text_digest(self.policy.retry) if self.policy.retry else ""

    def labels(self, version: int) -> dict[str, str]:
        """What a revision is labelled with that is made now."""
        return labels_of(
            version,
            chart=self.wanted.chart,
            values=self.wanted.values,
            retry=self.retry,
            sources=bool(self.policy.values_from),
        )

    def on(self, obj: ChartObject) -> Task:
        """The same on the object as it was written last."""
        return replace(self, obj=obj)
