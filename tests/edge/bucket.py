"""A real S3 server for tests: rclone, with TLS and keys, whose buckets are folders that a test can look into."""

from __future__ import annotations

import base64
import socket
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from edgewright.api.edge_protocol import S3Configuration
from tests.harness.certificates import Authority
from tests.harness.processes import Process, free_port

ACCESS_KEY, SECRET_KEY = "device-key", "device-secret-key"


class S3Server:
    """One server, while the context lasts."""

    def __init__(self, folder: Path, *, addresses: Sequence[str]) -> None:
        self.folder = folder
        self.authority = Authority("bucket authority")
        self.port = free_port()
        self._data = folder / "buckets"
        self._data.mkdir(parents=True)
        certificate = self.authority.server("s3", names=["localhost"], addresses=["127.0.0.1", *addresses])
        path, key = certificate.write(folder, "s3")
        rclone = Path(sys.executable).with_name("rclone")
        self.process = Process(
            "rclone",
            [
                *(rclone, "--config", "/dev/null", "--cache-dir", folder / "cache", "serve", "s3"),
                *("--addr", f"0.0.0.0:{self.port}", "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}"),
                *("--cert", path, "--key", key, self._data),
            ],
            log=folder / "rclone.log",
            ready=self._answers,
        )

    def __enter__(self) -> Self:
        self.process.start()
        self.process.wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()

    def bucket(self, name: str) -> Path:
        """A bucket, made where there is none; its files are its objects."""
        folder = self._data / name
        folder.mkdir(exist_ok=True)
        return folder

    def configuration(self, bucket: str, *, host: str, secret: str = SECRET_KEY) -> S3Configuration:
        """What a device is told of a bucket."""
        self.bucket(bucket)
        return S3Configuration(
            bucket_host=host,
            bucket_port=self.port,
            bucket_name=bucket,
            bucket_region="us-east-1",
            aws_access_key_id=base64.b64encode(ACCESS_KEY.encode()).decode(),
            aws_secret_access_key=base64.b64encode(secret.encode()).decode(),
            aws_ca_bundle=base64.b64encode(self.authority.certificate).decode(),
        )

    def claimed(self, bucket: str, *, host: str, port: int | None = None) -> tuple[dict[str, str], dict[str, str]]:
        """What a provisioner writes of a bucket into the ConfigMap and the Secret of its claim."""
        self.bucket(bucket)
        place = {"BUCKET_HOST": host, "BUCKET_PORT": str(port or self.port), "BUCKET_NAME": bucket, "BUCKET_REGION": ""}
        keys = {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY.encode(),
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY.encode(),
            "tls.crt": self.authority.certificate,
        }
        return place, {name: base64.b64encode(value).decode() for name, value in keys.items()}

    def _answers(self) -> bool:
        context = ssl.create_default_context(cadata=self.authority.certificate.decode())
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as plain:
                context.wrap_socket(plain, server_hostname="127.0.0.1").close()
        except OSError:
            return False
        return True
