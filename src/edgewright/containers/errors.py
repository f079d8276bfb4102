"""What can go wrong with podman, as types that callers tell apart: nobody answers, it refuses, or it is not there.

`podman` and `socket` raise them; each is one sentence with podman's own text in it.
"""

from __future__ import annotations


class ContainersError(Exception):
    """Podman could not do what it was asked; the parent of the others."""


class PodmanUnavailable(ContainersError):
    """Nobody answers at the socket, or the answer broke off: the request may be repeated later."""


class Refused(ContainersError):
    """Podman answered that it will not or cannot do it; `status` is HTTP's."""

    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(text)
        self.status = status


class NotFound(Refused):
    """Podman has no pod, image, secret or volume of that name."""

    def __init__(self, text: str) -> None:
        super().__init__(text, status=404)
