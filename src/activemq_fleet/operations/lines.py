"""Refuse a new release of another release line where an operation only restarts."""

from __future__ import annotations

from collections.abc import Mapping

from activemq_fleet.errors import ReleaseError
from activemq_fleet.operations.requests import Decision, RefusalError, Request, operation
from activemq_fleet.releases import Release


def line_changes(running: Mapping[str, str | None], wanted: Mapping[str, str]) -> list[str]:
    """Return one line for each host whose running release and inventory release are of different release lines.

    Within a line (5.18.3 to 5.18.6) the store and the files stay what they are, so a restart is all
    it takes. From one line to the next a store may be changed for good.
    """
    return [
        f"{host}: runs {release}, and the inventory says {wanted[host]}: site does not change the release line of a "
        f"broker that runs; the playbook upgrade does, one node of a pair at a time"
        for host, release in sorted(running.items())
        if release and release != wanted[host] and _line(release) != _line(wanted[host])
    ]


def _line(text: str) -> str:
    try:
        return Release.of(text).line
    except ReleaseError:
        return text


@operation("lines")
def decide_lines(request: Request) -> Decision:
    """Return nothing. Raises RefusalError for brokers that run a release of another line than the inventory says."""
    brokers = request.brokers
    # The release of a system's package is the business of whoever installs that.
    running = {
        host: found.get("release")
        for host, found in request.evidence.items()
        if brokers[host].get("install") != "package"
    }
    if changes := line_changes(running, {host: brokers[host]["release"] for host in running}):
        raise RefusalError("nothing was changed:", changes)
    return {}
