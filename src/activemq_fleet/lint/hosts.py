"""The host rules: what only the machine itself shows, brought by the broker role's preflight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from activemq_fleet.findings import Finding
from activemq_fleet.lint.engine import Problem
from activemq_fleet.lint.files import told
from activemq_fleet.lint.table import rules

if TYPE_CHECKING:
    from activemq_fleet.topology import Broker



@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Evidence from one host; None is *not known*, and no rule fires on what is not known."""

    java: int | None = None
    """Feature release of the Java that the unit would run, such as 17."""
    store_filesystem: str | None = None
    """Type of the file system that holds the store directory: ``xfs``, ``nfs4``, ``nfs``, ``cifs``, ``ocfs2``."""
    store_mount_options: tuple[str, ...] = ()
    """As in /proc/mounts: ``vers=3``, ``nolock``, ``local_lock=all``."""
    store_mounted_at: str | None = None
    store_free_bytes: int | None = None
    java_options: str = ""
    """Everything that ends up on the broker's command line: the unit's, the environment files'."""
    settings_files: tuple[str, ...] = ()
    """Files that a start script would read and that are there: ``/etc/default/activemq``, ``bin/env``."""
    clock_synchronised: bool | None = None
    user: str | None = None
    """Who runs, or would run, the broker."""
    interfaces: tuple[str, ...] = ()
    """Interfaces that are up, loopback included."""
    virtualisation: str | None = None
    """As ansible_virtualization_type, or the cloud's name."""
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the names of its peers resolve to on this host; an empty tuple is *not at all*."""

    @classmethod
    def of(cls, evidence: Mapping[str, Any]) -> HostFacts:
        """From what the preflight's module returned; keys that are not known here are passed over."""
        known = {item.name for item in fields(cls)}
        taken: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in evidence.items()
        }
        return cls(**{name: value for name, value in taken.items() if name in known and value is not None})


@dataclass(frozen=True, slots=True)
class HostView:
    """What a host rule looks at."""

    broker: Broker
    facts: HostFacts

    def problem(self, message: str, **more: Any) -> Problem:
        return Problem(message, host=self.broker.host, **more)


def host_findings(broker: Broker, facts: HostFacts) -> tuple[Finding, ...]:
    """What the host rules say about a broker and the machine it runs on."""
    view = HostView(broker, facts)
    applying = (one for one in rules("host") if one.applies_to(broker.release))
    return tuple(finding for one in applying for finding in told(one, one.check(view), broker.host))
