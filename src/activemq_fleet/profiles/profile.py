"""Define profiles, the values of ``activemq_ha``: how the two nodes of a pair work together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from activemq_fleet.releases import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequirement:
    """A requirement for a broker's ActiveMQ release: a condition that the release must meet.

    It has the finding that is reported for other releases.
    """

    is_met_by: Callable[[Release], bool]
    rule: str
    message: str
    fix: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HighAvailabilityProfile:
    """A high-availability profile, one value of ``activemq_ha``: how one node of a pair takes over from the other.

    At most one of ``shares_store_directory``, ``has_database_lease`` and ``replicates`` is True. With none of them each
    broker has no peer.
    """

    name: str
    shares_store_directory: bool = False
    """Both nodes use one kahaDB directory; the node that holds the lock of its file is active."""
    has_database_lease: bool = False
    """Both nodes use one database, and no directory; the node that holds the lease is active."""
    replicates: bool = False
    """The master copies each message to its slave, which has a separate store. The slave opens no connector, even after
    its promotion: only masters accept clients and bridges.
    """
    needs_resync: bool = False
    """A stopped node can be started again only by the playbook ``resync``, because its store is older than that of the
    other node. Restarts, upgrades and systemd (after a crash and at boot) do not start it. It is stopped by SIGKILL,
    because a controlled stop of 5.5 lost messages (AMQ-3364)."""
    default_discovery: Literal["multicast"] | None = None
    """The default of ``activemq_discovery``; None: by release, masterslave or failover."""
    required_variables: tuple[str, ...] = ()
    """Variables that the profile requires, without the prefix ``activemq_``."""
    release_requirement: ReleaseRequirement | None = None
    """The condition that a release must meet to use the profile; None: every release can use it."""
    plural: str
    """The noun for such pairs in the heading of a group in a diagram."""
    reason: str
    """Which node is active and why, for ``explain``."""
    legend: str = ""
    """Which node is active and why, below a diagram; empty for a single broker, which has a separate sign there."""

    @property
    def shares_store(self) -> bool:
        """Whether the two nodes of a pair share one message store in this high-availability profile.

        The node with the lock or lease is active, and the other waits.
        """
        return self.shares_store_directory or self.has_database_lease

    @property
    def has_peer(self) -> bool:
        """Whether each broker has a peer in this high-availability profile: another node that can take over from it.

        With profile ``none`` each broker serves alone.
        """
        return self.shares_store or self.replicates
