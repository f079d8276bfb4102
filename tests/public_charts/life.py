"""The life of a release of four charts, on whatever runs containers: installed, upgraded, rolled back and removed.

Three of the charts lie in this folder and have the shape that public ones have; the fourth is that of document 003.
`tests/edge` runs them on `edgewright up` with podman, `tests/node` on a real node, with the same assertions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.harness import programs, wait_until
from tests.harness.processes import Process

EDGEWRIGHT: Final = str(Path(sys.executable).with_name("edgewright"))
FOLDER: Final = Path(__file__).parent
DOMAIN: Final = "example.org"
LIMIT: Final = 240.0
_NOT_OF_A_RELEASE: Final = ("events", "leases")
"""Kinds of which objects come and go by themselves."""
Values = Mapping[str, Any]


class Site:
    """A cluster, and the operator of the charts next to it."""

    def __init__(
        self,
        folder: Path,
        inside: Callable[..., list[str]],
        running: Callable[[], set[str]],
        *,
        image: str,
        storage_class: str = "",
    ) -> None:
        """`inside` makes a command one that means this cluster, `running` says what its node has of containers."""
        self.repository, _, self.tag = image.rpartition(":")
        self.storage_class = storage_class
        self._folder = folder
        self._inside = inside
        self._running = running

    def typed(self, *command: str, given: str = "") -> str:
        """What a command prints that must end well."""
        done = subprocess.run(
            self._inside(*command), input=given, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def kubectl(self, *arguments: str, given: str = "") -> str:
        """What kubectl prints."""
        return self.typed(str(programs.program("kubectl")), *arguments, given=given)

    def get(self, *arguments: str) -> Any:
        """An object."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def page(self, service: str, path: str = "") -> str:
        """What a Service answers; empty where nobody does."""
        spec = self.get("service", service)["spec"]
        url = f"http://{spec['clusterIP']}:{spec['ports'][0]['port']}/{path}"
        command = self._inside("curl", "-s", "-m", "10", url)
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def traces(self) -> set[str]:
        """All objects of the cluster, and what its node has."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        listed = ",".join(kind for kind in kinds if kind.partition(".")[0] not in _NOT_OF_A_RELEASE)
        columns = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"
        objects = self.kubectl("get", listed, "-A", "--no-headers", "-o", columns).splitlines()
        return {" ".join(line.split()) for line in objects} | self._running()

    @contextmanager
    def operator(self) -> Iterator[None]:
        """Has the kinds of all charts, and the operator that serves them, while the context lasts."""
        watches: list[Any] = []
        for each in CHARTS:
            project = self._folder / each.kind.lower()
            project.mkdir()
            init = f"{EDGEWRIGHT} chart init --plugins helm --domain {DOMAIN} --helm-chart {each.chart}"
            self.typed("sh", "-c", f"cd {project} && {init}")
            self.kubectl("apply", "-k", str(project / "config" / "crd"))
            made = json.loads(self.typed(sys.executable, "-c", _AS_JSON, str(project / "watches.yaml")))
            watches += [{**entry, "chart": str(project / entry["chart"]), **each.watch} for entry in made]
        file, log = self._folder / "watches.yaml", self._folder / "operator.log"
        file.write_text(json.dumps(watches))
        run = (EDGEWRIGHT, "run", "--controllers", "charts", "--watches", str(file), "--no-leader-elect")
        operator = Process("operator", self._inside(*run), log=log, ready=log.exists)
        operator.start()
        try:
            yield
        finally:
            for each in CHARTS:
                crd = str(self._folder / each.kind.lower() / "config" / "crd")
                self.kubectl("delete", "-k", crd, "--wait=false", "--ignore-not-found")
            operator.terminate()


_AS_JSON: Final = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))"


@dataclass(frozen=True, kw_only=True)
class PublicChart:
    """A chart, two sets of values, and what shows which of them its release has."""

    kind: str
    name: str
    """That of its release."""
    chart: Path
    first: Callable[[Site], Values]
    second: Callable[[Site], Values]
    shows: Callable[[Site], str]
    """What people see of it."""
    as_first: str
    as_second: str
    stays: Callable[[Site], object] = lambda _: None
    """What neither an upgrade nor a rollback may change."""
    watch: Values = field(default_factory=dict)
    """What its entry in the watches file says besides."""

    @property
    def target(self) -> str:
        """Its object as kubectl names it."""
        return f"{self.kind.lower()}/{self.name}"


def live(site: Site) -> None:
    """Installs all charts, upgrades their releases, rolls them back and removes them; nothing of them is left."""
    before = site.traces()
    stays: dict[str, object] = {}
    for revision in (1, 2, 3):
        for each in CHARTS:
            if revision == 3:
                site.typed(EDGEWRIGHT, "chart", "rollback", each.target)
            else:
                values = each.first(site) if revision == 1 else each.second(site)
                site.kubectl("apply", "-f", "-", given=json.dumps(_object(each, values)))
        for each in CHARTS:
            _until_ready(site, each, revision)
            shown = each.as_second if revision == 2 else each.as_first
            stays[each.kind] = _until_shown(site, each, (shown, stays.get(each.kind)))
    for each in CHARTS:
        history = site.typed(EDGEWRIGHT, "chart", "history", each.target).splitlines()[1:]
        assert [line.split()[0] for line in history] == ["1", "2", "3"]
        site.kubectl("delete", each.target, "--wait=false")
    try:
        wait_until(lambda: site.traces() <= before, what="nothing of them is left", timeout=LIMIT, interval=0.5)
    except AssertionError as error:
        raise AssertionError(f"{error}: {sorted(site.traces() - before)}") from None


def _object(chart: PublicChart, values: Values) -> dict[str, Any]:
    about = {"apiVersion": f"charts.{DOMAIN}/v1alpha1", "kind": chart.kind}
    return {**about, "metadata": {"name": chart.name}, "spec": values}


def _until_shown(site: Site, chart: PublicChart, expected: tuple[str, object]) -> object:
    """Waits until people see of a release what they are to see; what stays of it, which may not be known before."""
    shown, stays = expected
    seen: list[object] = []

    def right() -> bool:
        try:
            seen[:] = [chart.shows(site), chart.stays(site)]
        except AssertionError as error:  # kubectl chose a Pod that goes
            seen[:] = [str(error), None]
        return seen[0] == shown and stays in {None, seen[1]}

    try:
        wait_until(right, what=f"{chart.target} shows {expected}", timeout=LIMIT, interval=0.2)
    except AssertionError as error:
        raise AssertionError(f"{error}, and not {seen}") from None
    return seen[1]


def _until_ready(site: Site, chart: PublicChart, revision: int) -> None:
    """Waits until a revision is released and all that belongs to it is ready."""

    def ready() -> bool:
        status = site.get(chart.target).get("status", {})
        conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
        return status.get("revision") == revision and conditions.get("Ready") == "True"

    try:
        wait_until(ready, what=f"revision {revision} of {chart.target} is ready", timeout=LIMIT, interval=0.2)
    except AssertionError as error:
        told = site.typed(EDGEWRIGHT, "chart", "why", chart.target)
        told += site.kubectl("get", "pods", "-o", "wide") + site.kubectl("get", "events")
        raise AssertionError(f"{error}\n{told}") from None


# --- the charts -------------------------------------------------------------------------------------------------------


def _minimart(**values: Any) -> Callable[[Site], Values]:
    return lambda site: {"image": {"repository": site.repository, "tag": site.tag}, **values}


def _guestbook(**values: Any) -> Callable[[Site], Values]:
    return lambda site: {
        "image": {"repository": site.repository, "tag": site.tag},
        "persistence": {"storageClass": site.storage_class},
        **values,
    }


def _first_guest(site: Site) -> str:
    """The Pod that was the first to sign in the volume."""
    look = ("/bin/busybox", "head", "-n", "1", "/data/visits")
    return site.kubectl("exec", "deployment/guests-guestbook", "--", *look)


def _ledger(**values: Any) -> Callable[[Site], Values]:
    def made(site: Site) -> Values:
        registry, _, repository = site.repository.partition("/")
        image = {"registry": registry, "repository": repository, "tag": site.tag}
        return {"image": image, "persistence": {"storageClass": site.storage_class}, **values}

    return made


def _entry(site: Site) -> str:
    """How many replicas there are, and what the first of them wrote last."""
    replicas = site.get("statefulset", "books-ledger")["status"]["replicas"]
    claims = site.get("persistentvolumeclaims", "-l", "app.kubernetes.io/name=ledger")["items"]
    last = site.kubectl("exec", "books-ledger-0", "--", "/bin/busybox", "tail", "-n", "1", "/store/ledger").strip()
    return f"{replicas} {len(claims)} {last}"


def _password_and_first_entry(site: Site) -> tuple[str, str]:
    look = '/bin/busybox head -n 1 /store/ledger; echo "$STORE_PASSWORD"; /bin/busybox cat /secrets/password'
    first, passed, mounted = site.kubectl("exec", "books-ledger-0", "--", "/bin/sh", "-c", look).splitlines()
    assert passed == mounted
    assert len(passed) == 24
    return passed, first


def _beacon(**values: Any) -> Callable[[Site], Values]:
    return lambda site: {"global": {"image": f"{site.repository}:{site.tag}"}, **values}


def _signal(site: Site) -> str:
    """What the agents say, how the chart's test ended, and what the subchart's Service answers where there is one."""
    said = site.kubectl("logs", "daemonset/lamp").strip()
    conditions = {each["type"]: each["status"] for each in site.get("beacon/lamp")["status"]["conditions"]}
    there = site.kubectl("get", "service", "lamp-depot", "--ignore-not-found", "-o", "name")
    return f"{said} {conditions.get('TestSuccess')} {site.page('lamp-depot').strip() if there else 'no depot'}"


CHARTS: Final = (
    PublicChart(
        kind="Minimart",
        name="corner",
        chart=FOLDER.parent / "acceptance" / "minimart" / "chart",
        first=_minimart(replicaCount=2, greeting="welcome"),
        second=_minimart(replicaCount=1, greeting="good evening"),
        shows=lambda site: site.page("corner"),
        as_first="welcome\n",
        as_second="good evening\n",
    ),
    PublicChart(
        kind="Guestbook",
        name="guests",
        chart=FOLDER / "guestbook",
        first=_guestbook(page="welcome"),
        second=_guestbook(page="good evening", podAnnotations={"team": "edge"}),
        shows=lambda site: site.page("guests-guestbook"),
        as_first="welcome\n",
        as_second="good evening\n",
        stays=_first_guest,
    ),
    PublicChart(
        kind="Ledger",
        name="books",
        chart=FOLDER / "ledger",
        first=_ledger(motto="first"),
        second=_ledger(motto="second", replicaCount=1),
        shows=_entry,
        as_first="2 2 books-ledger-0 first",
        as_second="1 1 books-ledger-0 second",
        stays=_password_and_first_entry,
    ),
    PublicChart(
        kind="Beacon",
        name="lamp",
        chart=FOLDER / "beacon",
        first=_beacon(signal="one"),
        second=_beacon(signal="two", depot={"enabled": True}),
        shows=_signal,
        as_first="one True no depot",
        as_second="two True the depot",
        watch={"test": True},
    ),
)
