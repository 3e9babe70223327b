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
    Cannot see: who can reach the ports. A file without a broker, or whose connectors do not speak OpenWire, has no
        such finding. It is a warning where the release's line has no fixed one (before 5.15), and
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
    if view.exposure != "openwire":
        return
    further = sum(advisory.severity != "critical" for advisory in release.advisories)
    for advisory in release.advisories:
        if advisory.severity == "critical":
            fixed_release = next((fixed for fixed in advisory.fixed_in if fixed.rpartition(".")[0] == release.line), "")
            first = release.security_floor
            if fixed_release:
                first += f" ({fixed_release} fixes {advisory.cve}, and not all that is known since)"
            unless = ", unless the package has the fix" if view.from_package else ""
            yield Problem(
                f"release {release} is open to {advisory.cve}{unless}: {advisory.what}"
                + (f"; {further} further vulnerabilities are published" if further else ""),
                severity="error" if fixed_release and not view.from_package else "warning",
                fix=f"upgrade to {first}; {_UNTIL_THEN}",
            )


@rule("S002", "warning", scope="release")
def below_the_security_floor(view: ReleaseView) -> Iterator[Problem]:
    """The release is open to published vulnerabilities that a newer one fixes.

    Why: each of them is public, with the change that fixes it.
    Fix: upgrade. Until then let only brokers and clients reach the ports, and waive this with that reason.
    Cannot see: who can reach the ports, which is why it is a warning, and what was announced later. S001 asks for the
        same upgrade: where it is reported, this is not.
    Source: the project's announcements up to September 2026

    Fires on 5.18.3::

        <broker/>

    Fires on 6.3.1::

        <broker/>

    Silent on 6.3.2::

        <broker/>
    """
    release = view.release
    if view.exposure == "no broker":
        return
    has_openwire = view.exposure == "openwire"
    others = [advisory for advisory in release.advisories if advisory.severity != "critical" or not has_openwire]
    if not release.meets_security_floor:
        message = f"release {release} is older than {release.security_floor} and open to {_cves_text(release, others)}"
        until_then = "" if view.exposure == "no port" else f"; {_UNTIL_THEN}"
        yield Problem(message, fix=f"upgrade to {release.security_floor}{until_then}")


def _cves_text(release: Release, advisories: Sequence[Advisory]) -> str:
    """Return the gravest CVE numbers as text, few enough for a finding that every broker of the release has."""
    cves = [advisory.cve for advisory in sorted(advisories, key=lambda advisory: _SEVERITIES.index(advisory.severity))]
    if len(cves) <= _MOST_NAMED:
        return ", ".join(cves) or f"what {release.security_floor} fixes"
    return f"{', '.join(cves[:_MOST_NAMED])} and {len(cves) - _MOST_NAMED} more"
