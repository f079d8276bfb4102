"""What somebody who runs the gateway can choose; `edgewright gateway` fills it in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from edgewright.api.edge_protocol import PORT


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much of everything one device, and all of them, may take."""

    connections: int = 20_000
    handshakes: int = 2000
    """How many handshakes may be under way at once; one address may have a quarter of them."""
    enrolments_a_minute: int = 1200
    """How many devices may come in with one registration certificate, per minute and replica."""
    pending: int = 10_000
    """How many that came with one registration certificate may wait for approval."""
    total: int = 100_000
    """How many devices may have come with one registration certificate."""
    body_bytes: int = 1 << 20
    """A heartbeat with all host devices has 9 KB."""
    line_bytes: int = 8192
    header_bytes: int = 8192
    headers: int = 64
    handshake_seconds: float = 10.0
    first_request_seconds: float = 20.0
    """A connection that has asked nothing for so long is cut."""
    idle_seconds: float = 75.0
    body_seconds: float = 10.0
    """How long a body may take to arrive."""
    answer_seconds: float = 0.8
    """How long an answer may take once the request has come: published agents wait for one second. Whoever would wait
    longer says so with the header Prefer."""
    write_seconds: float = 0.6
    """How long the answer to a heartbeat waits for what it changes to be written; it is written all the same."""
    poll_seconds: float = 300.0
    """How long a question for news may wait at most, however long the agent would."""
    events: int = 20
    """How many events of one heartbeat are told."""
    workloads: int = 500
    """How many workloads of one heartbeat are read."""


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """How one gateway works."""

    namespace: str
    """Where its Secrets are, and devices that ask for no namespace."""
    namespaces: tuple[str, ...] = ()
    """Further namespaces that devices may ask for."""
    host: str = ""
    """The address that it listens on; empty: all."""
    port: int = PORT
    domains: tuple[str, ...] = ("project-flotta.io",)
    """The names in its certificate, besides the addresses."""
    addresses: tuple[str, ...] = ("127.0.0.1", "::1")
    """The IP addresses in its certificate."""
    automatic_approval: bool = True
    """Whether devices with a registration certificate are let in without asking a person."""
    device_days: float = 30
    """How long the certificate of a device is valid."""
    published_days: float = 365
    """The same for a published agent (User-Agent yggdrasil/), which does not survive the 401 for an expired one."""
    published_grace_days: float = 0
    """For so long an expired certificate of a published agent is taken as if it had not expired."""
    certificates_every: float = 30.0
    """The Secrets with certificates are read again after so many seconds."""
    trusted_before_use: float = 120.0
    """A new authority is trusted for so long before it signs: every replica must know it."""
    replica: str = ""
    """The name of this replica, which its heartbeat shards begin with; empty: one is made up."""
    heard_every: float = 30.0
    """Which devices were heard, and when, is written so often."""
    seen_every: float = 3600.0
    """That a device was heard is written to its EdgeDevice no more often, where nothing else has changed."""
    sources_every: float = 15.0
    """Secrets and ConfigMaps are read again after so many seconds."""
    limits: Limits = Limits()

    @cached_property
    def allowed_namespaces(self) -> tuple[str, ...]:
        """Where devices may be."""
        return tuple(dict.fromkeys((self.namespace, *self.namespaces)))
