"""Gathers the metrics of the machine, of the data transfer and of workloads, and sends them by remote write.

`Agent` runs it where the configuration names a receiver. Each source has its interval and its allow list; what is
gathered waits on the disk within the retention, so that a device that was offline tells its past. A receiver that
refuses a request for good (4xx) gets the next one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from edgewright.agent.downloads import Downloader
from edgewright.agent.manifest import DEVICE_LABEL
from edgewright.agent.remote_write import HEADERS, Waiting, encoded
from edgewright.agent.samples import Sample, allowed, machine, parsed
from edgewright.agent.surroundings import Surroundings
from edgewright.agent.uploads import Uploader, workloads_by_name
from edgewright.api.edge_protocol import (
    DeviceConfigurationMessage,
    MetricsAllowList,
    MetricsConfiguration,
    MetricsReceiverConfiguration,
    Workload,
)
from edgewright.containers import ContainersError
from edgewright.runtime.backoff import Backoff
from edgewright.runtime.happy_eyeballs import plain_socket
from edgewright.runtime.http import Address, Pool
from edgewright.runtime.http_parser import Answer
from edgewright.runtime.tls import ClientTls, ConfigError, Pem

INTERVAL: Final = 60.0
"""Seconds between two looks at a source that does not say."""
_TICK: Final = 1.0
_FLUSH: Final = 30.0
_SCRAPE_SECONDS: Final = 10.0
_MAX_SCRAPE: Final = 4 << 20
_DEFAULT_SAMPLES: Final = 30_000
_DEFAULT_TIMEOUT: Final = 10.0
_DEFAULT_MIB: Final = 50
"""What waits at most where the configuration sets no retention."""


@dataclass(frozen=True)
class Source:
    """Something that is asked for metrics every few seconds."""

    name: str
    """`system`, `data-transfer`, or the name of a workload."""
    interval: float
    names: tuple[str, ...] | None
    workload: Workload | None = None


def metrics_of(configuration: DeviceConfigurationMessage) -> MetricsConfiguration | None:
    """What the configuration says of metrics, where it names a receiver."""
    device = configuration.configuration
    metrics = None if device is None else device.metrics
    return metrics if metrics is not None and metrics.receiver is not None and metrics.receiver.url else None


def sources(configuration: DeviceConfigurationMessage) -> list[Source]:
    """What is to be asked."""
    metrics = metrics_of(configuration)
    if metrics is None:
        return []
    found = []
    for name, part in (("system", metrics.system), ("data-transfer", metrics.data_transfer)):
        if part is None:
            found.append(Source(name, INTERVAL, None))
        elif not part.disabled:
            found.append(Source(name, float(part.interval or INTERVAL), _names(part.allow_list)))
    for name, workload in workloads_by_name(configuration.workloads).items():
        if workload.metrics is not None:
            interval = float(workload.metrics.interval or INTERVAL)
            found.append(Source(name, interval, _names(workload.metrics.allow_list), workload))
    return found


def endpoints(workload: Workload, containers: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Port and path of each container of a workload that serves metrics."""
    metrics = workload.metrics
    found: dict[str, tuple[int, str]] = {}
    if metrics is None:
        return found
    for name in containers:
        own = metrics.containers.get(name)
        port = own.port if own is not None and own.port else metrics.port
        path = own.path if own is not None and own.path else metrics.path
        if port and not (own is not None and own.disabled):
            found.setdefault(name, (port, "/" + path.lstrip("/")))
    return found


def transferred(uploader: Uploader, downloader: Downloader) -> list[Sample]:
    """The metrics of the data transfer."""
    return [
        Sample(name="edgewright_data_uploaded_files_total", value=uploader.files),
        Sample(name="edgewright_data_uploaded_bytes_total", value=uploader.bytes),
        Sample(name="edgewright_data_downloaded_files_total", value=downloader.files),
        Sample(name="edgewright_data_downloaded_bytes_total", value=downloader.bytes),
    ]


class Metrics:
    """The metrics of this device, on their way."""

    def __init__(
        self, around: Surroundings, *, transfer: Callable[[], Iterable[Sample]], root: Path = Path("/")
    ) -> None:
        self._device = around.device
        self._podman = around.podman
        self._events = around.events
        self._clock = around.clock
        self._rng = around.rng
        self._transfer = transfer
        self._root = root
        self._waiting = Waiting(around.state.directory / "metrics")
        self._due: dict[str, float] = {}
        self._gathered: list[Sample] = []
        self._flush_at = 0.0

    async def run(self, configuration: Callable[[], DeviceConfigurationMessage]) -> None:
        """Gathers and sends, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._gather_always(configuration))
            group.create_task(self._send_always(configuration))

    async def _gather_always(self, configuration: Callable[[], DeviceConfigurationMessage]) -> None:
        while True:
            current = configuration()
            now = self._clock.elapsed()
            asked = sources(current)
            for source in asked:
                if now >= self._due.get(source.name, 0.0):
                    self._due[source.name] = now + source.interval
                    self._gathered += await self._ask(source)
            metrics = metrics_of(current)
            if metrics is not None and self._gathered and now >= self._flush_at:
                self._flush_at = now + min([_FLUSH, *(each.interval for each in asked)])
                self._keep(metrics)
            await self._clock.sleep(_TICK)

    async def _ask(self, source: Source) -> list[Sample]:
        millis = int(self._clock.now().timestamp() * 1000)
        if source.workload is not None:
            found = await self._scrape(source.workload)
        elif source.name == "system":
            found = await asyncio.to_thread(lambda: list(machine(self._root)))
        else:
            found = list(self._transfer())
        return [
            Sample(
                name=each.name,
                value=each.value,
                labels={**each.labels, "metric_source": source.name},
                millis=each.millis or millis,
            )
            for each in allowed(found, source.names)
        ]

    async def _scrape(self, workload: Workload) -> list[Sample]:
        try:
            pods = await self._podman.pods(label=f"{DEVICE_LABEL}={self._device}")
            pod = next((each for each in pods if each.name == workload.name), None)
            infra = None if pod is None else await self._podman.container(pod.infra_id)
        except ContainersError:
            return []
        if pod is None or infra is None:
            return []
        prefix = f"{workload.name}-"
        found: list[Sample] = []
        for name, (port, path) in endpoints(workload, [c.name.removeprefix(prefix) for c in pod.workers]).items():
            concern = f"metrics of {workload.name}"
            try:
                url = f"http://{infra.address or '127.0.0.1'}:{port}{path}"
                answer = await request("GET", url, seconds=_SCRAPE_SECONDS)
                if answer.status != 200 or len(answer.body) > _MAX_SCRAPE:
                    raise ConnectionError(f"it answered {answer.status} with {len(answer.body)} bytes")
            except OSError as error:
                message = f"{workload.name}: {name} gives no metrics: {error.strerror or error}"
                self._events.problem(concern, reason="MetricsFailed", message=message)
            else:
                self._events.solved(concern)
                for each in parsed(answer.body.decode(errors="replace")):
                    labels = {**each.labels, "container": name}
                    found.append(Sample(name=each.name, value=each.value, labels=labels, millis=each.millis))
        return found

    def _keep(self, metrics: MetricsConfiguration) -> None:
        """Puts what was gathered on the disk, in requests of the wished size."""
        receiver = metrics.receiver or MetricsReceiverConfiguration()
        size = max(1, receiver.request_num_samples or _DEFAULT_SAMPLES)
        now = self._clock.now()
        labels = {"edgedeviceid": self._device}
        gathered, self._gathered = self._gathered, []
        retention = metrics.retention
        try:
            for at in range(0, len(gathered), size):
                body = encoded(gathered[at : at + size], labels=labels, millis=int(now.timestamp() * 1000))
                self._waiting.add(body, now=now)
            self._waiting.retain(
                max_bytes=((retention.max_mib if retention else 0) or _DEFAULT_MIB) << 20,
                max_seconds=3600.0 * (retention.max_hours if retention else 0),
                now=now,
            )
        except OSError as error:
            self._events.problem("metrics", reason="DiskFailed", message=f"metrics are lost: {error.strerror or error}")

    async def _send_always(self, configuration: Callable[[], DeviceConfigurationMessage]) -> None:
        backoff = Backoff(base=2.0, cap=300.0, jitter=0.5, rng=self._rng)
        while True:
            metrics = metrics_of(configuration())
            try:
                first = None if metrics is None else self._waiting.first()
                if metrics is None or first is None:
                    await self._clock.sleep(_TICK)
                    continue
                await self._send(metrics.receiver or MetricsReceiverConfiguration(), first[1])
                self._waiting.done(first[0])
            except (OSError, ConfigError) as error:
                words = getattr(error, "strerror", None) or str(error)
                self._events.problem("metrics", reason="MetricsFailed", message=f"metrics cannot be sent: {words}")
                await self._clock.sleep(backoff.next())
            else:
                backoff.reset()
                self._events.solved("metrics", reason="MetricsSent", message="metrics are sent again")

    async def _send(self, receiver: MetricsReceiverConfiguration, body: bytes) -> None:
        answer = await request(
            "POST",
            receiver.url,
            headers=HEADERS,
            body=body,
            authorities=receiver.ca_cert,
            seconds=float(receiver.timeout_seconds or _DEFAULT_TIMEOUT),
        )
        if answer.status >= 500 or answer.status in {401, 403, 404, 408, 429} or 300 <= answer.status < 400:
            raise ConnectionError(f"the receiver answered {answer.status}")
        if answer.status >= 400:
            text = " ".join(answer.body[:200].decode(errors="replace").split())
            self._events.info(
                reason="MetricsRefused", message=f"the receiver refused a request: {answer.status} {text}"
            )


async def request(
    method: str,
    url: str,
    *,
    seconds: float,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    authorities: str = "",
) -> Answer:
    """One request on a connection of its own; OSError where there is no answer."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    try:
        port = parts.port or (443 if secure else 80)
    except ValueError as error:
        raise ConfigError(f"{url!r} is no address") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"{url!r} is no address")
    address = Address(host=parts.hostname, port=port, secure=secure)
    trusted = Pem(origin="metrics.receiver.caCert", data=authorities.encode()) if authorities else None
    context: ssl.SSLContext | None = ClientTls(authorities=trusted) if secure else None
    pool = Pool(address, size=1, tls=lambda: context, make_socket=plain_socket)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = {"Host": address.authority, "User-Agent": "edgewright-agent", "Connection": "close", **(headers or {})}
    if method != "GET":
        lines["Content-Length"] = str(len(body))
    head = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
    try:
        async with asyncio.timeout(seconds):
            connection = await pool.take()
            try:
                return await connection.exchange("\r\n".join(head).encode("latin-1") + body)
            finally:
                pool.give_back(connection)
    except TimeoutError as error:
        raise ConnectionError("no answer in time") from error
    finally:
        await pool.close()


def _names(allow: MetricsAllowList | None) -> tuple[str, ...] | None:
    return None if allow is None else allow.names
