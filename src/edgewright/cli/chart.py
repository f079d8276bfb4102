"""`edgewright chart`: the project of an operator whose kind is served by a Helm chart, and the releases of its objects.

`init` writes what people know from `operator-sdk init --plugins helm`; the project's own Makefile does the rest.
Nothing that exists already is written over. The other commands are in `chart_releases`.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Annotated

import typer

from edgewright.cli import chart_releases
from edgewright.cli.failure import Failed

app = typer.Typer(
    help="Helm charts as custom resources: the project of such an operator, and its releases.", no_args_is_help=True
)
app.command("list")(chart_releases.list_)
app.command("status")(chart_releases.status)
app.command("why")(chart_releases.why)
app.command("history")(chart_releases.history)
app.command("diff")(chart_releases.diff)
app.command("rollback")(chart_releases.rollback)
app.command("suspend")(chart_releases.suspend)
app.command("resume")(chart_releases.resume)
app.command("retry")(chart_releases.retry)

_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")


@app.command("init")
def init(
    *,
    plugins: Annotated[str, typer.Option("--plugins", help="What serves the kind; there is helm alone.")] = "helm",
    domain: Annotated[
        str, typer.Option("--domain", help="The end of the API group, such as example.com.")
    ] = "my.domain",
    helm_chart: Annotated[
        str,
        typer.Option(
            "--helm-chart",
            metavar="CHART",
            help="A folder, an archive or its URL, oci://REGISTRY/CHART, REPOSITORY/CHART as `helm repo` knows it, or "
            "a name with --helm-chart-repo; it is copied. Default: the chart that Helm makes for a new one of --kind.",
            show_default=False,
        ),
    ] = "",
    helm_chart_repo: Annotated[
        str,
        typer.Option(
            "--helm-chart-repo", metavar="URL", help="The repository that --helm-chart is in.", show_default=False
        ),
    ] = "",
    helm_chart_version: Annotated[
        str,
        typer.Option(
            "--helm-chart-version",
            metavar="VERSION",
            help="Of a chart in a repository or registry; default: the newest.",
            show_default=False,
        ),
    ] = "",
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="The registry of oci:// has no TLS.", show_default=False)
    ] = False,
    group: Annotated[str, typer.Option("--group", help="The beginning of the API group.")] = "charts",
    version: Annotated[str, typer.Option("--version", help="The version of the API.")] = "v1alpha1",
    kind: Annotated[
        str | None, typer.Option("--kind", help="The kind; default: from the chart's name.", show_default=False)
    ] = None,
    project_name: Annotated[
        str | None,
        typer.Option("--project-name", help="Default: the name of the folder.", show_default=False),
    ] = None,
    folder: Annotated[Path, typer.Option("--folder", help="Where the project is written.")] = Path(),
) -> None:
    """Write the project of an operator that serves a kind by a Helm chart."""
    from edgewright.cli import chart_project, chart_source  # noqa: PLC0415 - other commands need none of it
    from edgewright.controllers.chart.helm import Source  # noqa: PLC0415

    if plugins != "helm":
        raise typer.BadParameter(f"{plugins!r} is not helm", param_hint="--plugins")
    folder = folder.absolute()
    project = project_name or folder.name.lower()
    for option, text, pattern in (
        ("--domain", domain, _DOMAIN),
        ("--group", group, _GROUP),
        ("--version", version, _VERSION),
        ("--project-name", project, _GROUP),
    ):
        if not pattern.fullmatch(text):
            raise typer.BadParameter(f"{text!r} cannot be used in names of Kubernetes", param_hint=option)
    if not helm_chart and (kind is None or helm_chart_repo or helm_chart_version):
        raise typer.BadParameter("name the chart, or a --kind alone for a new one", param_hint="--helm-chart")
    source = Source(
        chart=helm_chart or str(kind).lower(),
        repo=helm_chart_repo,
        version=helm_chart_version,
        plain_http=plain_http,
        new=not helm_chart,
    )
    with chart_source.opened(source) as found:
        try:
            chart = chart_project.read_chart(found)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--helm-chart") from None
        chosen = kind or chart_project.kind_of(chart.name)
        if not _KIND.fullmatch(chosen):
            raise typer.BadParameter(f"{chosen!r} is not a kind such as Minimart", param_hint="--kind")
        plan = chart_project.Plan(
            project=project, domain=domain, short_group=group, version=version, kind=chosen, chart=chart
        )
        try:
            rules = asyncio.run(chart_project.rules_of(plan))
        except chart_project.Unrenderable as error:
            raise Failed(f"{source.chart}: the chart does not render with its default values: {error}") from error
        written = chart_project.write(folder, plan, rules)
    print(f"{plan.project}: {written} files, kind {plan.kind} in {plan.group}/{plan.version}")
    print("Next: make install run, and kubectl apply -f", Path("config/samples") / plan.sample)
