"""Refuse to change hosts that do not meet the requirements of a playbook.

The requirements are the host rules, a shared store that can be used, and the release of the inventory in the host's
release directory or archive.
"""

from __future__ import annotations

from dataclasses import replace

from activemq_fleet.become_failures import remedies_for_dropped_hosts
from activemq_fleet.deployment import BrokerFacts
from activemq_fleet.findings import merged_finding_lines
from activemq_fleet.node.state.evidence import MachineFacts, StoreMarkerEvidence
from activemq_fleet.operations.operation_decisions import (
    Decision,
    OperationDecisionRequest,
    RefusalError,
    read_evidence_by_host,
    register_operation,
)
from activemq_fleet.operations.release_and_archive_preflight import (
    raise_for_release_line_changes,
    refusal_for_unusable_or_wrong_release_files,
)
from activemq_fleet.operations.running_stores import fenced_store_lines, store_change_line_by_pair
from activemq_fleet.operations.shared_store_markers import unusable_shared_store_lines
from activemq_fleet.validation import preflight_findings

_UNMET_REQUIREMENTS = (
    "nothing was changed, because hosts do not meet the requirements of the playbook. Correct these errors, and run "
    "the playbook again:"
)


@register_operation("preflight", read=MachineFacts.from_machine_info_result)
def host_rule_findings(request: OperationDecisionRequest) -> Decision:
    """Return the findings of host rules, which check the machines of brokers before a playbook changes them.

    The machines are those in ``evidence``. ``options``: ``check_mode``, whether the run changes nothing, ``upgrades``,
    whether the run may change release lines and replace directories from which brokers run, ``stores``, the results of
    the module ``store_marker`` by host, and the hosts of ``raise_for_unreachable_hosts``. Raises RefusalError for lost
    hosts, for a change of the release line, for a directory or an archive that does not hold the expected release, for
    another store of a running broker, an unusable store, and for an error that is not waived. One error has the
    problems of releases, stores and rules together.
    """
    raise_for_unreachable_hosts(request)
    if not request.options.get("upgrades"):
        raise_for_release_line_changes(request)
    machines = dict(request.evidence)
    if request.options.get("check_mode"):
        for host, machine in request.evidence.items():
            machines[host], warning = facts_without_manual_broker_ports_and_warning(
                machine, request.broker_facts_by_host[host]
            )
            if warning:
                request.warn(warning)
    findings = preflight_findings(request.broker_facts_by_host, machines, request.fleet.waivers)
    release_refusal = refusal_for_unusable_or_wrong_release_files(request)
    unmet = [
        *_store_problems(request),
        *merged_finding_lines(finding for finding in findings if finding.blocks),
    ]
    if unmet:
        raise RefusalError(_UNMET_REQUIREMENTS, [*(release_refusal.problems if release_refusal else ()), *unmet])
    if release_refusal:
        raise release_refusal
    for line in merged_finding_lines(finding for finding in findings if finding.severity != "info"):
        request.warn(line)
    return {"findings": [finding.to_dict() for finding in findings]}


def facts_without_manual_broker_ports_and_warning(
    host_facts: MachineFacts, broker: BrokerFacts
) -> tuple[MachineFacts, str]:
    """Return (facts, warning): a host's facts without the broker that the playbook replaces, and a warning about it.

    The old broker runs from ``activemq_home``, or in the unit of the new one, and may use its ports. The warning is ""
    without an old broker. With --check, the broker that an adopted inventory describes may run until the playbook
    starts its successor.
    """
    replaced_pids = [replaced.pid for replaced in host_facts.replaced_brokers]
    manual_broker_ports = [
        taken_port
        for taken_port in host_facts.taken_ports
        if taken_port.pid in host_facts.home_processes or taken_port.pid in replaced_pids
    ]
    if not manual_broker_ports and not replaced_pids:
        return host_facts, ""
    other_ports = tuple(taken_port for taken_port in host_facts.taken_ports if taken_port not in manual_broker_ports)
    stop = f"Stop it, and disable its service if that is not {broker.unit_name}, before you run the playbook without "
    if manual_broker_ports:
        ports = ", ".join(str(taken_port.port) for taken_port in manual_broker_ports)
        text = (
            f"{broker.host}: a broker that runs from {broker.home} (pid {manual_broker_ports[0].pid}) uses these ports "
            f"of the new broker: {ports}"
        )
    else:
        text = (
            f"{broker.host}: the broker of the directory {host_facts.replaced_brokers[0].base}, which the playbook "
            f"replaces, still runs (pid {replaced_pids[0]})"
        )
    return replace(host_facts, taken_ports=other_ports, replaced_brokers=()), f"{text}. {stop}--check"


@register_operation("reachability")
def raise_for_unreachable_hosts(request: OperationDecisionRequest) -> Decision:
    """Raise RefusalError if required hosts of a play are unreachable.

    ``required`` hosts are not among the ``remaining`` ones (``options``). ``results`` of ``options`` are the registered
    results of the play's tasks, each by host.
    """
    remaining = set(request.options.get("remaining", ()))
    unreachable_hosts = [host for host in request.options.get("required", ()) if host not in remaining]
    if unreachable_hosts:
        limit_pattern = ":".join(["all", *(f"!{host}" for host in unreachable_hosts)])
        remedy = remedies_for_dropped_hosts(
            unreachable_hosts, request.options.get("results", ()), "correct the error above"
        )
        raise RefusalError(
            f"nothing was changed, because these hosts failed or were not reached: {', '.join(unreachable_hosts)}. "
            f"{remedy}, and run the playbook again. To deploy the other hosts only, add --limit '{limit_pattern}'",
            [],
        )
    return {}


def _store_problems(request: OperationDecisionRequest) -> list[str]:
    """Return a line for each pair whose running brokers would get another store, or whose store cannot be used.

    The markers of shared stores are in the option ``stores``. An upgrade compares the stores itself.
    """
    brokers, machines = request.broker_facts_by_host, request.evidence
    changes = {} if request.options.get("upgrades") else store_change_line_by_pair(brokers, machines)
    returned = {
        host: marker
        for host, marker in (request.options.get("stores") or {}).items()
        if brokers[host].pair not in changes
    }
    stores = read_evidence_by_host(returned, StoreMarkerEvidence.from_store_marker_result)
    pids = {host: machine.pid for host, machine in machines.items()}
    return [
        *changes.values(),
        *unusable_shared_store_lines(request, stores, pids),
        *fenced_store_lines(brokers, machines),
    ]
