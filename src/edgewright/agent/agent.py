"""The agent itself: registers, polls, applies, uploads and sends heartbeats, each in a loop that outlives its failures.

`edgewright agent` runs it. Workloads start from the last configuration on the disk before the gateway is asked for
anything, and go on when the agent ends; only the gateway's `disconnect` removes them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from edgewright.agent import hardware, upgrade
from edgewright.agent.access import Access
from edgewright.agent.downloads import Downloader
from edgewright.agent.events import Events
from edgewright.agent.firewall import Firewall, Nftables, NoFirewall
from edgewright.agent.heartbeat import compose, hardware_to_send, heartbeat_settings
from edgewright.agent.identity import Identity
from edgewright.agent.metrics import Metrics, transferred
from edgewright.agent.mounts import Mounts
from edgewright.agent.registration import NotRegistered, Registrar
from edgewright.agent.s3 import Bucket, S3Bucket
from edgewright.agent.settings import Settings
from edgewright.agent.state import State
from edgewright.agent.surroundings import Surroundings
from edgewright.agent.syslog import Syslog
from edgewright.agent.system_updates import SystemUpdates
from edgewright.agent.uplink import CertificateRefused, ClosedWithoutAnswer, GatewayUnavailable, Reply, Uplink
from edgewright.agent.uploads import Uploader, workloads_by_name
from edgewright.agent.workloads import Workloads
from edgewright.api.edge_hardware import HardwareInfo
from edgewright.api.edge_protocol import (
    Command,
    DeviceConfigurationMessage,
    Directive,
    S3Configuration,
    UpgradeStatus,
)
from edgewright.containers import ContainersError, Podman
from edgewright.runtime import logs
from edgewright.runtime.backoff import Backoff
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.tls import ConfigError

_log = logs.get("agent")

MONITORING_SECONDS: Final = 15.0
"""How often workloads are looked at where the configuration does not say."""
_RENEWAL_CHECK: Final = 3600.0
_SPREAD: Final = 0.2
_CLOSED_IN_A_ROW: Final = 4
_LONG_POLL_PAUSE: Final = 0.5
_LEAST_PERIOD: Final = 1.0
"""Seconds between two heartbeats, whatever happens."""


class Disconnected(Exception):
    """The gateway has told the device to go."""


class Agent:
    """The agent of one device."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        podman: Podman | None = None,
        firewall: Firewall | None = None,
        bucket: Callable[[S3Configuration], Bucket] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()  # noqa: S311 - it spreads requests
        self.state = State(settings.state)
        self._beat = asyncio.Event()
        self.events = Events(on_news=self._beat.set)
        self._podman = podman or Podman(Path(settings.podman_socket))
        self._firewall = firewall or (Nftables() if settings.firewall == "nftables" else NoFirewall())
        self._bucket = bucket or partial(S3Bucket, clock=self._clock, plain_http=settings.s3_plain_http)
        self._configuration = DeviceConfigurationMessage(device_id=settings.client_id)
        self._etag = ""
        self._applied = ""
        self._statuses: dict[str, str] = {}
        self._known_hardware: HardwareInfo | None = None
        self._identity: Identity | None = None
        self._renewal_spread = self._rng.random()
        self._long_poll = False
        self._closed = 0
        self._heard = False
        self._access = Access(settings, self._podman, self._current)
        self._trial: upgrade.Trial | None = None
        self._registered = asyncio.Event()
        self._refused = asyncio.Event()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Runs until it is cancelled, or until the gateway disconnects the device."""
        self.state.lock()
        self._trial = upgrade.own(self.state)
        uplink = Uplink(self._settings, self._clock)
        try:
            self._present_registration(uplink)
            self._restore()
            uploader = Uploader(self.state, self.events, self._clock, bucket=self._bucket)
            downloader = Downloader(self.state, self.events, bucket=self._bucket)
            system = SystemUpdates(self._settings.os_hook, state=self.state, events=self.events, clock=self._clock)
            shared = Surroundings(
                device=self._settings.client_id,
                podman=self._podman,
                state=self.state,
                events=self.events,
                clock=self._clock,
                rng=self._rng,
            )
            syslog = Syslog(shared)
            metrics = Metrics(shared, transfer=lambda: transferred(uploader, downloader))
            workloads = Workloads(shared, firewall=self._firewall, probation=self._settings.probation_seconds)
            try:
                async with asyncio.TaskGroup() as group:
                    for loop in (
                        self._run_workloads(workloads, uploader),
                        self._transfer(uploader, downloader),
                        syslog.run(self._current),
                        metrics.run(self._current),
                        system.run(self._current),
                        self._end_trial(),
                        self._stay_registered(uplink),
                        self._poll(uplink),
                        self._answer_requests(uplink),
                        self._send_heartbeats(uplink, workloads, uploader, system),
                    ):
                        group.create_task(loop)
            except* Disconnected:
                await self._leave(workloads, uploader)
        finally:
            await uplink.close()
            self.state.unlock()

    def _present_registration(self, uplink: Uplink) -> None:
        """Reads the registration certificate; a device that is registered does its work without."""
        try:
            uplink.present_registration()
        except ConfigError as error:
            if self.state.identity() is None:
                raise
            _log.warning("the registration certificate cannot be used; a new registration would need it", error=error)

    def _current(self) -> DeviceConfigurationMessage:
        return self._configuration

    def _restore(self) -> None:
        """Takes up the last configuration: a device that boots without a network does its work."""
        content = self.state.configuration()
        if content is None:
            return
        try:
            self._configuration = msgspec.json.decode(content, type=DeviceConfigurationMessage)
        except msgspec.MsgspecError as error:
            _log.warning("the configuration on the disk cannot be read: waiting for a new one", error=error)
        else:
            self._changed.set()

    # --- workloads and data ------------------------------------------------------------------------------------------

    async def _run_workloads(self, workloads: Workloads, uploader: Uploader) -> None:
        """Keeps the device as the configuration says; at once after a change, else every few seconds."""
        if self.state.configuration() is None:
            await self._changed.wait()  # a device that was never told anything has nothing to run or to remove
        backoff, mounts = self._backoff(cap=60.0), Mounts(self.events)
        while True:
            self._changed.clear()
            configuration = self._configuration
            try:
                uploader.expect(configuration.workloads or ())
                await mounts.apply(configuration)
                await workloads.apply(configuration)
            except ContainersError as error:
                self.events.problem("podman", reason="PodmanUnavailable", message=str(error))
                pause = backoff.next()
            except OSError as error:
                self.events.problem("disk", reason="DiskFailed", message=f"{error.filename}: {error.strerror or error}")
                pause = backoff.next()
            else:
                self.events.solved("podman", reason="PodmanAvailable", message="podman answers again")
                self.events.solved("disk", reason="DiskWorks", message="the state directory can be written again")
                backoff.reset()
                if configuration.version != self._applied:
                    self._applied = configuration.version
                    self._beat.set()  # whoever rolls a change out waits for this
                pause = max(1.0, float(configuration.workloads_monitoring_interval or MONITORING_SECONDS))
            await self._note_statuses(workloads)
            await self._wait(self._changed, pause)

    async def _note_statuses(self, workloads: Workloads) -> None:
        """Looks at how workloads are; a change goes out at once."""
        try:
            statuses = await workloads.statuses(self._configuration)
        except ContainersError:
            return  # told of by the pass
        if statuses != self._statuses:
            self._statuses = statuses
            self._beat.set()

    async def _transfer(self, uploader: Uploader, downloader: Downloader) -> None:
        """Moves data between the data directories and the bucket."""
        backoff = Backoff(base=self._settings.data_seconds, cap=300.0, jitter=0.3, rng=self._rng)
        while True:
            well = True
            if self.state.configuration() is not None:
                workloads = workloads_by_name(self._configuration.workloads)
                well = await downloader.run_pass(self._s3(), workloads.values())
                well = await uploader.run_pass(self._s3(), frozenset(workloads)) and well
            if well:
                backoff.reset()
            await self._clock.sleep(self._spread(self._settings.data_seconds) if well else backoff.next())

    def _s3(self) -> S3Configuration | None:
        device = self._configuration.configuration
        return device.storage.s3 if device is not None and device.storage is not None else None

    async def _leave(self, workloads: Workloads, uploader: Uploader) -> None:
        """Removes what is ours, uploads what is left, and forgets who the device was."""
        _log.info("the gateway disconnects this device: its workloads are removed, their data stays")
        try:
            await workloads.remove_all()
        except ContainersError as error:
            _log.warning("workloads could not be removed", error=error)
        await uploader.run_pass(self._s3(), frozenset())
        self.state.forget()

    # --- the gateway -------------------------------------------------------------------------------------------------

    async def _stay_registered(self, uplink: Uplink) -> None:
        """Registers at the first start, before the certificate expires, and when the gateway refuses it."""
        registrar = Registrar(settings=self._settings, state=self.state, uplink=uplink)
        self._identity = registrar.known()
        if self._identity is not None:
            uplink.present_device(self._identity)
            self._registered.set()
        backoff = self._backoff(cap=300.0)
        renewal = Backoff(base=60.0, cap=_RENEWAL_CHECK, jitter=0.5, rng=self._rng)
        while True:
            if self._identity is not None and not self._refused.is_set() and not self._renewal_due(self._identity):
                await self._wait(self._refused, self._until_renewal(self._identity))
                continue
            try:
                facts = await asyncio.to_thread(hardware.gather)
                self._identity = await registrar.register(facts, own=self._identity is not None)
            except (NotRegistered, GatewayUnavailable, ConfigError, OSError) as error:
                self._tell_gateway_problem(error)
                pause = backoff.next()
                await self._clock.sleep(max(pause, getattr(error, "retry_after", None) or 0.0))
            else:
                self.events.solved("gateway")
                self._heard = False
                self._refused.clear()
                self._registered.set()
                # Neither a gateway that refuses what it has signed nor a clock that is wrong makes this a busy loop.
                await self._clock.sleep(backoff.next())
                if self._heard:
                    backoff.reset()
                if self._renewal_due(self._identity):
                    await self._wait(self._refused, renewal.next())
                else:
                    renewal.reset()

    def _renewal_due(self, identity: Identity) -> bool:
        return self._clock.now() >= identity.renew_at(self._renewal_spread)

    def _until_renewal(self, identity: Identity) -> float:
        """Seconds to the renewal; never many, because the clock of the machine may jump."""
        left = (identity.renew_at(self._renewal_spread) - self._clock.now()).total_seconds()
        return min(max(left, 1.0), _RENEWAL_CHECK)

    async def _poll(self, uplink: Uplink) -> None:
        """Asks for configuration and commands."""
        backoff = self._backoff(cap=60.0)
        while True:
            await self._registered.wait()
            asked = self._clock.elapsed()
            try:
                reply = await uplink.configuration(self._etag, wait=self._settings.long_poll_seconds)
                if self._accepted(reply):
                    seconds = self._clock.elapsed() - asked
                    self._take(reply)
                    backoff.reset()
                    # One that was let go early for a command says nothing about how long the gateway waits.
                    if not (commanded := await self._obey(uplink)):
                        self._note_long_poll(reply, seconds)
                    waits = self._long_poll or commanded
                    pause = self._spread(_LONG_POLL_PAUSE if waits else self._settings.poll_seconds)
                else:
                    pause = max(backoff.next(), reply.retry_after or 0.0)
            except GatewayUnavailable as error:
                self._lost(error)
                pause = backoff.next()
            await self._clock.sleep(pause)

    def _note_long_poll(self, reply: Reply, seconds: float) -> None:
        """Learns whether the gateway waits for something new as it is asked to: then nobody must wait here."""
        if reply.status == 304:
            self._long_poll = 0 < self._settings.long_poll_seconds <= 2 * seconds

    def _take(self, reply: Reply) -> None:
        """Takes up a configuration: it is on the disk before anything follows from it."""
        if reply.status != 200 or not reply.content:
            return
        try:
            configuration = msgspec.json.decode(reply.content, type=DeviceConfigurationMessage)
        except msgspec.MsgspecError as error:
            self.events.problem("configuration", reason="ConfigurationInvalid", message=f"configuration: {error}")
            return
        if reply.content != self.state.configuration():
            try:
                self.state.keep_configuration(reply.content)
            except OSError as error:
                message = f"the configuration cannot be kept: {error.strerror or error}"
                self.events.problem("configuration", reason="DiskFailed", message=message)
                return
            _log.info("new configuration", version=configuration.version)
            self._configuration = configuration
            self._changed.set()
            self._beat.set()
        self.events.solved("configuration")
        self._etag = reply.etag

    async def _obey(self, uplink: Uplink) -> bool:
        """Does what the gateway commands; whether it does command anything."""
        reply, command = await uplink.command()
        if not self._accepted(reply) or command is None:
            return False
        match command.command:
            case Command.DISCONNECT:
                raise Disconnected
            case Command.PING:
                await uplink.pong()
            case Command.RECONNECT:
                await uplink.close()
            case Command.LOGS | Command.EXEC:
                self._access.put(command)
            case other:
                _log.warning("a command that is not known is left alone", command=other)
        return True

    async def _answer_requests(self, uplink: Uplink) -> None:
        """Answers requests for logs and commands; what cannot be sent is dropped, for nobody waits for long."""
        while True:
            report = await self._access.next_answer()
            try:
                self._accepted(await uplink.report(report))
            except GatewayUnavailable as error:
                self._lost(error)

    async def _send_heartbeats(
        self, uplink: Uplink, workloads: Workloads, uploader: Uploader, system: SystemUpdates
    ) -> None:
        """Says how the device is, every period; at once when something happened or the period has changed."""
        backoff = self._backoff(cap=60.0)
        while True:
            await self._registered.wait()
            self._beat.clear()
            await self._note_statuses(workloads)
            self._beat.clear()
            try:
                sent = await self._send_heartbeat(uplink, uploader, workloads, system.status)
            except GatewayUnavailable as error:
                self._lost(error)
                sent = False
            period = float(heartbeat_settings(self._configuration).period_seconds)
            if sent:
                backoff.reset()
                await self._clock.sleep(min(period, _LEAST_PERIOD))
                await self._wait(self._beat, period - _LEAST_PERIOD)
            else:
                await self._clock.sleep(min(period, backoff.next()))

    async def _send_heartbeat(
        self, uplink: Uplink, uploader: Uploader, workloads: Workloads, upgrade: UpgradeStatus
    ) -> bool:
        profile = heartbeat_settings(self._configuration).hardware_profile
        facts = await asyncio.to_thread(hardware.gather) if profile.include else HardwareInfo()
        events = self.events.to_send()
        message = compose(
            version=self._applied,
            statuses=self._statuses,
            last_upload=uploader.last_upload,
            problems=self.events.problems,
            rolled_back=workloads.rolled_back,
            upgrade=upgrade,
            hardware=hardware_to_send(self._configuration, self._known_hardware, facts),
            events=events,
        )
        reply = await uplink.post(Directive.HEARTBEAT, message)
        if not self._accepted(reply):
            return False
        self.events.sent(events)
        if message.hardware is not None:
            self._known_hardware = facts
        return True

    def _accepted(self, reply: Reply) -> bool:
        """Whether an answer is one to go on with; a 401 begins a new registration."""
        self._closed = 0
        if reply.status < 400:
            self._heard = True
            self._confirm_trial()
            self.events.solved("gateway")
            return True
        if reply.status == 401:
            self._register_again(reply.problem)
        else:
            # 404 too: a gateway that does not know the device may have lost its memory. Nothing is removed for that.
            self._tell_gateway_problem(GatewayUnavailable(f"the gateway refuses: {reply.problem}"))
        return False

    async def _end_trial(self) -> None:
        """Goes back to the program before where this one is tried, does not reach the gateway, and nobody else does."""
        if self._trial is None:
            return
        try:
            await upgrade.watch(self.state, self._trial, clock=self._clock)
        except OSError as error:
            _log.warning(
                "the trial of this agent cannot be ended: `edgewright edge upgrade --finish` does", error=error
            )

    def _confirm_trial(self) -> None:
        """Says once that this program reaches the gateway, where it was started to be tried."""
        if self._trial is None:
            return
        try:
            upgrade.confirm(self.state, self._trial)
        except OSError as error:
            _log.warning("that this agent reaches the gateway cannot be written down", error=error)
            return
        self._trial = None

    def _lost(self, error: GatewayUnavailable) -> None:
        # A foreign certificate ends the connection without a word; so does a gateway that restarts, but not for long.
        self._closed = self._closed + 1 if isinstance(error, ClosedWithoutAnswer) else 0
        if isinstance(error, CertificateRefused) or self._closed >= _CLOSED_IN_A_ROW:
            self._closed = 0
            self._register_again(str(error))
        else:
            self._tell_gateway_problem(error)

    def _register_again(self, why: str) -> None:
        if not self._refused.is_set():
            _log.info("the gateway refuses the device's certificate: registering again", answer=why)
        self._registered.clear()
        self._refused.set()

    def _tell_gateway_problem(self, error: Exception) -> None:
        self.events.problem("gateway", reason="GatewayUnavailable", message=str(error))

    # --- time --------------------------------------------------------------------------------------------------------

    def _backoff(self, *, cap: float) -> Backoff:
        return Backoff(base=1.0, cap=cap, jitter=0.5, rng=self._rng)

    def _spread(self, seconds: float) -> float:
        return seconds * self._rng.uniform(1.0 - _SPREAD, 1.0 + _SPREAD)

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        """Until the event is set, or for that long."""
        try:
            async with self._clock.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
