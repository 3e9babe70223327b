"""Rules S about published vulnerabilities of a release (``releases/advisories.toml``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.files import InstalledReleaseFacts
from activemq_fleet.releases import Advisory, Release, supported_release_lines

_SEVERITIES = ("critical", "important", "moderate", "low")
_INTERIM_FIX = "until then, permit connections to the ports only from brokers and clients"
_MAX_LISTED_CVES = 3


@rule("S001", "error", scope="release")
def remote_code_execution_over_openwire(facts: InstalledReleaseFacts) -> Iterator[Problem]:
    """The release executes code sent by any client that reaches an OpenWire port (CVE-2023-46604).

    Why: the attack requires no authentication, and scanners search for such brokers continuously.
    Fix: upgrade the broker to the release that the finding names. Until then, permit connections to its ports only from
        brokers and clients.
    Cannot see: who can reach the ports. The rule does not report a file without a broker, or without OpenWire
        connectors. The finding is a warning if the release line has no fixed release (before 5.15). It is also a
        warning for a package of a Linux distribution, which may contain the fix without a new version number.
    Source: the project's advisory of CVE-2023-46604

    Fires on 5.18.2::

        <broker/>

    Fires on 5.5.1::

        <broker/>

    Silent on 5.18.3::

        <broker/>
    """
    release = facts.release
    if facts.exposure != "openwire":
        return
    further = sum(advisory.severity != "critical" for advisory in release.advisories)
    for advisory in release.advisories:
        if advisory.severity == "critical":
            fixed_release = next((fixed for fixed in advisory.fixed_in if fixed.rpartition(".")[0] == release.line), "")
            upgrade_target = release.security_floor
            if fixed_release:
                upgrade_target += f" ({fixed_release} fixes {advisory.cve}, but not all later vulnerabilities)"
            package_note = ", unless the package has the fix" if facts.from_package else ""
            yield Problem(
                f"release {release} is affected by {advisory.cve}{package_note}: {advisory.what}"
                + (f" ({further} further vulnerabilities are published)" if further else ""),
                severity="error" if fixed_release and not facts.from_package else "warning",
                fix=f"upgrade to {upgrade_target}; {_INTERIM_FIX}",
            )


@rule("S002", "warning", scope="release")
def release_with_known_vulnerabilities(facts: InstalledReleaseFacts) -> Iterator[Problem]:
    """The release is affected by published vulnerabilities that a newer release fixes.

    Why: attackers can read the description of each vulnerability and the change that fixes it.
    Fix: upgrade the broker. Until then, permit connections to its ports only from brokers and clients.
    Cannot see: who can reach the ports, and later advisories. The finding is therefore a warning. If S001 reports the
        same upgrade, this rule does not report it.
    Source: the project's announcements up to September 2026

    Fires on 5.18.3::

        <broker/>

    Fires on 6.3.1::

        <broker/>

    Silent on 6.3.2::

        <broker/>
    """
    release = facts.release
    if facts.exposure == "no broker":
        return
    has_openwire = facts.exposure == "openwire"
    others = [advisory for advisory in release.advisories if advisory.severity != "critical" or not has_openwire]
    if not release.meets_security_floor:
        message = (
            f"release {release} is older than {release.security_floor} and affected by {_cves_text(release, others)}"
        )
        interim_fix = "" if facts.exposure == "no port" else f"; {_INTERIM_FIX}"
        yield Problem(message, fix=f"upgrade to {release.security_floor}{interim_fix}")


@rule("S022", "info", scope="release")
def release_line_without_security_fixes(facts: InstalledReleaseFacts) -> Iterator[Problem]:
    """The release belongs to a release line that gets no security fixes any more.

    Why: a vulnerability that is published from now on stays open on this line. Only an upgrade to another line fixes
        it, which takes more preparation than a patch of the same line.
    Fix: plan the upgrade to a line that gets security fixes, with the playbook upgrade.
    Cannot see: packages of a Linux distribution, which may contain fixes without a new version number, and paid
        support.
    Source: SECURITY.md of ActiveMQ's source repository, 21 August 2026

    Fires on 5.18.7::

        <broker/>

    Silent on 5.19.11::

        <broker/>

    Silent on 6.3.2::

        <broker/>
    """
    release = facts.release
    if facts.exposure == "no broker" or release.gets_security_fixes:
        return
    lines = supported_release_lines()
    nearest = next((line for line in lines if line.startswith(f"{release.version[0]}.")), lines[-1])
    yield Problem(
        f"the release line {release.line} gets no security fixes: only the lines {', '.join(lines[:-1])} and "
        f"{lines[-1]} get them",
        fix=f"plan the upgrade to {nearest} or a newer line",
    )


def _cves_text(release: Release, advisories: Sequence[Advisory]) -> str:
    """Return the CVE numbers of the most severe advisories as text that is short enough for a finding."""
    cves = [advisory.cve for advisory in sorted(advisories, key=lambda advisory: _SEVERITIES.index(advisory.severity))]
    if len(cves) <= _MAX_LISTED_CVES:
        return ", ".join(cves) or f"the vulnerabilities that {release.security_floor} fixes"
    return f"{', '.join(cves[:_MAX_LISTED_CVES])} and {len(cves) - _MAX_LISTED_CVES} more"
