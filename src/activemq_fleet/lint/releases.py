"""Run the release rules, which depend on the release alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from activemq_fleet.findings import Finding
from activemq_fleet.lint.problems import findings_of
from activemq_fleet.lint.selection import Selection
from activemq_fleet.lint.table import rules
from activemq_fleet.releases import Release


@dataclass(frozen=True, slots=True)
class ReleaseView:
    """The subject of release rules.

    ``from_package`` is True where a distribution built the release, which may backport fixes.
    """

    release: Release
    from_package: bool = False


def release_findings(
    view: ReleaseView, selection: Selection, *, host: str = "", file: str | None = None
) -> tuple[Finding, ...]:
    """Return the findings of the release rules, about a host of a fleet or about a file of no fleet."""
    return tuple(replace(finding, host=host, file=file) for finding in _findings(view, selection))


@lru_cache(maxsize=512)
def _findings(view: ReleaseView, selection: Selection) -> tuple[Finding, ...]:
    asked = (one for one in rules("release") if selection.takes(one.id) and one.applies_to(view.release))
    return tuple(finding for one in asked for finding in findings_of(one, one.check(view), ""))
