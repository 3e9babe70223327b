"""Run the host rules on evidence that the broker role's preflight gathered from a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from activemq_fleet.findings import Finding
from activemq_fleet.lint.engine import applicable_rules, findings_from_problems

if TYPE_CHECKING:
    from activemq_fleet.deployment import BrokerFacts
    from activemq_fleet.node.state.evidence import MachineFacts


@dataclass(frozen=True, slots=True)
class HostView:
    """The facts about a broker, its host and its peer's host that a host lint rule checks."""

    broker: BrokerFacts
    facts: MachineFacts
    peer: MachineFacts
    """The machine of the pair's other node; all *not known* where no evidence was gathered there."""

    @property
    def shared_store_filesystem_type(self) -> str | None:
        """The type of the file system, such as nfs4, that holds the store directory of both nodes of a pair.

        It is None without a shared store directory, and if the type is not known.
        """
        return self.facts.store_filesystem if self.broker.ha_profile.shares_store_directory else None

    @property
    def store_description(self) -> str:
        """The text that names a broker's message store in lint findings: its directory, if any, or "the store"."""
        return self.broker.directory or "the store"

    @property
    def shared_store_description(self) -> str:
        """The text that names a pair's shared message store in lint findings, such as ``the shared store /srv/amq``.

        It contains the store's directory, if any.
        """
        return f"the shared store {self.broker.directory or ''}".rstrip()


def host_findings(broker: BrokerFacts, facts: MachineFacts, peer: MachineFacts | None = None) -> tuple[Finding, ...]:
    """Return the findings of the host lint rules about a broker's host and the host of its peer.

    ``peer`` is None if the facts about the peer's host are not known.
    """
    # Imported here, because checks of files and fleets do not need the modules about hosts that this import loads.
    from activemq_fleet.node.state.evidence import MachineFacts

    view = HostView(broker, facts, peer or MachineFacts())
    rules = applicable_rules("host", broker.release)
    return tuple(
        finding
        for lint_rule in rules
        for finding in findings_from_problems(lint_rule, lint_rule.check(view), broker.host)
    )
