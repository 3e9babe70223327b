"""Find what is wrong with a fleet, from the rows of its status. Each finding has a rule of docs/status.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from activemq_fleet.become_failures import is_become_failure
from activemq_fleet.errors import names_to_text
from activemq_fleet.findings import Finding, Severity, error_finding
from activemq_fleet.node.judge import SERVING
from activemq_fleet.node.process.service_names import watchdog_service_name
from activemq_fleet.node.state.broker_health import MIN_FREE_BYTES
from activemq_fleet.node.watchdog.hang_detection import NOT_WATCHED
from activemq_fleet.pair_state import PairState, nodes_by_pair
from activemq_fleet.status.active_node_count_findings import active_node_findings, kill_command
from activemq_fleet.status.bridge_findings import bridge_findings
from activemq_fleet.status.model import AgentStatus, BalancerStatus, BrokerStatus, Certificate
from activemq_fleet.topology import Broker, Fleet

FULL, FILLING = 100, 80
"""Percent of a limit at which a broker blocks producers, and from which a finding reports the usage."""
CERTIFICATE_DAYS = 30
"""Number of days before the expiry of a certificate from which a finding reports it."""
OLD_EVENT = 300.0
"""Age in seconds above which a finding reports the oldest event in an agent's outbox: longer than any takeover."""
BY_IMPORTANCE = (
    # Data can be lost or damaged.
    *("two-active", "lock-lost", "stale-generation", "subscriptions-at-risk"),
    # Clients are not served.
    *("no-active", "frozen", "hung", "unreachable", "unknown-state", "store-access", "messages-held-back"),
    *("store-full", "disk-full", "memory-full", "temp-full"),
    # Messages or events do not arrive.
    *("bridge-down", "bridge-half", "bridge-breaking", "agent-stopped", "agent-disconnected"),
    *("two-addresses", "no-address", "balancer-down", "certificate-ended", "wrong-release"),
    # The next fault has consequences.
    *(
        "standby-missing",
        "port-in-use",
        "not-watched",
        "store-filling",
        "memory-filling",
        "temp-filling",
        "outbox-aging",
        "quarantined",
    ),
    "certificate-near-end",
    # A change or a check is due.
    *("restart-required", "not-deployed", "changed-by-hand", "no-configuration", "log-unreadable", "usage-unknown"),
    *("dlq", "certificate-unknown"),
)
"""The rules of findings, the most important first: ``status`` sorts the findings of one severity in this order."""
_HINTS = {
    "store": "drain queues without consumers, or raise activemq_store_limit",
    "memory": "check which queues have no consumers, or raise activemq_memory_limit or activemq_heap",
    "temp": "check which non-persistent messages are pending, or raise activemq_temp_limit",
}


def status_findings(
    fleet: Fleet,
    brokers: Sequence[BrokerStatus],
    agents: Sequence[AgentStatus],
    balancers: Sequence[BalancerStatus],
) -> list[Finding]:
    """Return the findings about brokers, agents and load balancers for the status of a fleet."""
    findings: list[Finding] = []
    for row in brokers:
        for rule in _BROKER_CHECKS:
            findings += rule(row, fleet.broker(row.host))
    for rows in nodes_by_pair(brokers).values():
        findings += active_node_findings(PairState(rows), fleet)
    for agent in agents:
        findings += _agent_findings(agent)
    return [*findings, *_balancer_findings(balancers, fleet)]


def _finding(rule: str, severity: Severity, host: str, message: str, fix: str) -> Finding:
    return Finding(rule=rule, severity=severity, host=host, message=message, fix=fix)


def _standard_output(broker: Broker) -> str:
    """Return the place of a broker's standard output, as a noun."""
    if broker.settings.service == "systemd":
        return f"its systemd journal (journalctl -u {broker.settings.instance})"
    return "its standard output"


def _unobserved_state_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    if row.state == "unreachable":
        yield _unreachable_finding(row)
    elif row.state == "unknown":
        yield _unknown_state_finding(row, "broker")


def _hung_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    if row.state != "hung":
        return
    consequence = (
        "While it holds the lock of its store, the standby cannot take over"
        if broker.ha_profile.shares_store
        else "No other broker takes over"
    )
    if row.frozen:
        yield error_finding(
            "frozen",
            row.host,
            f"the broker is frozen: {row.reason}. {consequence}",
            f"on {row.host}, kill the broker with {kill_command(row, broker)}. "
            f"{f'If {broker.peer} is not active' if broker.peer else 'Instead'}, you can continue the process with "
            f"kill -CONT {row.pid}",
        )
    else:
        yield error_finding(
            "hung",
            row.host,
            f"the broker is hung: {row.reason}. {consequence}",
            f"on {row.host}, kill the broker with {kill_command(row, broker)}",
        )


def _lock_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    # If the open files of the process cannot be read, the release is also unknown.
    if row.state in SERVING and row.holds_lock is False and row.release and not row.guard:
        peer = broker.peer or "the other node"
        yield error_finding(
            "lock-lost",
            row.host,
            f"the broker is active, but does not hold the lock of its store {row.evidence.store}. The other node "
            "can also become active",
            f"if {peer} is not active, run {kill_command(row, broker)} on {row.host}: the broker acquires a lock at "
            f"its next start. If {peer} is also active, kill only the broker that has fewer client "
            "connections. Then find the process that removed the lock file",
        )
    if row.state in (*SERVING, "standby") and row.evidence.store_access and not _is_store_hidden(row):
        yield error_finding(
            "store-access",
            row.host,
            f"the broker cannot lock the store: {row.evidence.store_access}",
            f"on {row.host}, correct this error, such as the mount options of the directory {row.evidence.store}, "
            "or the owner of the files in this directory",
        )


def _watchdog_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    """Yield a finding if the watchdog of a broker would not notice that the broker hangs."""
    watchdog = row.evidence.watchdog
    if broker.settings.watchdog == "off" or watchdog is None:
        return
    unit = watchdog_service_name(broker.settings.instance)
    if watchdog.state in ("failed", "inactive"):
        yield _finding(
            "not-watched",
            "warning",
            row.host,
            f"the watchdog of the broker does not run (its unit {unit} is {watchdog.state}), so a broker that hangs "
            "is neither reported nor killed",
            f"on {row.host}, check journalctl -u {unit} for the reason, then run systemctl start {unit}",
        )
    elif watchdog.text.startswith(NOT_WATCHED):
        yield _finding(
            "not-watched",
            "warning",
            row.host,
            f"{watchdog.text}. A broker that hangs is neither reported nor killed",
            f"on {row.host}, give the account {broker.settings.user} read permission for this file, or run the "
            "playbook site",
        )


def _port_in_use_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    """Yield a finding for each port that another process holds, so that the standby could not open it at a failover."""
    for taken_port in row.evidence.taken_ports:
        yield error_finding(
            "port-in-use",
            row.host,
            f"port {taken_port.port} of the standby is in use by {taken_port.port_holder_text}, so the standby cannot "
            "serve clients after a failover",
            f"on {row.host}, stop this process. Or set another port for the broker in the inventory, such as in "
            "activemq_connectors",
        )


def _is_store_hidden(row: BrokerStatus) -> bool:
    """Return whether a broker's store is hidden: its directory lacks the current generation, as after an unmount."""
    used, newest = row.generation, row.generation_in_force
    return used is not None and newest is not None and newest < used


def _hidden_store_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    if not _is_store_hidden(row) or row.state not in (*SERVING, "starting", "hung"):
        return
    newest = row.generation_in_force
    yield error_finding(
        "store-access",
        row.host,
        f"the broker uses generation (numbered copy) {row.generation} of its store, but the directory "
        f"{row.evidence.store} on the host contains {f'only generation {newest}' if newest else 'no generation'}. The "
        "shared directory is probably not mounted there any more, so the broker cannot start again",
        f"on {row.host}, mount the shared directory of {row.evidence.store} again",
    )


def _subscription_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    for text in row.evidence.subscriptions_at_risk:
        yield error_finding(
            "subscriptions-at-risk",
            row.host,
            "the broker started without a usable index of its store, so durable subscriptions may have lost "
            f"messages: {text}",
            "if the publishers still have the messages of these durable subscriptions, publish them again. Then delete "
            f"the file on {row.host} whose path the message shows",
        )


def _release_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    # A package of the operating system determines the release.
    if row.release and row.release != row.release_planned and broker.settings.install != "package":
        yield error_finding(
            "wrong-release",
            row.host,
            f"the broker runs release {row.release}, but the inventory plans release {row.release_planned}",
            f"run the playbook upgrade for {row.host}, or set its activemq_release to {row.release}",
        )


def _configuration_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    if row.configuration_state == "none" and row.pid is not None:
        yield _finding(
            "no-configuration",
            "warning",
            row.host,
            "the broker runs with a configuration that activemq.fleet did not install",
            f"run the playbook site for {row.host}: it installs the configuration of the inventory",
        )
    if row.by_hand:
        yield _finding(
            "changed-by-hand",
            "warning",
            row.host,
            f"files of the installed configuration were changed on the host: {names_to_text(row.by_hand)}",
            "add the changes that you want to keep to the inventory, then run the playbook site, which overwrites "
            "these files",
        )
    if row.not_deployed:
        yield _not_deployed_finding(row)
    if row.restart:
        text = f"an installed change has no effect until the broker restarts: {names_to_text(row.restart)}"
        fix = (
            f"run the playbook resync for the pair {row.pair}"
            if broker.ha_profile.needs_resync
            else f"run the playbook restart or site for {row.host}"
        )
        yield _finding("restart-required", "warning", row.host, text, fix)


def _not_deployed_finding(row: BrokerStatus | AgentStatus) -> Finding:
    return _finding(
        "not-deployed",
        "warning",
        row.host,
        f"installed files differ from those of the inventory: {names_to_text(row.not_deployed)}",
        f"run the playbook site for {row.host}",
    )


def _unreachable_finding(row: BrokerStatus | AgentStatus | BalancerStatus) -> Finding:
    if is_become_failure(row.reason):
        return error_finding(
            "unreachable",
            row.host,
            f"Ansible can log in to the host, but privilege escalation (become) fails there: {row.reason}",
            f"permit sudo without a password for the SSH user on {row.host}. Or enter the password: run activemq-fleet "
            "status with --ansible-options=--ask-become-pass, or the playbook status with --ask-become-pass",
        )
    return error_finding(
        "unreachable",
        row.host,
        f"the host did not answer Ansible ({row.reason})",
        f"check that {row.host} runs, and that Ansible can log in (ansible -i INVENTORY -m ping {row.host})",
    )


def _unknown_state_finding(row: BrokerStatus | AgentStatus | BalancerStatus, noun: str) -> Finding:
    return error_finding(
        "unknown-state",
        row.host,
        f"the state of the {noun} is not known: {row.reason}",
        "correct the cause that the message shows, then run activemq-fleet status again",
    )


def _capacity_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    percents = row.usage.percents if row.usage else dict.fromkeys(_HINTS, 0)
    for name, percent in percents.items():
        if percent >= FULL:
            text = f"the {name} limit of the broker is reached ({percent} %): producers are blocked"
            yield error_finding(f"{name}-full", row.host, text, _HINTS[name])
        elif percent >= FILLING:
            yield _finding(
                f"{name}-filling",
                "warning",
                row.host,
                f"the broker uses {percent} % of its {name} limit. At 100 % it blocks producers",
                _HINTS[name],
            )
    if row.state == "unhealthy" and max(percents.values()) < FULL:
        text = f"no test message completes a round trip through the broker: {row.reason}"
        fix = (
            f"check activemq.log on {row.host} for the error. If the log has no error, run kill -QUIT {row.pid}: the "
            f"JVM prints a thread dump to {_standard_output(broker)}. Check the thread dump for a deadlock"
        )
        yield error_finding("messages-held-back", row.host, text, fix)
    for directory, free in sorted(row.evidence.free.items()):
        if free < MIN_FREE_BYTES:
            yield error_finding(
                "disk-full",
                row.host,
                f"the directory {directory} has {free >> 20} MiB of free space, less than {MIN_FREE_BYTES >> 20} MiB. "
                "The next start of the broker may fail",
                f"on {row.host}, free disk space in {directory}",
            )


def _message_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    if row.usage and row.usage.dlq:
        text = f"dead-letter queues of the broker contain {row.usage.dlq} messages"
        yield _finding(
            "dlq",
            "info",
            row.host,
            text,
            "check why the messages in the dead-letter queues were not consumed, then move or remove the messages",
        )
    if row.evidence.usage_error:
        text = f"the broker does not report its store, memory and temp usage: {row.evidence.usage_error}"
        fix = (
            f"check activemq.log on {row.host} for OutOfMemoryError. If the log has this error, raise activemq_heap. "
            "Otherwise run the playbooks site and restart: they replace a service unit of activemq.fleet 0.1.0, with "
            "which status cannot read the usage"
        )
        yield _finding("usage-unknown", "warning", row.host, text, fix)
    if row.evidence.log_error:
        yield _finding(
            "log-unreadable",
            "warning",
            row.host,
            "activemq-fleet status cannot read the records in activemq.log of the running broker. The reported "
            "state of the broker, the reasons why its links are down, and results of audits can be wrong",
            row.evidence.log_error,
        )


def _broker_certificate_findings(row: BrokerStatus, broker: Broker) -> Iterator[Finding]:
    yield from _certificate_findings(row.host, row.certificates, ", and restart the service that uses it")


def _certificate_findings(host: str, certificates: Sequence[Certificate], next_step: str = "") -> Iterator[Finding]:
    """Yield findings about the certificates of a host; ``next_step`` is what to do after a certificate was renewed."""
    for certificate in certificates:
        if certificate.days is None:
            yield _finding(
                "certificate-unknown",
                "info",
                host,
                f"the expiry date of the certificate of {certificate.name} is not known: {certificate.error}",
                f"check the expiry date in the file of the certificate of {certificate.name} with openssl or keytool",
            )
        elif certificate.days <= 0:
            text = f"the certificate of {certificate.name} expired on {certificate.ends}"
            yield error_finding(
                "certificate-ended",
                host,
                text,
                f"renew the certificate of {certificate.name}{next_step}",
            )
        elif certificate.days < CERTIFICATE_DAYS:
            text = (
                f"the certificate of {certificate.name} expires in {certificate.days_text} days, on {certificate.ends}"
            )
            yield _finding(
                "certificate-near-end",
                "warning",
                host,
                text,
                f"renew the certificate of {certificate.name}{next_step}",
            )


def _agent_findings(row: AgentStatus) -> Iterator[Finding]:
    if row.state == "unreachable":
        yield _unreachable_finding(row)
    elif row.state == "unknown":
        yield _unknown_state_finding(row, "agent")
    elif row.state == "stopped":
        yield error_finding(
            "agent-stopped",
            row.host,
            f"the agent does not run: {row.reason}",
            f"on {row.host}, check journalctl -u activemq-agent, then run systemctl start activemq-agent",
        )
    elif row.publisher is None:
        yield error_finding(
            "agent-disconnected",
            row.host,
            f"the agent is not connected to a broker, and its outbox (a queue on disk) has {row.outbox} unsent events",
            f"run activemq-agent status on {row.host}: it shows the reason for each broker",
        )
    if row.oldest is not None and row.oldest > OLD_EVENT:
        yield _finding(
            "outbox-aging",
            "warning",
            row.host,
            f"the outbox of the agent (a queue on disk) has {row.outbox} unsent events. The oldest "
            f"event is {row.oldest:.0f} s old",
            f"run activemq-agent status on {row.host}: it shows the reason for each broker to which the agent is not "
            "connected. Then run activemq-fleet status for these brokers",
        )
    if row.quarantined:
        yield _finding(
            "quarantined",
            "warning",
            row.host,
            f"the agent skipped {row.quarantined} messages and put them in quarantine, because their handler failed",
            f"on {row.host}, find the handler in the lines `event quarantined` of journalctl -u activemq-agent, and "
            "correct it. The agent does not handle messages in quarantine again: publish the events that are still "
            "needed again",
        )
    if row.not_deployed:
        yield _not_deployed_finding(row)
    yield from _certificate_findings(row.host, row.certificates)


def _balancer_findings(rows: Sequence[BalancerStatus], fleet: Fleet) -> Iterator[Finding]:
    for row in rows:
        if row.state == "unreachable":
            yield _unreachable_finding(row)
        elif row.state == "unknown":
            yield _unknown_state_finding(row, "load balancer")
        elif row.state == "down":
            yield error_finding(
                "balancer-down",
                row.host,
                f"the load balancer is down: HAProxy {row.haproxy}; the state of keepalived is {row.keepalived}",
                f"check journalctl -u haproxy -u keepalived on {row.host}, then run the playbook site",
            )
    reached_rows = [row for row in rows if row.state in ("up", "down")]
    for group in dict.fromkeys(group for row in reached_rows for group in row.addresses):
        addresses_by_host = {row.host: row.addresses.get(group) for row in reached_rows}
        holders = [host for host, holds_address in addresses_by_host.items() if holds_address]
        if len(holders) > 1:
            text = f"{' and '.join(holders)} both hold the virtual address of group {group}"
            fix = "check that the network passes VRRP between these load balancers"
            yield error_finding("two-addresses", holders[0], text, fix)
        elif not holders and all(
            addresses_by_host.get(balancer.host) is not None
            for balancer in fleet.balancers
            if balancer.serves_group(group)
        ):
            yield error_finding(
                "no-address",
                reached_rows[0].host,
                f"no load balancer holds the virtual address of group {group}, so its clients cannot connect",
                f"check journalctl -u keepalived on {', '.join(row.host for row in reached_rows)}",
            )


_BROKER_CHECKS: tuple[Callable[[BrokerStatus, Broker], Iterator[Finding]], ...] = (
    _unobserved_state_findings,
    _hung_findings,
    _lock_findings,
    _hidden_store_findings,
    _subscription_findings,
    _release_findings,
    _configuration_findings,
    _capacity_findings,
    _port_in_use_findings,
    _watchdog_findings,
    _message_findings,
    bridge_findings,
    _broker_certificate_findings,
)
