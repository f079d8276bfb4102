"""Builds the images with the targets that people use, and unpacks them: for the tests of what is in them.

The base comes from this machine's own Debian packages, because no base image can be pulled. buildah keeps everything in
the test's own folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hack.archives import guarded
from tests.acceptance.flashjob_stage import checkout, container_tools
from tests.harness import builds
from tests.harness import programs as kubernetes

BASE: Final = "localhost/edgewright-base"
OPERATOR: Final = "localhost/edgewright:test"
CHARTS: Final = "localhost/edgewright-charts:test"
MEGABYTE: Final = 1_000_000
QEMU: Final = "qemu-aarch64-static"


@dataclass(frozen=True)
class Image:
    """An image on disk."""

    root: Path
    config: dict[str, Any]
    size: int
    """Of all its layers, not compressed."""

    def run(self, *arguments: str, user: int, machine: str = "x86_64") -> subprocess.CompletedProcess[str]:
        """Starts it as a container is started: as some user, with a root that nobody can write to."""
        chroot = 'exec /usr/sbin/chroot --userspec "$1" "$0" "${@:2}"'
        mounted = f'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && {chroot}'
        command = [*self.config["Entrypoint"], *arguments]
        if machine == "aarch64":
            emulator = shutil.which(QEMU)
            assert emulator is not None
            shutil.copy(emulator, self.root / QEMU)
            command = [f"/{QEMU}", "/usr/bin/python3", *command[1:]]
        variables = dict(each.split("=", 1) for each in self.config["Env"])
        return subprocess.run(
            ["unshare", "--mount", "bash", "-c", mounted, self.root, f"{user}:{user}", *command],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


class Builder:
    """One folder in which images are built for one machine."""

    def __init__(self, folder: Path, machine: str) -> None:
        self._folder = folder
        self.machine = machine
        self._tools = container_tools(folder / "containers", "localhost")
        self.checkout = checkout(folder / "checkout")

    def make(self, *arguments: str) -> None:
        """Runs targets of the Makefile for one machine; they must end well."""
        settings = [f"ARCH={self.machine}", f"BASE_IMAGE={BASE}", f"IMG={OPERATOR}", f"CHARTS_IMG={CHARTS}"]
        self._run(["make", *arguments, *settings], cwd=self.checkout)

    def release(self, *arguments: str) -> Path:
        """Makes a release; where it is."""
        self._run(["make", "release", "FRESH=no", *arguments], cwd=self.checkout)
        return self.checkout / "build/release"

    def unpacked(self, image: str, name: str) -> Image:
        """An image with its layers one over the other."""
        archive = self._folder / f"{name}.tar"
        self._run(["buildah", "push", "--quiet", image, f"docker-archive:{archive}"])
        root = self._folder / name
        root.mkdir()
        size = 0
        with tarfile.open(archive) as opened:

            def read(member: str) -> bytes:
                found = opened.extractfile(member)
                assert found is not None
                return found.read()

            (manifest,) = json.loads(read("manifest.json"))
            config: dict[str, Any] = json.loads(read(manifest["Config"]))
            for layer in manifest["Layers"]:
                member = opened.getmember(layer)
                while member.issym():  # the same layer once more
                    member = opened.getmember(os.path.normpath(str(Path(member.name).parent / member.linkname)))
                size += member.size
                found = opened.extractfile(member)
                with tarfile.open(fileobj=found) as content:
                    guarded(content, "fully_trusted").extractall(root)
        archive.unlink()
        assert config["architecture"] == {"x86_64": "amd64", "aarch64": "arm64"}[self.machine]
        return Image(root, config["config"], size)

    def _run(self, command: Sequence[str | Path], *, cwd: Path | None = None) -> None:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=builds.environment({**self._tools, "KUBECTL": str(kubernetes.program("kubectl"))}),
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
