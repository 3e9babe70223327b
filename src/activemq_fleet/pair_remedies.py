"""Describe what an operator does for a pair in a state that several commands report, so that all give the same advice.

``status`` and the operations use these texts. Each begins with a lower-case letter.
"""

from __future__ import annotations

from activemq_fleet.node.fence.shared_store import pair_lock_path
from activemq_fleet.profiles import HighAvailabilityProfile


def two_pure_masters_remedy(pair: str) -> str:
    """Return what to do if both nodes of a pure pair serve clients: no broker is stopped before its messages are read.

    Each node has its own store. A stopped node's messages reach clients only after the playbook ``resync``, which keeps
    one of the two stores.
    """
    return (
        "keep both brokers running, and choose the broker whose store you want to keep. Stop the producers of the "
        "other broker, and let consumers receive all messages of the other broker. Then run the playbook resync with "
        f"-e activemq_target={pair} -e activemq_resync_from=HOST, where HOST is the host of the chosen broker. The "
        "playbook keeps a backup of the store that it replaces"
    )


def waiting_brokers_remedy(
    profile: HighAvailabilityProfile, store: str | None, *, hosts: str, unit: str, fence: str
) -> str:
    """Return what to do if no broker of a pair is active, and all wait for its lock.

    ``store`` is the directory of the shared store, None for a broker without one. ``hosts``: the hosts of the brokers,
    as text. ``unit``: their service unit. ``fence``: the setting ``activemq_fence``.
    """
    if profile.has_database_lease:
        return (
            "find the holder of the database lease in the column BROKER_NAME of the lock table (by default "
            "ACTIVEMQ_LOCK), and stop this broker"
        )
    if store is None:
        return (
            "find the process that holds the lock with fuser on the file named lock in the store directory of "
            f"{hosts}, and stop this process"
        )
    if fence == "none":
        return (
            f"on each host that mounts {store}, run fuser -v {store}/lock, and stop the listed process that is not one "
            "of these brokers"
        )
    return (
        f"check journalctl -u {unit} on {hosts} for lines that begin with guard:, and correct the error in them. If "
        f"they contain no error, run fuser -v {pair_lock_path(store)} {store}/lock on each host that mounts {store}, "
        "and stop the listed process that is not one of these brokers or their guards"
    )
