"""A flasher that is not ours, for tests, which listens as the published ones do: `0.0.0.0:4433` and nothing else.

`python everywhere_flasher.py CERTIFICATE KEY FIRMWARE HOST:PORT`, with the published environment: it listens, waits
until HOST:PORT lets it go on, tells the device where to dial, hands it the firmware over TLS and ends.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
import urllib.request
from pathlib import Path

SECONDS = 300


def main(certificate: str, key: str, firmware: str, starter: str) -> None:
    """Flashes one device."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with socket.socket() as listener:
        listener.settimeout(SECONDS)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", 4433))
        listener.listen()
        host, _, port = starter.partition(":")
        with socket.create_connection((host, int(port)), timeout=SECONDS) as held:
            held.sendall(os.environ["UUID"].encode() + b"\n")
            assert held.recv(1) == b"g"
        order = f"ip: {os.environ['EXTERNAL_IP']}".encode()
        request = urllib.request.Request(f"http://{os.environ['HOST_ENDPOINT']}/update", data=order)
        with urllib.request.urlopen(request, timeout=SECONDS):
            accepted, _ = listener.accept()
    accepted.settimeout(SECONDS)
    with tls.wrap_socket(accepted, server_side=True) as device:
        assert device.recv(4096)  # its certificate
        device.sendall(Path(firmware).read_bytes())
        device.unwrap()


if __name__ == "__main__":
    main(*sys.argv[1:])
