"""Stands for the image agnhost: a web server where the tests ask for one, else a program that runs until it is ended.

Started by the node as a Pod's program. /tmp is the Pod's own; the folder `image` in it stands for the image,
whose file /localhost.crt the tests move away and back.
"""

import signal
import socket
import sys
from pathlib import Path

ROOT = Path("/tmp") / "image"


def serve() -> None:
    """Answers at port 80 of the Pod's address whether a file of the image is there."""
    ROOT.mkdir(exist_ok=True)
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


signal.signal(signal.SIGTERM, signal.SIG_DFL)
if sys.argv[1:] == ["test-webserver"]:
    serve()
signal.pause()
