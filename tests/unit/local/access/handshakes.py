"""A TLS handshake in memory: what a server and a client with these contexts make of each other."""

from __future__ import annotations

import ssl


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """The server's side of a finished handshake; raises what either side raises."""
    return _both(server, client, name)[0]


def presented(server: ssl.SSLContext) -> bytes | None:
    """The certificate that a server shows to new connections."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return _both(server, client, "localhost")[1].getpeercert(binary_form=True)


def _both(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    calling = client.wrap_bio(to_client, to_server, server_hostname=name)
    waiting = [calling, serving]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
        if not waiting:
            return serving, calling
    raise AssertionError("the handshake does not end")
