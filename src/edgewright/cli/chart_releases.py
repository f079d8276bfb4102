"""What people do with objects that charts serve: list, status, diff, history, rollback, suspend, resume, retry, why.

`chart` adds these to its group. An object is named as kubectl names it, KIND/NAME. What changes something is one
conditional write on the object; releases themselves are changed by the operator alone.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from edgewright.cli import printing, terminal
from edgewright.cli.cluster import AllNamespaces, Context, Kubeconfig, Namespace, Place, place
from edgewright.cli.failure import Failed
from edgewright.cli.options import Format, Output
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import Conflict, NotFound
from edgewright.runtime.objects import Key, Kind, RawObject

if TYPE_CHECKING:
    from edgewright.controllers.chart.releases import Revision, Stored

Target = Annotated[
    str, typer.Argument(metavar="KIND/NAME", help="The object, such as minimart/shop.", show_default=False)
]
Kinds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KIND]...", help="The kinds; default: those in the watches file here.", show_default=False),
]
WatchesFile = Annotated[Path, typer.Option("--watches", "--watches-file", help="The file that names the kinds.")]
_TRIES: Final = 5


@dataclass(frozen=True)
class Found:
    """An object and its kind."""

    kind: Kind
    body: RawObject

    @property
    def key(self) -> Key:
        """Where it is."""
        return Key(self.body["metadata"].get("namespace", ""), self.body["metadata"]["name"])


# --- commands -------------------------------------------------------------------------------------------------------


def list_(
    kinds: Kinds = None,
    *,
    watches: WatchesFile = Path("watches.yaml"),
    output: Output = Format.TEXT,
    all_namespaces: AllNamespaces = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List the objects that charts serve, with the state of their releases."""
    from edgewright.cli import chart_text  # noqa: PLC0415 - other commands need none of it

    where = place(kubeconfig, context, namespace, all_namespaces=all_namespaces)

    async def work(client: Client) -> list[Found]:
        found = []
        for kind in await _kinds(client, kinds or _from_file(watches)):
            page = await client.raw(kind).list(where.searched)
            found += [Found(kind, each) for each in page.items]
        return sorted(found, key=lambda each: (each.key, each.kind.kind))

    found = where.run(work)
    if output is not Format.TEXT:
        _give([printing.cleaned(each.body, each.kind) for each in found], output)
        return
    if not found:
        terminal.say("There are no objects that charts serve.")
        return
    now = SystemClock().now()
    head = [*(["NAMESPACE"] if all_namespaces else []), *chart_text.HEAD]
    rows = [chart_text.row(each.body, each.kind.kind, now=now, namespaces=all_namespaces) for each in found]
    terminal.give(printing.table(head, rows, colour=terminal.coloured(sys.stdout), width=terminal.width(sys.stdout)))


def status(
    target: Target,
    *,
    output: Output = Format.TEXT,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show how one release stands: its state, its conditions, and why it is not ready."""
    from edgewright.cli import chart_text  # noqa: PLC0415

    where = place(kubeconfig, context, namespace)
    found = where.run(lambda client: _find(client, where, target))
    if output is not Format.TEXT:
        _give(printing.cleaned(found.body, found.kind).get("status", {}), output)
        return
    terminal.give("".join(f"{line}\n" for line in chart_text.lines(found.body, found.kind.kind)))


def why(target: Target, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """Say in a sentence why an object is not ready, and what to do."""
    from edgewright.cli import chart_text  # noqa: PLC0415

    where = place(kubeconfig, context, namespace)
    found = where.run(lambda client: _find(client, where, target))
    terminal.give(f"{found.kind.kind} {found.key.name}: {chart_text.why(found.body, found.kind.kind)}\n")


def history(
    target: Target,
    *,
    output: Output = Format.TEXT,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List the stored revisions of a release, oldest first, as `helm history` does."""
    from edgewright.cli import chart_text  # noqa: PLC0415

    where = place(kubeconfig, context, namespace)

    async def work(client: Client) -> list[tuple[Revision, Stored]]:
        return await _stored(client, (await _find(client, where, target)).key)

    found, now = where.run(work), SystemClock().now()
    if not found:
        raise Failed(f"{target} has no stored revision: nothing has been installed")
    rows = [chart_text.history_row(revision, stored, now=now) for revision, stored in found]
    if output is not Format.TEXT:
        _give([dict(zip((each.lower() for each in chart_text.HISTORY_HEAD), row, strict=True)) for row in rows], output)
        return
    terminal.give(printing.table(chart_text.HISTORY_HEAD, rows, width=terminal.width(sys.stdout)))


def diff(
    target: Target, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> None:
    """Show what of a release is not as it was applied, and which values the operator has not acted on yet."""
    where = place(kubeconfig, context, namespace)
    lines = where.run(lambda client: _differences(client, where, target))
    terminal.give("".join(f"{line}\n" for line in lines) or f"{target}: no differences\n")


def rollback(
    target: Target,
    revision: Annotated[int, typer.Argument(help="The revision; default: the last good one before.")] = 0,
    *,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Give an object the values of an earlier revision; the operator then upgrades its release."""
    where = place(kubeconfig, context, namespace)
    chosen = where.run(lambda client: _roll_back(client, where, target, revision))
    terminal.say(
        f"{target} has the values of revision {chosen}. Follow it with: edgewright chart status {target}{where.typed}"
    )


def suspend(
    target: Target, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> None:
    """Leave a release alone, whatever happens to its object or to what belongs to it, until it is resumed."""
    where = place(kubeconfig, context, namespace)
    where.run(lambda client: _annotate(client, where, target, {_names().SUSPEND: "true"}))
    terminal.say(f"{target} is suspended; `edgewright chart resume {target}{where.typed}` ends that.")


def resume(
    target: Target, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> None:
    """Have the operator look after a suspended release again."""
    where = place(kubeconfig, context, namespace)
    where.run(lambda client: _annotate(client, where, target, {_names().SUSPEND: None}))
    terminal.say(f"{target} is resumed. Follow it with: edgewright chart status {target}{where.typed}")


def retry(
    target: Target, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> None:
    """Try what failed again at once, also where it had failed as often as is allowed."""
    where = place(kubeconfig, context, namespace)
    moment = SystemClock().now().isoformat()
    where.run(lambda client: _annotate(client, where, target, {_names().RETRY: moment}))
    terminal.say(f"{target} is tried again. Follow it with: edgewright chart status {target}{where.typed}")


# --- inside ---------------------------------------------------------------------------------------------------------


def _names() -> Any:
    from edgewright.controllers.chart import policy  # noqa: PLC0415 - the names of the annotations

    return policy


def _give(document: Any, output: Format) -> None:
    form = printing.Form(printing.Style.JSON if output is Format.JSON else printing.Style.YAML)
    terminal.give(printing.as_text(document, form))


def _from_file(path: Path) -> list[str]:
    """The kinds that a watches file names, as kubectl would name them."""
    import yaml  # noqa: PLC0415 - YAML takes long to import

    from edgewright.runtime.yaml_loader import load  # noqa: PLC0415

    try:
        entries = load(path.read_text(encoding="utf-8"))
        return [f"{each['kind']}.{each.get('group', '')}" for each in entries]
    except FileNotFoundError:
        raise Failed(f"there is no {path} here: name the kinds, or the file with --watches") from None
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise Failed(f"{path}: cannot be read as a watches file: {' '.join(str(error).split())}") from error


async def _kinds(client: Client, names: list[str]) -> list[Kind]:
    """Where kinds are served that were named as kubectl names them: by kind, plural or singular, also with group."""
    from edgewright.controllers.chart.definitions import DEFINITION  # noqa: PLC0415

    known: dict[str, Kind] = {}
    for each in (await client.raw(DEFINITION).list()).items:
        spec = each["spec"]
        version = next((one["name"] for one in spec["versions"] if one.get("storage")), "")
        kind = Kind(group=spec["group"], version=version, kind=spec["names"]["kind"], plural=spec["names"]["plural"])
        words = (spec["names"]["kind"], spec["names"]["plural"], spec["names"].get("singular", ""))
        for word in filter(None, words):
            known.setdefault(word.lower(), kind)
            known[f"{word.lower()}.{kind.group}"] = kind
    found = []
    for name in names:
        if name.lower().rstrip(".") not in known:
            raise Failed(f"the server does not serve a kind {name}: name it as kubectl does, such as minimarts")
        found.append(known[name.lower().rstrip(".")])
    return found


async def _find(client: Client, where: Place, target: str) -> Found:
    word, slash, name = target.partition("/")
    if not slash or not word or not name:
        raise Failed(f"{target!r} is not KIND/NAME, such as minimart/shop")
    (kind,) = await _kinds(client, [word])
    try:
        return Found(kind, await client.raw(kind).get(where.key(name)))
    except NotFound:
        raise Failed(f"there is no {kind.kind} {name} in namespace {where.namespace}") from None


async def _annotate(client: Client, where: Place, target: str, change: dict[str, str | None]) -> None:
    await _patch(client, where, target, lambda _: {"metadata": {"annotations": change}})


async def _patch(client: Client, where: Place, target: str, change: Any) -> None:
    """One conditional write, made again where somebody else was quicker."""
    for _ in range(_TRIES):
        found = await _find(client, where, target)
        try:
            await client.raw(found.kind).patch(
                found.key, change(found), resource_version=found.body["metadata"]["resourceVersion"]
            )
        except Conflict:
            continue
        return
    raise Failed(f"others keep changing {target}: try again")


async def _stored(client: Client, key: Key) -> list[tuple[Revision, Stored]]:
    from edgewright.controllers.chart.releases import content_of  # noqa: PLC0415
    from edgewright.controllers.chart.storage import Storage  # noqa: PLC0415

    return [(each, content_of(each)) for each in await Storage(client).history(key)]


async def _roll_back(client: Client, where: Place, target: str, revision: int) -> int:
    """Puts the values of a revision into the object, and says which revision it was."""
    from edgewright.controllers.chart.releases import SOURCES_LABEL  # noqa: PLC0415

    found = await _find(client, where, target)
    stored = await _stored(client, found.key)
    earlier = [each for each, _ in stored[:-1] if each.status in {"superseded", "deployed"}]
    chosen = revision or (earlier[-1].version if earlier else 0)
    values = next((content.config for each, content in stored if each.version == chosen), None)
    # What came from a Secret is stored with the rest, and must not be written into a spec that many can read.
    if any(each.version == chosen and each.metadata.labels.get(SOURCES_LABEL) == "true" for each, _ in stored):
        raise Failed(
            f"{target} takes values from ConfigMaps or Secrets (valuesFrom): change them, and the spec, by hand"
        )
    if values is None:
        known = ", ".join(str(each.version) for each, _ in stored) or "none"
        raise Failed(f"{target} has no revision {chosen or 'to go back to'}: there are {known}")

    def change(now: Found) -> dict[str, Any]:
        gone = dict.fromkeys(now.body.get("spec") or {})
        return {"spec": {**gone, **_replacing(now.body.get("spec") or {}, values)}}

    await _patch(client, where, target, change)
    return chosen


def _replacing(old: Any, new: Any) -> Any:
    """A merge patch that makes one mapping another: what is gone is null."""
    gone = {key: None for key in old if key not in new} if isinstance(old, dict) else {}
    return {
        **gone,
        **{
            key: _replacing(old.get(key), value) if isinstance(value, dict) and isinstance(old, dict) else value
            for key, value in new.items()
        },
    }


async def _differences(client: Client, where: Place, target: str) -> list[str]:
    from edgewright.controllers.chart import drift  # noqa: PLC0415
    from edgewright.controllers.chart.dependents import HELM  # noqa: PLC0415
    from edgewright.controllers.chart.discovery import Discovery  # noqa: PLC0415
    from edgewright.controllers.chart.manifests import as_applied, parts  # noqa: PLC0415
    from edgewright.controllers.chart.releases import release_name  # noqa: PLC0415

    found = await _find(client, where, target)
    stored = await _stored(client, found.key)
    if not stored:
        raise Failed(f"{target} has no stored revision: nothing has been installed")
    _, content = stored[-1]
    spec = found.body.get("spec") or {}
    lines = [f"values: {path}" for path in drift.differences(dict(content.config), spec)]
    discovery, namespace = Discovery(client), found.key.namespace
    for part in parts(content.manifest):
        kind = await discovery.kind_of(part.type)
        if kind is None:
            lines.append(f"{part}: the kind is not served")
            continue
        key = Key(part.namespace or namespace if kind.namespaced else "", part.name)
        try:
            live = await client.raw(kind).get(key)
        except NotFound:
            lines.append(f"{part}: missing")
            continue
        body = as_applied(part, release=release_name(found.key.name), namespace=namespace, target=key.namespace)
        mine = drift.with_ignored(body, live, ())
        result = await client.raw(kind).apply(mine, manager=HELM, force=True, dry_run=True)
        lines += [f"{part}: {path}" for path in drift.changed_paths(live, result)]
    return lines
