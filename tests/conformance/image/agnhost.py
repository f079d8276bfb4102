"""Stands for the image agnhost: a web server where the tests ask for one, else a program that runs until it is ended.

Started by the node as a Pod's program. A folder in /tmp stands for the image, whose file /localhost.crt the tests move
away and back. It is named after the container's process table, since containers share the machine's /tmp where
Edgewright itself lies in it.
"""

import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

ROOT = Path("/tmp") / f"image-{''.join(filter(str.isdigit, str(Path('/proc/self/ns/pid').readlink())))}"


def serve() -> None:
    """Answers at port 80 of the Pod's address whether a file of the image is there."""
    (ROOT / "moved").mkdir(parents=True, exist_ok=True)
    (ROOT / "localhost.crt").touch()
    address = socket.gethostbyname(socket.gethostname())
    with socket.create_server((address, 80)) as listening:
        while True:
            connection, _ = listening.accept()
            with connection:
                path = connection.recv(4096).decode("latin-1").split(" ")[1:2]
                found = bool(path) and (ROOT / path[0].lstrip("/")).is_file()
                code = "200 OK" if found else "404 Not Found"
                connection.sendall(f"HTTP/1.1 {code}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())


def end(*_: object) -> NoReturn:
    """Leaves nothing in a folder that may be the machine's."""
    shutil.rmtree(ROOT, ignore_errors=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, end)
if sys.argv[1:] == ["test-webserver"]:
    serve()
signal.pause()
