"""Find problems of accounts: missing ones, shared ones, and those with two passwords."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.node.config.probe_account import PROBE_USER
from activemq_fleet.settings.encrypted import may_equal
from activemq_fleet.topology.model.balancer import Balancer
from activemq_fleet.topology.model.broker import Broker
from activemq_fleet.topology.model.fleet import Agent


def conflicting_agent_password_findings(agents: Sequence[Agent]) -> Iterator[Finding]:
    """Yield an error for two agents of one group with the same user name and different passwords (T009)."""
    known: dict[tuple[str, str], Agent] = {}
    for agent in agents:
        name = agent.settings.agent_username
        if name is None:
            continue
        other = known.setdefault((agent.group, name), agent)
        if not may_equal(other.settings.agent_password, agent.settings.agent_password):
            yield different_password_finding("activemq_agent", name, agent.host, other.host)


def different_password_finding(prefix: str, name: str, host: str, other: str) -> Finding:
    """Return the error for two hosts with the same user name and different passwords (T009).

    The variables are ``PREFIX_username`` and ``PREFIX_password``.
    """
    return error_finding(
        "T009",
        host,
        f"{prefix}_password differs from the value of the host {other}, but {prefix}_username is {name} on both hosts",
        "set the same password on both hosts, or a different user name on each",
        why="a broker has one password for each user name, so it rejects the login of one of the two hosts",
    )


def shared_agent_account_findings(agents: Sequence[Agent]) -> Iterator[Finding]:
    """Yield a warning for failover agents of one group that log in to brokers with the same user name (T029)."""
    known: dict[tuple[str, str], Agent] = {}
    for agent in agents:
        name = agent.settings.agent_username
        other = known.setdefault((agent.group, name), agent) if name else agent
        if other is not agent:
            yield Finding(
                rule="T029",
                severity="warning",
                host=agent.host,
                message=f"activemq_agent_username is {name}, and the agent on {other.host} has the same user name",
                fix="set a different activemq_agent_username for each agent, such as its inventory_hostname_short",
                why="agents that share an account can forge each other's messages",
            )


def broker_without_client_accounts_findings(broker: Broker) -> Iterator[Finding]:
    """Yield a warning if a broker requires a login, but the inventory has no account for its clients (T016).

    For a custom login plugin, the warning is about the account of the health checks.
    """
    if broker.settings.authentication == "none":
        return
    if broker.settings.authentication == "custom":
        yield from _missing_probe_account_findings(broker)
        return
    has_account = any(account.name != PROBE_USER for account in broker.accounts)
    if not has_account and not broker.links and not broker.networked:  # else T008 reports this
        yield Finding(
            rule="T016",
            severity="warning",
            host=broker.host,
            message="the broker has no accounts: activemq_users is empty, and no link or agent adds an account",
            fix="add users to activemq_users, or set activemq_network_username and activemq_network_password",
            why="a broker without accounts rejects every client, including the readiness probe of the playbooks",
        )


def _missing_probe_account_findings(broker: Broker) -> Iterator[Finding]:
    """Yield the warning T016 for a broker with a login plugin of which the inventory has no account."""
    if not broker.accounts:
        yield Finding(
            rule="T016",
            severity="warning",
            host=broker.host,
            message="activemq_authentication is custom, but the inventory has no account with which health "
            "checks can log in",
            fix="set activemq_probe_password, and add the account activemq-probe with this password and the group "
            "activemq-probes to the login plugin of the broker",
            why="the broker rejects the health checks of `site`, `status` and the watchdog, which then report it as "
            "unhealthy",
        )


def conflicting_account_password_findings(
    broker: Broker, agents: Iterable[Agent], balancers: Iterable[Balancer] = ()
) -> Iterator[Finding]:
    """Yield an error (T009) for each user name that has different passwords in the variables for one broker.

    The variables are those of the broker, its agents and its load balancers. A broker accepts only one password for
    each name.
    """
    kept = {account.name: account for account in broker.accounts}
    users = [
        (user.name, user.password, broker.host, f"activemq_users[{position}].password")
        for position, user in enumerate(broker.settings.users)
    ]
    others = [
        (agent.settings.agent_username, agent.settings.agent_password, agent.host, "activemq_agent_password")
        for agent in agents
    ]
    others += [
        (balancer.settings.vip_username, balancer.settings.vip_password, balancer.host, "activemq_vip_password")
        for balancer in balancers
    ]
    for name, password, host, variable in (*users, *others):
        account = kept.get(name or "")
        if account is None or account.variable == variable:
            continue
        if not may_equal(account.password, password):
            yield error_finding(
                "T009",
                host,
                f"{variable} differs from {account.variable} of the pair {broker.pair}, but both are passwords of the "
                f"user {name}",
                "set the same password in both variables, or use two user names",
                why="a broker has one password for each user name",
            )
