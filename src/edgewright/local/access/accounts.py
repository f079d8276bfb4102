"""The tokens of ServiceAccounts: made on request, for an account, an audience and a time, maybe bound to a Pod.

`serving.token_requests` creates them and `Authentication` reads them. A token is good as long as its account, and what
it is bound to, are there with the uid that it names. Only the key is kept, in the data directory; no token is.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgewright.local.access.authentication import Recognised, User
from edgewright.runtime.clock import Clock
from edgewright.runtime.files import PRIVATE, write_whole
from edgewright.runtime.objects import RawObject
from edgewright.runtime.tls import ConfigError, read_bytes

if TYPE_CHECKING:
    from edgewright.local.access.token_signing import Signer

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
"""Who says what tokens say, and for whom they are when nothing else is asked for."""
EXTENDED_SECONDS: Final = 60 * 60 + 7
"""The time that Pods ask for by default; such a token lives on for a year, for programs that read it only once."""
_YEAR: Final = 365 * 24 * 3600
_LEEWAY: Final = 60.0
_MAX_READ: Final = 1024
_EXTRA: Final = "authentication.kubernetes.io/"

Find = Callable[[str, str, str], RawObject | None]
"""The stored object of a resource, namespace and name."""


class Accounts:
    """Makes and reads tokens of ServiceAccounts."""

    def __init__(self, file: Path, find: Find, *, clock: Clock) -> None:
        """`file` holds the key, or will."""
        self._file = file
        self._find = find
        self._clock = clock
        self._signer: Signer | None = None
        self._read: dict[bytes, dict[str, Any]] = {}

    def issue(
        self,
        account: RawObject,
        *,
        audiences: Sequence[str],
        seconds: int,
        bound: Mapping[str, RawObject],
        now: datetime,
    ) -> str:
        """A token of an account; `bound` are the objects that it is bound to, by `pod`, `node` or `secret`."""
        about = account["metadata"]
        start = int(now.timestamp())
        said: dict[str, Any] = {"namespace": about["namespace"], "serviceaccount": _named(account)}
        said |= {what: _named(obj) for what, obj in bound.items()}
        lasts = seconds
        if "pod" in bound and seconds == EXTENDED_SECONDS and set(audiences) <= {ISSUER}:
            lasts = _YEAR
            said["warnafter"] = start + seconds
        return self._signing().sign(
            {
                "aud": list(audiences),
                "exp": start + lasts,
                "iat": start,
                "iss": ISSUER,
                "jti": str(uuid.uuid4()),
                "kubernetes.io": said,
                "nbf": start,
                "sub": _user_name(about["namespace"], about["name"]),
            }
        )

    def read(self, token: str, audiences: Sequence[str]) -> Recognised | None:
        """Whose a token is; None where it is none of ours."""
        claims = self._claims(token)
        if claims is None or claims.get("iss") != ISSUER:
            return None
        common = [each for each in audiences or (ISSUER,) if each in claims["aud"]]
        if not common:
            wanted, given = (
                " ".join(f'"{each}"' for each in listed) for listed in (audiences or (ISSUER,), claims["aud"])
            )
            return Recognised(fault=f"token audiences [{given}] is invalid for the target audiences [{wanted}]")
        if fault := self._fault(claims):
            return Recognised(fault=fault)
        return Recognised(user=_user(claims), audiences=tuple(common))

    def keys(self) -> list[dict[str, str]]:
        """The public keys by which others can check our tokens."""
        return [self._signing().public()]

    def _claims(self, token: str) -> dict[str, Any] | None:
        """What a token of ours says; a signature is checked once."""
        if token.count(".") != 2 or not token.isascii():
            return None
        digest = hashlib.sha256(token.encode()).digest()
        claims = self._read.get(digest)
        if claims is None:
            claims = self._signing().claims(token)
            if claims is not None:
                if len(self._read) >= _MAX_READ:
                    self._read.clear()
                self._read[digest] = claims
        return claims

    def _fault(self, claims: dict[str, Any]) -> str:
        """Why a token of ours is good no more; empty where it is."""
        now, said = self._clock.now().timestamp(), claims["kubernetes.io"]
        if now > claims["exp"] + _LEEWAY:
            return "service account token has expired"
        if now < claims["nbf"] - _LEEWAY:
            return "service account token is not valid yet"
        namespace, account = said["namespace"], said["serviceaccount"]
        found = self._find("serviceaccounts", namespace, account["name"])
        if found is None:
            return f'serviceaccounts "{account["name"]}" not found'
        if found["metadata"]["uid"] != account["uid"]:
            return f"service account UID ({found['metadata']['uid']}) does not match claim ({account['uid']})"
        bound = {"pod": ("pods", namespace), "secret": ("secrets", namespace)}
        if "pod" not in said:
            bound["node"] = ("nodes", "")
        for what, (resource, where) in bound.items():
            if what in said and not self._is_there(resource, where, said[what]):
                return "service account token has been invalidated"
        return ""

    def _is_there(self, resource: str, namespace: str, named: Mapping[str, str]) -> bool:
        found = self._find(resource, namespace, named["name"])
        return found is not None and found["metadata"]["uid"] == named["uid"]

    def _signing(self) -> Signer:
        if self._signer is None:
            from edgewright.local.access import token_signing  # noqa: PLC0415 - 13 MB that many a run can do without

            if not self._file.exists():
                write_whole(self._file, token_signing.new_key().encode())
            self._file.chmod(PRIVATE)
            try:
                self._signer = token_signing.Signer(read_bytes(self._file).decode("ascii", errors="replace"))
            except ValueError as error:
                raise ConfigError(f"{self._file}: is damaged: restore it, or move it away for a new one") from error
        return self._signer


def _named(obj: RawObject) -> dict[str, str]:
    about = obj["metadata"]
    return {"name": about["name"], **({"uid": about["uid"]} if about.get("uid") else {})}


def _user_name(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def _user(claims: dict[str, Any]) -> User:
    said = claims["kubernetes.io"]
    extra = {"credential-id": f"JTI={claims['jti']}"}
    for what in ("pod", "node"):
        if what in said:
            extra |= {f"{what}-{field}": said[what][field] for field in ("name", "uid") if field in said[what]}
    namespace, account = said["namespace"], said["serviceaccount"]
    return User(
        name=_user_name(namespace, account["name"]),
        uid=account["uid"],
        groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
        extra={f"{_EXTRA}{name}": (value,) for name, value in extra.items()},
    )
