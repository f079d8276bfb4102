"""The rules of CronJobs, which make Jobs at given times."""

from __future__ import annotations

import re
import zoneinfo

from edgewright.local import schedules
from edgewright.local.builtin import checks, job, poddefaults, workloads
from edgewright.local.field_errors import invalid, required, unsupported
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_POLICIES = ("Allow", "Forbid", "Replace")
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_MAX_NAME = 52


class CronJobRules(workloads.WorkloadRules):
    """What is special about CronJobs."""

    definition = "io.k8s.api.batch.v1.CronJob"
    template_path = ("spec", "jobTemplate", "spec", "template")
    orphans = False
    fixed = ()

    def default(self, obj: RawObject) -> None:
        """Jobs may overlap; the last three that succeeded are kept, and the last one that failed."""
        spec = obj["spec"]
        poddefaults.fill_spec(self.template(obj)["spec"])
        job.fill_policies(spec["jobTemplate"]["spec"])
        workloads.fill(spec, {"concurrencyPolicy": "Allow", "suspend": False})
        workloads.fill(spec, {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1})

    def spec_faults(self, obj: RawObject, old: RawObject | None) -> list[Cause]:
        """The schedule must be one, and its Jobs must be possible."""
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        causes = _schedule_faults(spec, old)
        for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            causes += checks.not_negative(f"spec.{field}", spec.get(field) or 0)
        if old is None or old["spec"].get("timeZone") != spec.get("timeZone"):
            causes += _zone_faults(spec.get("timeZone"))
        causes += checks.one_of("spec.concurrencyPolicy", spec["concurrencyPolicy"], _POLICIES)
        causes += job.spec_faults(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")
        path, jobs = "spec.jobTemplate.spec", spec["jobTemplate"]["spec"]
        if jobs.get("selector") is not None:
            causes.append(invalid(f"{path}.selector", jobs["selector"], "`selector` will be auto-generated"))
        if jobs.get("manualSelector"):
            causes.append(unsupported(f"{path}.manualSelector", True, ("nil", "false")))
        if old is None and len(name) > _MAX_NAME:
            causes.append(invalid("metadata.name", name, f"must be no more than {_MAX_NAME} characters"))
        return causes


def _schedule_faults(spec: RawObject, old: RawObject | None) -> list[Cause]:
    text = spec.get("schedule", "")
    if not text:
        return [required("spec.schedule")]
    causes = []
    try:
        schedules.parse(text)
    except schedules.BadSchedule as wrong:
        causes.append(invalid("spec.schedule", text, str(wrong)))
    if "TZ" in text and not (old and "TZ" in old["spec"]["schedule"]):
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        causes.append(invalid("spec.schedule", text, why))
    return causes


def _zone_faults(zone: str | None) -> list[Cause]:
    if zone is None:
        return []
    if not zone:
        return [invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")]
    if any(part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part) for part in zone.split("/")):
        return [invalid("spec.timeZone", zone, f"unknown time zone {zone}")]
    if zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [invalid("spec.timeZone", zone, why)]
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return [invalid("spec.timeZone", zone, f"unknown time zone {zone}")]
    return []
