"""Refuse to change hosts where the rules about hosts find an error."""

from __future__ import annotations

from activemq_fleet.operations.requests import Decision, RefusalError, Request, operation
from activemq_fleet.validation import preflight


@operation("preflight")
def decide_preflight(request: Request) -> Decision:
    """Return the findings about the machines in ``evidence``. Raises RefusalError for an error that is not waived."""
    findings = preflight(request.brokers, request.evidence, request.waivers)
    if blocking := [finding.to_line() for finding in findings if finding.blocks]:
        raise RefusalError("nothing was changed, because of what the hosts show:", blocking)
    for finding in findings:
        if finding.severity != "info":
            request.warn(finding.to_line())
    return {"findings": [finding.to_dict() for finding in findings]}
