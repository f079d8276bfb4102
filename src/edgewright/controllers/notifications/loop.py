"""The loop that tells: writes what is new into the outbox of a rollout, sends what is in it, and takes that out again.

`operator` adds it where a webhook is configured. It is a controller next to the one of rollouts, with workers and a
queue of its own: a receiver that is slow or away holds up notifications and nothing else. Only the leader sends. What
was sent just before a process died is sent again by the next one, under the same id.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta

from edgewright.api.firmwarerollout import NOTIFICATIONS_ANNOTATION, FirmwareRollout
from edgewright.controllers.ledger import Ledger
from edgewright.controllers.notifications.delivery import Delivery, NotDelivered
from edgewright.controllers.notifications.messages import cloud_event
from edgewright.controllers.notifications.metrics import NotificationMetrics
from edgewright.controllers.notifications.outbox import Outbox, advance, outbox_of, without, written
from edgewright.controllers.notifications.transitions import Notice, notice_id
from edgewright.controllers.notifications.webhook import Webhook
from edgewright.runtime import logs
from edgewright.runtime.backoff import Backoff
from edgewright.runtime.clock import Clock
from edgewright.runtime.controller import Controller, For, Result, requeue_after
from edgewright.runtime.errors import LeaseLost, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from edgewright.runtime.predicates import anything

_log = logs.get("controllers.notifications")


@dataclass
class _Attempts:
    """What this process remembers of a notice between passes; nothing of it is needed by the next process."""

    id: str
    backoff: Backoff
    not_before: float = 0.0
    delivered: bool = False
    """It was taken, and that could not be written down yet: it is not sent again for that."""


@dataclass
class Notifications:
    """Tells a receiver of what happens to rollouts."""

    manager: Manager
    webhook: Webhook
    clock: Clock
    delivery: Delivery
    random: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self.rollouts = self.manager.cache(FirmwareRollout)
        self.metrics = NotificationMetrics(
            self.manager.metrics.registry, rollouts=self.rollouts, leading=lambda: self.manager.leads
        )
        self._api = self.manager.client.of(FirmwareRollout)
        self._written = Ledger(self.rollouts)
        self._attempts: dict[Key, _Attempts] = {}
        self._stopping = False
        self.manager.at_stop(self._stop)

    async def reconcile(self, key: Key) -> Result | None:
        """One pass over a rollout."""
        rollout = self._written.get(key)
        if rollout is None or rollout.deleting:
            self._attempts.pop(key, None)
            return None
        before = outbox_of(rollout)
        after = advance(rollout, before, self.clock.now(), give_up=self.webhook.give_up)
        if after != before:
            rollout = await self._write(rollout, after)
            self.metrics.dropped(sum(each not in after.pending for each in before.pending))
        return await self._send(rollout, after)

    async def _send(self, rollout: FirmwareRollout, outbox: Outbox) -> Result | None:
        """Sends what waits, in order, until one fails."""
        while outbox.pending and not self._stopping:
            notice = outbox.pending[0]
            attempts = self._attempts_at(rollout, notice)
            wait = attempts.not_before - self.clock.elapsed()
            if wait > 0:
                return requeue_after(wait)
            if not attempts.delivered and not await self._deliver(rollout, notice, attempts):
                if self.clock.now() - notice.time <= timedelta(seconds=self.webhook.give_up):
                    return requeue_after(max(0.0, attempts.not_before - self.clock.elapsed()))
                self._drop(rollout, notice)
            outbox = without(outbox, notice)
            rollout = await self._write(rollout, outbox)
        self._attempts.pop(rollout.key, None)
        return None

    async def _deliver(self, rollout: FirmwareRollout, notice: Notice, attempts: _Attempts) -> bool:
        """Tries once; whether the receiver has taken it."""
        about = {"rollout": str(rollout.key), "type": notice.state.type.value, "id": attempts.id}
        try:
            await self.delivery.send(attempts.id, cloud_event(rollout, notice), check=self._lead)
        except NotDelivered as error:
            self.metrics.failed()
            wait = attempts.backoff.next()
            attempts.not_before = self.clock.elapsed() + wait
            _log.warning("webhook not delivered", **about, error=str(error), retry_after_seconds=round(wait, 1))
            return False
        attempts.delivered = True
        self.metrics.delivered()
        _log.info("webhook delivered", **about, host=self.delivery.target.authority)
        return True

    def _drop(self, rollout: FirmwareRollout, notice: Notice) -> None:
        """Says that nobody was told."""
        self.metrics.dropped()
        what = f"the webhook of {notice.state.type.value} at {notice.time:%Y-%m-%d %H:%M} UTC"
        message = f"{what} was not delivered within {self.webhook.give_up:g} s, and is given up"
        self.manager.recorder.record(rollout, "Warning", "WebhookDropped", message)

    async def _write(self, rollout: FirmwareRollout, outbox: Outbox) -> FirmwareRollout:
        """Writes the outbox down, unless somebody changed the rollout since."""
        metadata = rollout.metadata
        change = {"metadata": {"annotations": {NOTIFICATIONS_ANNOTATION: written(outbox)}}}
        try:
            return self._written.wrote(
                await self._api.patch(rollout.key, change, resource_version=metadata.resource_version, uid=metadata.uid)
            )
        except NotFound:
            return rollout  # deleted meanwhile: the watch is about to tell

    def _attempts_at(self, rollout: FirmwareRollout, notice: Notice) -> _Attempts:
        known, id_ = self._attempts.get(rollout.key), notice_id(rollout.metadata.uid, notice)
        if known is None or known.id != id_:
            backoff = Backoff(base=self.webhook.first_retry, cap=self.webhook.longest_retry, rng=self.random)
            known = self._attempts[rollout.key] = _Attempts(id_, backoff)
        return known

    def _lead(self) -> None:
        if not self.manager.leads:
            raise LeaseLost("this process does not lead any more")

    def _stop(self) -> None:
        self._stopping = True


def add_notifications(
    manager: Manager, webhook: Webhook, clock: Clock, *, delivery: Delivery | None = None
) -> Controller:
    """Adds the loop that tells a receiver of rollouts to the manager."""
    notifications = Notifications(manager, webhook, clock, delivery or Delivery(webhook, clock))
    return manager.controller(
        "notification",
        notifications.reconcile,
        For(notifications.rollouts, when=anything),
        workers=2,
        deadline=120.0,
    )
