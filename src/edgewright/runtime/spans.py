"""Spans of time as people say them: how long something takes, and how long ago it was. Pure."""

from __future__ import annotations

from datetime import datetime


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago something was, as kubectl says it."""
    return "<none>" if moment is None else span((now - moment).total_seconds())


def span(seconds: float) -> str:
    """So many seconds as people say it: 45s, 10m, 3h20m, 2d."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if minutes < 120:
        rest = whole % 60
        return f"{minutes}m{rest}s" if rest and minutes < 10 else f"{minutes}m"
    if hours < 48:
        rest = minutes % 60
        return f"{hours}h{rest}m" if rest and hours < 8 else f"{hours}h"
    return f"{days}d"
