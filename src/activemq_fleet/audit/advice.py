"""Name the causes of incidents, their remedies, and the rules of ``check`` that would have prevented them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

IncidentKind = Literal[
    "split_brain",
    "failed_takeover",
    "failing_start",
    "store_error",
    "subscriptions_at_risk",
    "refused_messages",
    "demotion",
    "flapping",
    "takeover",
    "breaking_bridge",
    "refused_frames",
    "duplicate_bridge",
    "refused_credentials",
]
"""What an incident can be, the gravest first: what a report cuts off is what comes most often and says least."""

NAMES = {
    "takeover": ("take-over", "take-overs"),
    "subscriptions_at_risk": (
        "start that put durable subscriptions at risk",
        "starts that put durable subscriptions at risk",
    ),
    "failed_takeover": ("failed take-over", "failed take-overs"),
    "breaking_bridge": ("bridge that breaks repeatedly", "bridges that break repeatedly"),
    "refused_frames": ("refusal of large frames", "refusals of large frames"),
    "refused_credentials": ("refusal of credentials", "refusals of credentials"),
    "refused_messages": ("refusal of messages", "refusals of messages"),
    "duplicate_bridge": ("double bridge", "double bridges"),
}
"""Incidents, one and many, whose name is not their kind."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The remedy for a kind of incident, and the ids of the lint rules (docs/rules.md) that would have warned of it."""

    remedy: str
    rules: tuple[str, ...] = ()


_LEASE = ("L009", "L010", "L011", "L014", "L015")
_FILE = ("L001", "L002", "L003", "L006", "L007")

TAKEOVERS = {
    "silent": Advice(
        "See the host's own journal for why it ended: the kernel's out-of-memory killer, a power cut, kill -9. "
        "Nothing has to be done to the pair: start the ended node again and it stands by.",
    ),
    "stopped": Advice(
        "None if it was meant. For work on a node, activemq.fleet.restart hands over pair by pair.",
    ),
    "lost_lock": Advice(
        "See the demotion of the same time: what took the lock away will do it again.",
        ("L021",),
    ),
    "store": Advice(
        "See the store error of the same time: the other node works on the same disk.",
        ("L014", "L025"),
    ),
    "failed": Advice("See the last error in the failed node's log.", ()),
    "pure": Advice(
        "Run activemq.fleet.resync before the old master is started: its store lacks what has happened since, and the "
        "pair has no stand-by until then.",
        ("P003", "P009"),
    ),
    "unknown": Advice("Collect the other node's log as well: it tells why it ended."),
}
"""By how the node before ended."""

SLOW = Advice(
    " It took long: let the stand-by look for the lock more often, and see how long the journal was replayed.",
    ("L022",),
)

LOST_LOCKS = {
    "LOCK-FILE-GONE": (
        "its lock file was removed",
        Advice("Find out who removes files in the store's directory: nobody may. Another broker on the same "
               "directory does so as well.", ("L005", "L017", "L003")),
    ),
    "LOCK-FILE-MODIFIED": (
        "its lock file was written by somebody else",
        Advice("Two brokers have one store without knowing, or the file system carries no locks to the other host: "
               "check its mount options and that no third broker is there.", ("L001", "L002", "L006", "L017")),
    ),
    "LOCK-LEASE-UPD-ERR": (
        "it could not renew its lease in the database",
        Advice("Look at the database at that time. The lease must be longer than the database may be away.", _LEASE),
    ),
    "LOCK-DB-UPDATE-ERR": (
        "it could not renew its lock in the database",
        Advice("Look at the database at that time; a lease survives a lost connection.", ("L012", "L014", "L015")),
    ),
    "LOCK-OWNER-LOST": (
        "the lock had another owner",
        Advice("Look for another broker on the same store, and for a node that stood still longer than the lock is "
               "good for.", ("L009", "L010", "L017")),
    ),
    "LOCK-KEEPALIVE-ERR": (
        "it could not look at its lock",
        Advice("Look at the storage or the database at that time.", (*_FILE, "L014")),
    ),
    "RLD-DEMOTED": (
        "ZooKeeper chose another master",
        Advice("Look at the ZooKeeper ensemble and at this node's connection to it at that time. Replicated LevelDB "
               "is no longer maintained: move to kahaDB or JDBC.", ("V005",)),
    ),
    "": (
        "it no longer had its lock",
        Advice("Look at the storage or database at that time: the broker itself says no more.", _FILE),
    ),
}  # fmt: skip
"""The line before a lost lock -> what it says."""

FAILED_TAKEOVER = Advice(
    "The pair had no active node until somebody did something. Read the error, put it right, and drill: a stand-by is "
    "only as good as its last take-over.",
    ("L018", "L025", "C007"),
)
RETIRED = Advice(
    "With shutdownOnMasterFailure the stand-by stops where it should take over: remove it, or let a person decide.",
    ("P007",),
)
SPLIT_BRAIN = Advice(
    "Stop one of the two at once, the one whose clients matter less, and keep a copy of the store. Then find out why "
    "the lock did not keep them apart: NFS before version 4, a mount without locks, a lock file that was deleted.",
    ("L001", "L002", "L003", "L006", "L007", "L026"),
)
FAILING_START = Advice(
    "Put the cause right before the next start: until then nobody stands by for its peer. Stop the unit, so that "
    "systemd does not start it in vain, and run check over the inventory.",
)
SUBSCRIPTIONS_AT_RISK = Advice(
    "Send the messages of these subscriptions again where their publishers still have them, then remove the record. "
    "A node with `activemq_index_rebuild: refuse` does not serve where it would lose such messages.",
)
FLAPPING = Advice(
    "Stop one of the two, and read the causes of the single take-overs: "
    "mostly the storage comes and goes, or a watchdog kills nodes that only are slow.",
    ("L009", "L011", "L021"),
)

STORE_ERRORS = {
    "missing": (
        "files of the journal are missing",
        Advice("Stop the broker and look for them: somebody deleted or restored only a part of the store. Messages in "
               "them are lost unless a backup has them.", ("L017", "L020", "L024")),
    ),
    "corrupt": (
        "the journal or its index is damaged",
        Advice("An index mends itself by a replay. A damaged journal has lost messages: restore it or accept that. "
               "Check the disk, and that no two brokers write to one store.", ("L002", "L003", "L017", "L024")),
    ),
    "full": (
        "the disk was full",
        Advice("Make room, and set the store's limit below what the file system holds.", ("L025", "C007")),
    ),
    "write": (
        "the store could not be written",
        Advice("Look at the disk or the mount at that time. The broker can be set to stop on errors, so that "
               "the stand-by takes over.", ("L014", "L025")),
    ),
    "database": (
        "the database could not be used",
        Advice("Look at the database at that time, and let the broker stop when it is gone: the stand-by tries then.",
               ("L014", "L015")),
    ),
}  # fmt: skip

REFUSED_MESSAGES = Advice(
    "Put right what the error names. Clients must send again what the broker did not acknowledge. A bridge does so, "
    "and its queue waits meanwhile.",
    ("V027",),
)
REFUSED_CLIENT = Advice(
    "Put the client's account and password right; for a fleet of agents, configure installs what the inventory says. "
    "Somebody who guesses passwords looks like this as well.",
    ("S003",),
)
REFUSED_BRIDGE = Advice(
    "Set activemq_network_username and activemq_network_password alike on both ends, and configure both.",
    ("N036",),
)
REFUSED_RIGHTS = Advice(
    "Give the account of the bridges the right to read and write what the link carries, and the advisory topics.",
    ("N027",),
)
FRAMES = Advice(
    "Set wireFormat.maxFrameSize of the OpenWire connectors at both ends of the link to more than the largest message "
    "(three times the limit of the STOMP connectors suffices) and restart both brokers. Until then move the message "
    "out of its queue: it is the first one that is waiting, and `activemq-fleet status` lists the queues.",
    ("N048",),
)
BREAKING_BRIDGE = Advice(
    "Read the log of the broker at the other end for the same times, and correct what the error names. If the bridge "
    "breaks at each attempt to forward one message, move that message out of its queue: it is the first one that is "
    "waiting, and `activemq-fleet status` lists the queues.",
    ("N048",),
)
DUPLICATE_BRIDGE = Advice(
    "Keep one of the two links, and let it be duplex; or give the links different names and no duplex.",
    ("N010", "N011", "V016"),
)
