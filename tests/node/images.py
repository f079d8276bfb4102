"""What the node pulls: the images of a release's offline bundle, a flasher, a pause image, and firmware.

`python -m tests.node` makes them before it enters its room, which has no way out: as the storage of a registry in the
user's cache folder, named by a digest of all that decides it, so that a second run with nothing changed builds
nothing. A test never builds here.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from edgewright import __version__
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.registry import Registry as SimulatedRegistry
from hack.archives import guarded
from tests.acceptance.flashjob_stage import checkout, container_tools
from tests.e2e.registry import RealRegistry
from tests.harness import builds
from tests.harness import programs as kubernetes
from tests.node.layout import APPLICATION, DEVICE, FIRMWARE, SCALE, VERSIONS
from tests.public_charts.image import CONTAINERFILE

ROOT: Final = Path(__file__).resolve().parents[2]
MACHINE: Final = platform.machine()
BUNDLED: Final = ("edgewright", "edgewright-charts")
"""The images of the offline bundle, which the node pulls as edgewright/NAME."""
SCAFFOLD: Final = "minimart-operator"
"""The operator that `edgewright chart init` writes, with its folder next to the registry's storage."""
IMAGES: Final = {
    "flasher": f"FROM localhost/edgewright:{MACHINE}\nENV EDGEWRIGHT_TIME_SCALE={SCALE}\n",
    "pause": 'FROM scratch\nCOPY busybox /busybox\nENTRYPOINT ["/busybox", "sleep", "1000000000"]\n',
    # A flasher of others as the original's: it runs as root, tells what it sees, and fails; told so, it ends well.
    "foreign": (
        "FROM scratch\nCOPY busybox /busybox\n"
        'ENTRYPOINT ["/busybox", "sh", "-c", "/busybox env; /busybox sleep ${SECONDS_TO_RUN:-1}; exit ${CODE:-3}"]\n'
    ),
    "shop": CONTAINERFILE,
}
"""What is built besides, by name."""
_INPUTS: Final = (
    *("src", "images", "requirements", "hack", "charts", "config", "pyproject.toml", "deploy.mk", "tests/node"),
    *(
        "tests/acceptance/minimart",
        "tests/public_charts/image.py",
        "web/src",
        "web/index.html",
        "web/package-lock.json",
    ),
)
_MADE: Final = ("__pycache__", ".egg-info", "/static/")
"""What is made from the rest, at the latest when the images are built: another state would be built again."""
_OUR_OWN: Final = {"images.py", "layout.py"}
"""What of this suite decides what is built."""
_KEPT: Final = 3
_ACCEPT: Final = ", ".join(
    f"application/vnd.{each}+json"
    for each in ("oci.image.index.v1", "oci.image.manifest.v1", "docker.distribution.manifest.v2")
)


def cache() -> Path:
    """Where they are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "edgewright" / "tests" / "node"


def fingerprint() -> str:
    """A digest of everything that decides what is built."""
    digest = hashlib.sha256()
    for name in _INPUTS:
        top = ROOT / name
        files = sorted(each for each in top.rglob("*") if each.is_file()) if top.is_dir() else [top]
        for file in files:
            if any(each in str(file) for each in _MADE):
                continue
            if file.parent != Path(__file__).parent or file.name in _OUR_OWN:
                digest.update(f"{file.relative_to(ROOT)}\0".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def prepared() -> Path:
    """The folder of a registry with all of it: `storage`, `digests.json` with the digest of each image, `bundle`."""
    home = cache()
    home.mkdir(parents=True, exist_ok=True)
    with _locked(home / "lock"):
        found = home / f"images-{fingerprint()}"
        if not found.exists():
            print("node: building the images, once for this state of the source", flush=True)
            for left in home.glob("new-*"):  # of one that was killed
                shutil.rmtree(left)
            with tempfile.TemporaryDirectory(dir=home, prefix="new-") as folder:
                _build(Path(folder), home)
                (Path(folder) / "registry").rename(found)
        os.utime(found)
        for old in sorted(home.glob("images-*"), key=lambda each: each.stat().st_mtime)[:-_KEPT]:
            shutil.rmtree(old)
    return found


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(folder: Path, home: Path) -> None:
    place = folder / "registry"
    place.mkdir()
    with RealRegistry(place) as registry:
        tools = container_tools(home / "containers", registry.host)
        bundle = _released(folder, tools)
        for name in BUNDLED:
            archive = f"oci-archive:{bundle / 'images' / name}.tar"
            target = f"docker://{registry.host}/edgewright/{name}:{__version__}"
            _run(["skopeo", "copy", "--quiet", "--all", "--dest-tls-verify=false", archive, target], tools)
        shutil.rmtree(bundle / "images")  # they are in the registry now, by the same digests
        shutil.rmtree(bundle / "wheels")
        shutil.copytree(bundle, place / "bundle")
        shutil.copy("/bin/busybox", folder / "busybox")
        for name, text in IMAGES.items():
            (folder / name).write_text(text)
            image = f"{registry.host}/{name}:test"
            _run(["buildah", "build", "--quiet", "--tag", image, "--file", str(folder / name), str(folder)], tools)
            _run(["buildah", "push", "--quiet", image], tools)
            _run(["buildah", "rmi", "--force", image], tools)
        _push_scaffold(folder, registry.host, tools)
        shutil.copytree(folder / SCAFFOLD, place / SCAFFOLD)
        _run(["buildah", "rmi", "--force", *(f"localhost/{name}:{MACHINE}" for name in BUNDLED)], tools)
        _run(["buildah", "rmi", "--prune"], tools)
        asyncio.run(_push_firmware(registry))
        digests = {name: _digest(registry.host, name, "test") for name in (*IMAGES, SCAFFOLD)}
        digests |= {name: _digest(registry.host, f"edgewright/{name}", __version__) for name in BUNDLED}
    (place / "digests.json").write_text(json.dumps(digests))


def _released(folder: Path, tools: Mapping[str, str]) -> Path:
    """What is in the offline bundle of a release of this source, for this machine alone."""
    made = checkout(folder / "checkout")
    settings = {**tools, "KUBECTL": str(kubernetes.program("kubectl"))}
    _run(["make", "release", "FRESH=no", f"RELEASE_ARCHES={MACHINE}", f"WHEEL_ARCHES={MACHINE}"], settings, folder=made)
    release = made / "build/release"
    name = f"edgewright-{__version__}-offline"
    with tarfile.open(release / f"{name}.tar") as archive:
        guarded(archive).extractall(folder)
    shutil.rmtree(release)
    return folder / name


def _push_scaffold(folder: Path, registry: str, tools: Mapping[str, str]) -> None:
    """The operator of a chart as `edgewright chart init` writes it, built on edgewright-charts by its own target."""
    project = folder / SCAFFOLD
    project.mkdir()
    program = str(Path(sys.executable).with_name("edgewright"))
    chart = str(ROOT / "tests/acceptance/minimart/chart")
    _run([program, "chart", "init", "--domain", "samutup.com", "--helm-chart", chart], {}, folder=project)
    flags = f"BUILD_FLAGS=--build-arg OPERATOR_IMAGE=localhost/edgewright-charts:{MACHINE}"
    image = f"IMG={registry}/{SCAFFOLD}:test"
    _run(["make", "docker-build", "docker-push", image, flags], tools, folder=project)
    _run(["buildah", "rmi", "--force", image.removeprefix("IMG=")], tools)


async def _push_firmware(registry: RealRegistry) -> None:
    images = SimulatedRegistry()
    for version in VERSIONS:
        content = esp_image(version=version, project=APPLICATION, chip=DEVICE)
        images.add_image(FIRMWARE, version, {DEVICE: content})
    await registry.push(images)


def _digest(host: str, name: str, tag: str) -> str:
    url = f"http://{host}/v2/{name}/manifests/{tag}"
    request = urllib.request.Request(url, headers={"Accept": _ACCEPT}, method="HEAD")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.headers["Docker-Content-Digest"])


def _run(command: list[str], environment: Mapping[str, str], *, folder: Path = ROOT, check: bool = True) -> int:
    variables = builds.environment(environment)
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.returncode
