"""Run the host rules on evidence that the broker role's preflight gathered from a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from activemq_fleet.deployment import BrokerFacts
from activemq_fleet.findings import Finding
from activemq_fleet.lint.engine import applicable_rules, findings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """The observed facts about one machine; None or empty means unknown, and no lint rule reports unknown facts."""

    java: int | None = None
    """Feature release of the Java that the unit would run, such as 17."""
    store_filesystem: str | None = None
    """Type of the file system that holds the store's directory: ``xfs``, ``nfs4``, ``nfs``, ``cifs``, ``ocfs2``."""
    store_mount_options: tuple[str, ...] = ()
    """As in /proc/mounts: ``vers=3``, ``nolock``, ``local_lock=all``."""
    store_capacity: int | None = None
    """Bytes that the file system of the store has free, and that the store itself holds already."""
    java_options: tuple[str, ...] = ()
    """The Java options on the running broker's command line."""
    settings_files: tuple[str, ...] = ()
    """Existing files that the start script of some release would read."""
    clock_synchronised: bool | None = None
    user: str | None = None
    """The account that runs the broker now."""
    taken_ports: tuple[int, ...] = ()
    """Those of the ports that the broker needs on which another process listens."""
    missing_files: tuple[str, ...] = ()
    """Those of the files that the broker's JVM needs at its start that are not there."""
    interfaces: tuple[str, ...] = ()
    """Interfaces that are up, loopback included."""
    cloud: str | None = None
    """The cloud that the machine says it is of, such as ``Amazon EC2``."""
    pair: str | None = None
    """What the pair is called in the configuration that is in force on the host."""
    boot: str | None = None
    """The kernel's id of this boot: two hosts with one id are one machine, or containers of one."""

    @classmethod
    def of(cls, evidence: Mapping[str, Any]) -> MachineFacts:
        """Return the facts about a machine that the preflight's Ansible module gathered; unknown keys are ignored."""
        names = {field.name for field in fields(cls)}
        known: dict[str, Any] = {
            name: tuple(fact) if isinstance(fact, list) else fact
            for name, fact in evidence.items()
            if name in names and fact is not None
        }
        return cls(**known)


@dataclass(frozen=True, slots=True)
class HostView:
    """The input of lint rules about machines: a broker, its machine, and the machine of its peer."""

    broker: BrokerFacts
    facts: MachineFacts = field(default_factory=MachineFacts)
    peer: MachineFacts = field(default_factory=MachineFacts)
    """The machine of the pair's other node; all *not known* where no evidence was gathered there."""

    @property
    def shared_filesystem(self) -> str | None:
        """The type of the file system of a store directory that both nodes share; None without one or if not known."""
        return self.facts.store_filesystem if self.broker.profile.shares_store_directory else None

    @property
    def store(self) -> str:
        """The text by which messages name the broker's store: its directory, or "the store" where it has none."""
        return self.broker.directory or "the store"


_UNKNOWN = MachineFacts()


def host_findings(broker: BrokerFacts, facts: MachineFacts, peer: MachineFacts = _UNKNOWN) -> tuple[Finding, ...]:
    """Return the findings of the host rules about a broker, its machine, and its peer's machine."""
    view = HostView(broker, facts, peer)
    applying = applicable_rules("host", broker.release)
    return tuple(
        finding for lint_rule in applying for finding in findings_of(lint_rule, lint_rule.check(view), broker.host)
    )
