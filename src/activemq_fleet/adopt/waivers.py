"""Compare the findings of the rendered files with those of the originals, and waive the errors of running brokers.

An error with which no broker starts is never waived.

An inventory that ``adopt`` writes has no error that the original files do not have: an element or attribute that would
cause one is omitted, with a note. If nothing can be omitted, the adoption fails.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from activemq_fleet.adopt.proposal import ProposedVariablesByHost, Variables
from activemq_fleet.errors import InputError
from activemq_fleet.findings import Finding
from activemq_fleet.lint.files import SCHEMA_RULE, rule_prevents_broker_start
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Broker, Fleet
from activemq_fleet.topology.machine_and_port_problems import conflicting_ports_and_findings_of_broker

FindingsOf = Callable[[Fleet, Mapping[str, XmlDocument]], Iterable[Finding]]
"""A function that returns the findings of a fleet with the given activemq.xml by host."""
_MAXIMUM_ATTEMPTS = 50
_PORT_RULE = "V057"


def propose_waivers_for_original_files(proposal: ProposedVariablesByHost, findings_of: FindingsOf) -> None:
    """Propose ``activemq_waivers`` for errors of lint rules that existing files of adopted brokers already have.

    Without the waivers, the rules would stop ``render`` for the hosts concerned. An error with which a broker does not
    start remains an error, with a note. What causes any other error is left out of the proposal. Raises InputError for
    an error that nothing explains.
    """
    errors = _blocking_findings(proposal, findings_of)
    if not errors:
        return
    fleet = proposal.build_proposed_fleet()
    originals = {document.host: XmlDocument(document.content) for document in proposal.documents}
    original_keys = {_finding_key(finding) for finding in findings_of(fleet, originals)}
    for finding in errors:
        if _finding_key(finding) not in original_keys:
            _remove_cause(proposal, finding, findings_of)
    remaining = _blocking_findings(proposal, findings_of)
    start_errors = [finding for finding in remaining if rule_prevents_broker_start(finding.rule)]
    _note_files_that_prevent_start(proposal, start_errors)
    _add_waivers(proposal, _errors_to_waive(fleet, remaining, start_errors))


def add_note_on_remaining_warnings(proposal: ProposedVariablesByHost, findings_of: FindingsOf) -> None:
    """Add notes for the operator to ``proposal`` about warnings that ``check`` will still report after the adoption.

    adopt keeps their causes: ``check`` reports them for the original files, too.
    """
    fleet = proposal.build_proposed_fleet()
    originals = {document.host: XmlDocument(document.content) for document in proposal.documents}
    original_keys = {_finding_key(finding) for finding in findings_of(fleet, originals)}
    rendered = {broker.host: XmlDocument(render_activemq_xml_bytes(broker)) for broker in fleet.brokers}
    hosts_by_rule: dict[str, dict[str, None]] = defaultdict(dict)
    for finding in findings_of(fleet, rendered):
        if finding.severity == "warning" and finding.waived is None and _finding_key(finding) in original_keys:
            hosts_by_rule[finding.rule][finding.host] = None
    rules_by_hosts: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for rule, hosts in sorted(hosts_by_rule.items()):
        rules_by_hosts[tuple(sorted(hosts))].append(rule)
    for named_hosts, common_rules in rules_by_hosts.items():
        proposal.add_note(
            named_hosts,
            f"`activemq-fleet check` reports {', '.join(common_rules)} for the original files, and for the rendered "
            "files too, because adopt does not change your configuration. Correct or ignore these findings after the "
            "adoption",
        )


def _blocking_findings(proposal: ProposedVariablesByHost, findings_of: FindingsOf) -> list[Finding]:
    fleet = proposal.build_proposed_fleet()
    rendered = {broker.host: XmlDocument(render_activemq_xml_bytes(broker)) for broker in fleet.brokers}
    return [finding for finding in findings_of(fleet, rendered) if finding.blocks]


def _finding_key(finding: Finding) -> tuple[str, str, str]:
    """Return the key of a finding, which is equal for the same error in an original and a rendered file."""
    return finding.rule, finding.host, finding.message if finding.rule == SCHEMA_RULE else ""


def _remove_cause(proposal: ProposedVariablesByHost, finding: Finding, findings_of: FindingsOf) -> None:
    """Remove the fragment or broker attribute that causes an error from a host's proposal, or raise InputError."""
    key = _finding_key(finding)
    variables = proposal.variables.get(finding.host, {})
    if key not in map(_finding_key, _blocking_findings(proposal, findings_of)):
        return  # The cause of an earlier error also caused this error.
    for attempt, (part, changed) in enumerate(_variants_without_one_variable(variables)):
        if attempt >= _MAXIMUM_ATTEMPTS:
            break
        variable = f"activemq_{next(iter(changed))}"
        original_variables = dict(variables)
        variables.update(changed)
        if key not in map(_finding_key, _blocking_findings(proposal, findings_of)):
            proposal.add_note(
                [finding.host],
                f"adopt left out {part}, because it would cause the error {finding.rule} in the rendered activemq.xml "
                f"({finding.message}). If the broker needs this configuration, correct it, and add it to {variable}",
                is_urgent=True,
            )
            return
        variables.update(original_variables)
    raise InputError(
        f"{finding.host}: adopt wrote nothing, because the activemq.xml that it would render has the error "
        f"{finding.rule}: {finding.message}. The original file does not have this error, and adopt cannot tell which "
        "part of it leads to the error. In the original file, change or remove the part that the error concerns, and "
        "run adopt again"
    )


def _variants_without_one_variable(variables: Variables) -> Iterator[tuple[str, Variables]]:
    """Yield the variables of a host without one fragment or broker attribute, with its name, for each.

    Fragments of the store are never left out, because the broker could then open another store without messages.
    """
    fragments = variables.get("xml_fragments", [])
    for position, fragment in enumerate(fragments):
        first_line = fragment["xml"].text_with_secret_markers.lstrip().partition(">")[0]
        if first_line.startswith("<persistenceAdapter"):
            continue
        other_fragments = [*fragments[:position], *fragments[position + 1 :]]
        yield " ".join(f"{first_line}>".split()), {"xml_fragments": other_fragments}
    attributes = variables.get("broker_attributes", {})
    for name in attributes:
        other_attributes = {other: value for other, value in attributes.items() if other != name}
        yield f"the attribute {name} of <broker>", {"broker_attributes": other_attributes}


def _errors_to_waive(fleet: Fleet, errors: Iterable[Finding], start_errors: Iterable[Finding]) -> list[Finding]:
    """Return the errors with which a broker starts.

    T006 is omitted if V057 reports that two connectors of the broker use the port, because the broker does not start.
    """
    hosts_with_port_conflict = {finding.host for finding in start_errors if finding.rule == _PORT_RULE}
    reported_by_start_errors = [
        conflict for host in hosts_with_port_conflict for conflict in _conflicts_of_connectors(fleet.broker(host))
    ]
    return [
        finding
        for finding in errors
        if not rule_prevents_broker_start(finding.rule) and finding not in reported_by_start_errors
    ]


def _conflicts_of_connectors(broker: Broker) -> list[Finding]:
    """Return the findings about the ports on which several connectors of a broker listen (T006)."""
    connectors_by_port = Counter(connector.port for connector in broker.connectors)
    return [
        finding for port, finding in conflicting_ports_and_findings_of_broker(broker) if connectors_by_port[port] > 1
    ]


def _note_files_that_prevent_start(proposal: ProposedVariablesByHost, errors: Iterable[Finding]) -> None:
    """Add a note about each original activemq.xml with which no broker of its release starts."""
    releases = {document.host: document.release.text for document in proposal.documents}
    hosts_by_error: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for finding in errors:
        hosts_by_error[finding.rule, finding.message, releases.get(finding.host, "")].append(finding.host)
    for (rule, message, release), hosts in hosts_by_error.items():
        proposal.add_note(
            hosts,
            f"a broker of release {release} does not start with the original activemq.xml, because the file has the "
            f"error {rule} ({message}). Adopt again with the activemq.xml that the broker uses, and set --release to "
            "the release of the broker",
            is_urgent=True,
        )


def _add_waivers(proposal: ProposedVariablesByHost, errors: Iterable[Finding]) -> None:
    messages_by_rule: dict[str, dict[str, str]] = defaultdict(dict)
    for finding in errors:
        messages_by_rule[finding.rule].setdefault(finding.host, finding.message)
    if not messages_by_rule:
        return
    waivers: list[dict[str, Any]] = []
    for rule, message_by_host in sorted(messages_by_rule.items()):
        waiver = {
            "rule": rule,
            "reason": "the original file has this error: correct it, and remove this waiver",
            "hosts": sorted(message_by_host),
        }
        waivers.append(waiver)
        for message in dict.fromkeys(message_by_host.values()):
            hosts_with_message = [host for host, host_message in message_by_host.items() if host_message == message]
            text = (
                f"the original file has the finding {rule} ({message}). `activemq-fleet render` rejects an inventory "
                "with this finding, so adopt added an entry to activemq_waivers. After the adoption, read "
                f"`activemq-fleet rule {rule}`. Then correct the cause and remove the entry, or keep the entry to "
                "accept the finding"
            )
            proposal.add_note(hosts_with_message, text, is_urgent=True)
    for variables in proposal.variables.values():
        variables["waivers"] = waivers
