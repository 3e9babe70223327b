"""Rules S about published vulnerabilities of a release (``releases/advisories.toml``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.files import ReleaseView
from activemq_fleet.releases import Advisory, Release

_SEVERITIES = ("critical", "important", "moderate", "low")
_UNTIL_THEN = "until then let only brokers and clients reach the ports"
_MOST_NAMED = 3


@rule("S001", "error", scope="release")
def open_to_remote_code(view: ReleaseView) -> Iterator[Problem]:
    """The release executes code sent by anyone who reaches an OpenWire port (CVE-2023-46604).

    Why: no login is needed, and scanners look for it all the time.
    Fix: upgrade. Until then let only brokers and clients reach the ports, and waive this with that reason.
    Cannot see: who can reach the ports. It is a warning where the release's line has no fixed one (before 5.15), and
        for a distribution's package, which may have the fix under the old number.
    Source: the project's advisory of CVE-2023-46604

    Fires on 5.18.2::

        <broker/>

    Fires on 5.5.1::

        <broker/>

    Silent on 5.18.3::

        <broker/>
    """
    release = view.release
    for advisory in release.advisories:
        if advisory.severity == "critical":
            fixed_release = next((fixed for fixed in advisory.fixed_in if fixed.rpartition(".")[0] == release.line), "")
            first = release.security_floor
            if fixed_release:
                first += f" ({fixed_release} fixes {advisory.cve}, and not all that is known since)"
            unless = ", unless the package has the fix" if view.from_package else ""
            yield Problem(
                f"release {release} is open to {advisory.cve}{unless}: {advisory.what}",
                severity="error" if fixed_release and not view.from_package else "warning",
                fix=f"upgrade to {first}; {_UNTIL_THEN}",
            )


@rule("S002", "warning", scope="release")
def below_the_security_floor(view: ReleaseView) -> Iterator[Problem]:
    """The release is open to published vulnerabilities that a newer one fixes.

    Why: each of them is public, with the change that fixes it.
    Fix: upgrade. Until then let only brokers and clients reach the ports, and waive this with that reason.
    Cannot see: who can reach the ports, which is why it is a warning, and what was announced later.
    Source: the project's announcements up to September 2026

    Fires on 5.18.3::

        <broker/>

    Fires on 6.3.1::

        <broker/>

    Silent on 6.3.2::

        <broker/>
    """
    release = view.release
    others = [advisory for advisory in release.advisories if advisory.severity != "critical"]
    if not release.meets_security_floor:
        message = f"release {release} is older than {release.security_floor} and open to {_cves_text(release, others)}"
        yield Problem(message, fix=f"upgrade to {release.security_floor}; {_UNTIL_THEN}")


def _cves_text(release: Release, advisories: Sequence[Advisory]) -> str:
    """Return the gravest CVE numbers as text, few enough for a finding that every broker of the release has."""
    cves = [advisory.cve for advisory in sorted(advisories, key=lambda advisory: _SEVERITIES.index(advisory.severity))]
    if len(cves) <= _MOST_NAMED:
        return ", ".join(cves) or f"what {release.security_floor} fixes"
    return f"{', '.join(cves[:_MOST_NAMED])} and {len(cves) - _MOST_NAMED} more"
