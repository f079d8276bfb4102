"""Any Helm chart as a custom resource: the kinds that a watches file names, and one Helm release per object.

`controllers.operator` adds it where `edgewright run --watches` asks for it. The order of the data: `watches` (what is
served) → `decisions` (what to do, from the stored releases) → `helm` (who does it) → `status` (what is shown).
"""
