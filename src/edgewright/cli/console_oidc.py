"""The options of `edgewright console` about sign-in at a provider, checked before anything listens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgewright.runtime.config import ConfigError
from edgewright.runtime.tls import ClientTls, PemFile, read_bytes

if TYPE_CHECKING:
    import ssl

    from edgewright.console.impersonation import Impersonation
    from edgewright.console.oidc import OidcSettings


@dataclass(frozen=True, kw_only=True)
class Oidc:
    """The options about sign-in at a provider, as they were given."""

    issuer: str | None = None
    client_id: str | None = None
    client_secret_file: Path | None = None
    ca: Path | None = None
    scope: str | None = None
    impersonate_prefix: str | None = None
    impersonate_groups: tuple[str, ...] = ()
    username_claim: str | None = None
    groups_claim: str | None = None
    external_url: str | None = None
    session_key_file: Path | None = None

    def settings(self, *, loopback: bool, behind_proxy: bool) -> OidcSettings | None:
        """The provider, where one is named; wrong usage says which options do not go together."""
        from edgewright.console.oidc import SCOPE, OidcSettings, issuer_problem  # noqa: PLC0415
        from edgewright.console.sessions import read_keys  # noqa: PLC0415

        if self.issuer is None:
            for option, value in self._others().items():
                if value not in (None, ()):
                    raise ConfigError(f"{option} is about sign-in at a provider: name that with --oidc-issuer")
            return None
        if problem := issuer_problem(self.issuer):
            raise ConfigError(f"--oidc-issuer {self.issuer}: {problem}")
        if not self.client_id:
            raise ConfigError("--oidc-issuer: as whom does the provider know the console? Name --oidc-client-id")
        scope = SCOPE if self.scope is None else " ".join(self.scope.split())
        if "openid" not in scope.split():
            raise ConfigError("--oidc-scope: must have openid, else no ID token comes")
        key_file = self.session_key_file
        return OidcSettings(
            issuer=self.issuer,
            client_id=self.client_id,
            client_secret=self._secret(),
            scope=scope,
            external_url=self._external_url(loopback=loopback, behind_proxy=behind_proxy),
            tls=self._tls(),
            keys=() if key_file is None else tuple(read_keys(key_file, option="--session-key-file")),
            impersonation=self._impersonation(),
        )

    def _impersonation(self) -> Impersonation | None:
        from edgewright.console.impersonation import (  # noqa: PLC0415
            GROUPS_CLAIM,
            USERNAME_CLAIM,
            Impersonation,
            prefix_problem,
        )

        if self.impersonate_prefix is None:
            for option, value in self._about_impersonation().items():
                if value not in (None, ()):
                    raise ConfigError(f"{option} is about acting for people: switch that on with --impersonate-prefix")
            return None
        if problem := prefix_problem(self.impersonate_prefix):
            raise ConfigError(f"--impersonate-prefix {self.impersonate_prefix}: {problem}")
        return Impersonation(
            prefix=self.impersonate_prefix,
            groups=frozenset(self.impersonate_groups),
            username_claim=self.username_claim or USERNAME_CLAIM,
            groups_claim=self.groups_claim or GROUPS_CLAIM,
        )

    def _about_impersonation(self) -> dict[str, object]:
        return {
            "--impersonate-group": self.impersonate_groups,
            "--oidc-username-claim": self.username_claim,
            "--oidc-groups-claim": self.groups_claim,
        }

    def _others(self) -> dict[str, object]:
        return {
            "--oidc-client-id": self.client_id,
            "--oidc-client-secret-file": self.client_secret_file,
            "--oidc-ca": self.ca,
            "--oidc-scope": self.scope,
            "--impersonate-prefix": self.impersonate_prefix,
            **self._about_impersonation(),
            "--external-url": self.external_url,
            "--session-key-file": self.session_key_file,
        }

    def _external_url(self, *, loopback: bool, behind_proxy: bool) -> str:
        from edgewright.console.gate import host_name, is_loopback, origin_problem  # noqa: PLC0415
        from edgewright.console.site import is_prefix  # noqa: PLC0415

        if self.external_url is None:
            if loopback and not behind_proxy:
                return ""
            raise ConfigError(
                "--oidc-issuer: the provider must know where browsers reach the console: name --external-url"
            )
        url = self.external_url.removesuffix("/")
        scheme, _, rest = url.partition("://")
        host, slash, path = rest.partition("/")
        if origin_problem(f"{scheme}://{host}") or not is_prefix(slash + path):
            raise ConfigError(
                f"--external-url {self.external_url}: is not an address such as https://console.example.com"
            )
        if path and not behind_proxy:
            raise ConfigError(
                f"--external-url {self.external_url}: has a path, which a proxy cuts off: name --behind-proxy"
            )
        if scheme != "https" and not is_loopback(host_name(host)):
            raise ConfigError(f"--external-url {self.external_url}: must begin with https://")
        return url

    def _secret(self) -> str:
        if self.client_secret_file is None:
            return ""
        option = "--oidc-client-secret-file"
        try:
            secret = read_bytes(self.client_secret_file, origin=option).decode().strip()
        except UnicodeDecodeError:
            secret = ""
        if not secret or not secret.isprintable():
            raise ConfigError(f"{option}: {self.client_secret_file}: is not a secret in one line of text")
        return secret

    def _tls(self) -> ssl.SSLContext | None:
        return None if self.ca is None else ClientTls(authorities=PemFile(origin="--oidc-ca", path=self.ca).read())
