"""Name the causes of incidents, their remedies, and the rules of ``check`` that would have prevented them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

IncidentKind = Literal[
    "split_brain",
    "outage",
    "failed_takeover",
    "hung_broker",
    "failing_start",
    "store_error",
    "lost_spool",
    "out_of_memory",
    "too_many_open_files",
    "crashes",
    "subscriptions_at_risk",
    "blocked_producers",
    "refused_messages",
    "demotion",
    "flapping",
    "takeover",
    "link_down",
    "breaking_bridge",
    "refused_frames",
    "duplicate_bridge",
    "refused_connections",
    "refused_credentials",
    "refused_rights",
    "duplicate_client",
    "slow_store",
    "reported_error",
]
"""The kinds of incidents, the most severe first: a report of limited size omits the last kinds."""

NAMES = {
    "takeover": ("takeover", "takeovers"),
    "subscriptions_at_risk": (
        "start that put durable subscriptions at risk",
        "starts that put durable subscriptions at risk",
    ),
    "failed_takeover": ("failed takeover", "failed takeovers"),
    "breaking_bridge": ("bridge that breaks repeatedly", "bridges that break repeatedly"),
    "refused_frames": ("refusal of large frames", "refusals of large frames"),
    "refused_credentials": ("refusal of credentials", "refusals of credentials"),
    "refused_messages": ("refusal of messages", "refusals of messages"),
    "duplicate_bridge": ("duplicate bridge", "duplicate bridges"),
    "lost_spool": ("loss of spooled messages", "losses of spooled messages"),
    "out_of_memory": ("exhausted heap", "exhausted heaps"),
    "too_many_open_files": ("exhaustion of file descriptors", "exhaustions of file descriptors"),
    "crashes": ("series of crashes", "series of crashes"),
    "blocked_producers": ("period of blocked producers", "periods of blocked producers"),
    "link_down": ("link that is down", "links that are down"),
    "refused_connections": ("refusal of connections", "refusals of connections"),
    "refused_rights": ("denied access", "denied accesses"),
    "duplicate_client": ("client id in use", "client ids in use"),
}
"""Singular and plural names of the kinds whose identifier is not also their name."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """The remedy that an audit report recommends for a kind of incident.

    ``rules`` are the ids of the lint rules that warn of the cause of the incident.
    """

    remedy: str
    rules: tuple[str, ...] = ()


_LEASE = ("L009", "L010", "L011", "L014", "L015")
_FILE = ("L001", "L002", "L003", "L006", "L007")

HUNG_BROKER = Remedy(
    "Find out why the broker hung: the systemd journal of its service contains the thread dump that the watchdog "
    "requested, except if a signal had stopped the process. The pair requires no repair: systemd starts the killed "
    "node again, which then becomes standby.",
)

TAKEOVERS = {
    "silent": Remedy(
        "Check the system journal of the host for the cause: the kernel's out-of-memory killer, a power failure, "
        "kill -9. The pair requires no repair: start the stopped node, which then becomes standby.",
    ),
    "stopped": Remedy(
        "No action is required if the stop was intended. For maintenance, activemq.fleet.restart switches over "
        "pair by pair.",
    ),
    "lost_lock": Remedy(
        "Remove the cause of the lost lock, which the audit reports as a demotion at the same time. Otherwise the node "
        "loses its lock again.",
        ("L021",),
    ),
    "store": Remedy(
        "Remove the cause of the store error that the audit reports for the same time: the other node uses the same "
        "disk.",
        ("L014", "L025"),
    ),
    "failed": Remedy("Check the last error in the log of the failed node.", ()),
    "pure": Remedy(
        "Run activemq.fleet.resync before the old master is started: its store lacks the later changes, and the "
        "pair has no standby until then.",
        ("P003", "P009"),
    ),
    "unknown": Remedy("Collect the log of the other node, too: it contains the cause of the stop."),
}
"""The advice for a takeover, by how the previous active node stopped."""

TAKEOVERS_BY_END = {
    "WATCHDOG-KILLS": HUNG_BROKER,
    "WATCHDOG-HUNG": HUNG_BROKER,
    "GUARD-KILLED": Remedy(
        "Find the reason for which the guard, the program that protects the shared store, could not renew its lock: a "
        "frozen process or machine, or a shared store that did not respond. The pair requires no repair: systemd "
        "starts the node again as standby."
    ),
    "UNIT-OUT-OF-MEMORY": Remedy(
        "Give the host more memory, or reduce the heap of the broker (activemq_heap): the kernel kills a process if "
        "the memory of the host, or the limit of the service unit (activemq_unit_memory_max), is exhausted."
    ),
}
"""The advice for a takeover after an end that a systemd journal explains, by the kind of its record."""

SLOW = Remedy(
    " The takeover was slow: reduce the interval in which the standby tries to acquire the lock "
    "(activemq_lock_acquire_interval), and check in its log how long the replay of the store journal took.",
    ("L022",),
)

LOST_LOCKS = {
    "LOCK-FILE-GONE": (
        "its lock file was removed",
        Remedy("Find the process that removes files in the store's directory: only the broker may do so. A second "
              "broker with the same directory also removes them.", ("L005", "L017", "L003")),
    ),
    "LOCK-FILE-MODIFIED": (
        "another process wrote to its lock file",
        Remedy("Check that no third broker uses the store, and check the mount options: some file systems do not share "
              "locks between hosts.", ("L001", "L002", "L006", "L017")),
    ),
    "LOCK-LEASE-UPD-ERR": (
        "it could not renew its lease in the database",
        Remedy("Check the database at that time. The lease must be longer than the downtime of the database.", _LEASE),
    ),
    "LOCK-DB-UPDATE-ERR": (
        "it could not renew its lock in the database",
        Remedy("Check the database at that time. Use the lease locker: a lease survives a lost "
               "connection.", ("L012", "L014", "L015")),
    ),
    "LOCK-OWNER-LOST": (
        "another process owned the lock",
        Remedy("Check for another broker on the same store, and for a node that was frozen longer than the lock is "
               "valid.", ("L009", "L010", "L017")),
    ),
    "LOCK-KEEPALIVE-ERR": (
        "it could not check its lock",
        Remedy("Check the storage or the database at that time.", (*_FILE, "L014")),
    ),
    "RLD-DEMOTED": (
        "ZooKeeper chose another master",
        Remedy("Check the ZooKeeper ensemble and this node's connection to it at that time. Replicated LevelDB "
               "is no longer maintained: move to kahaDB or JDBC.", ("V005",)),
    ),
    "": (
        "it no longer held its lock",
        Remedy("Check the storage or database at that time: the broker's log has no details.", _FILE),
    ),
}  # fmt: skip
"""The cause as text, and the advice, by the kind of log record before the loss of a lock."""

FAILED_TAKEOVER = Remedy(
    "The pair had no active node until an operator acted. Correct the error, and run the playbook activemq.fleet.drill "
    "to test the takeover again.",
    ("L018", "L025", "C007"),
)
RETIRED = Remedy(
    "Remove shutdownOnMasterFailure, which stops the standby when the master fails. Otherwise start the standby "
    "manually.",
    ("P007",),
)
SPLIT_BRAIN = Remedy(
    "Stop the node with the less important clients immediately, and keep a copy of the store. Then find the reason why "
    "the lock did not exclude the other node: NFS before version 4, a mount without locks, or a deleted lock file.",
    ("L001", "L002", "L003", "L006", "L007", "L026"),
)
FAILING_START = Remedy(
    "Stop the service unit, so that systemd does not start the broker again. Correct the cause, and run "
    "`activemq-fleet check` on the inventory. Until then the pair has no standby.",
)
SUBSCRIPTIONS_AT_RISK = Remedy(
    "Send the messages of these subscriptions again where their publishers still have them. Then remove the file that "
    "the cause names. With `activemq_index_rebuild: refuse`, a node does not start serving if it would lose such "
    "messages.",
)
FLAPPING = Remedy(
    "Stop one of the two nodes, and check the cause of each takeover: "
    "usually the storage is intermittent, or a watchdog kills slow nodes.",
    ("L009", "L011", "L021"),
)

STORE_ERRORS = {
    "missing": (
        "files of the store journal are missing",
        Remedy("Stop the broker and search for the files: a part of the store was deleted or restored. Messages in "
               "these files are lost unless a backup contains them.", ("L017", "L020", "L024")),
    ),
    "corrupt": (
        "the store journal or its index is damaged",
        Remedy("The broker repairs a damaged index automatically when it starts. A damaged store journal has lost "
               "messages: restore it from a backup, or accept the loss. Check the disk, and make sure that no two "
               "brokers write to one store.", ("L002", "L003", "L017", "L024")),
    ),
    "full": (
        "the disk was full",
        Remedy("Free disk space, and set the limit of the store below the size of the file system.", ("L025", "C007")),
    ),
    "write": (
        "the store could not be written",
        Remedy("Check the disk or the mount of the store at that time. Configure an <ioExceptionHandler> that stops "
               "the broker on such errors, so that the standby takes over.", ("L014", "L025")),
    ),
    "database": (
        "the database could not be used",
        Remedy("Check the database at that time. Configure an <ioExceptionHandler> that stops the broker while the "
               "database is unreachable, so that the standby can take over.",
               ("L014", "L015")),
    ),
}  # fmt: skip

REFUSED_MESSAGES = Remedy(
    "Correct the cause that the error names. Clients must send unacknowledged messages again. A bridge does so "
    "automatically.",
    ("V027",),
)
REFUSED_CLIENT = Remedy(
    "Correct the client's account and password. For agents, the playbook activemq.fleet.site installs those of the "
    "inventory. An attacker that guesses passwords causes the same log records.",
    ("S003",),
)
REFUSED_BRIDGE = Remedy(
    "Set activemq_network_username and activemq_network_password to the same values for both brokers, and run the "
    "playbook activemq.fleet.site for both.",
    ("N036",),
)
REFUSED_RIGHTS = Remedy(
    "Give the account of the bridges the right to read and write the destinations of the link and the topics "
    "ActiveMQ.Advisory.>.",
    ("N027",),
)
FRAMES = Remedy(
    "Set wireFormat.maxFrameSize of the OpenWire connectors at both ends of the link to more than the largest message "
    "(three times the limit of the STOMP connectors suffices). Restart both brokers. Until then, move the message out "
    "of its queue: it is the first message that waits. `activemq-fleet status` lists the queues.",
    ("N048",),
)
BREAKING_BRIDGE = Remedy(
    "Read the log of the other broker for the same times, and correct the cause that the error names. If the bridge "
    "breaks at each attempt to forward one message, move that message out of its queue: it is the first message that "
    "waits. `activemq-fleet status` lists the queues.",
    ("N048",),
)
CLIENT_FRAMES = Remedy(
    "Let the client send smaller messages and fewer headers, or raise the limit of the connector: "
    "wireFormat.maxDataLength and wireFormat.maxFrameSize for STOMP, wireFormat.maxFrameSize for MQTT.",
)
DUPLICATE_BRIDGE = Remedy(
    "Keep one of the two links, and set duplex on it. Or give both links different names, and remove duplex.",
    ("N010", "N011", "V016"),
)

OUTAGE = Remedy(
    "Find the process that holds the lock, such as another broker with the same store. NFS version 3 also keeps the "
    "lock of a host that failed. Release the lock, and start one broker.",
    ("L001", "L002", "L003"),
)
LINK_NEVER_UP = Remedy(
    "Check the address and the port of the link. Check that the other broker runs and listens there, and that no "
    "firewall blocks the connection. An attempt without an error waits for a broker that accepts the connection and "
    "sends nothing.",
    ("V035",),
)
LINK_LOST = Remedy(
    "Check that the other broker runs and that its port can be reached. Restart the network connector (by JMX or the "
    "web console) or this broker if the link does not connect again.",
    ("V035",),
)
LINK_HANDSHAKE = Remedy(
    "Restart the network connector (by JMX or the web console) or the broker. Check the other broker, which ended the "
    "handshake. An upgrade is no known remedy. If the link is up, the log is incomplete: set the log level of "
    "org.apache.activemq.network to INFO.",
)
OUT_OF_MEMORY = Remedy(
    "Restart the broker: after an OutOfMemoryError its state is not known. Raise activemq_heap, or lower memoryUsage "
    "and the limits of connections and frames, and find out which clients hold the memory.",
    ("C006",),
)
OPEN_FILES = Remedy(
    "Raise LimitNOFILE of the service unit above the number of connections and store files together, restart the "
    "broker, and check whether clients leave connections open.",
    ("C009",),
)
CRASHES = Remedy(
    "Read the system journal of the host for the same times: the kernel's out-of-memory killer, a watchdog or kill -9 "
    "terminates a process without a record in its log.",
)
BLOCKED_STORE = Remedy(
    "Consume or purge the pending messages, or free disk space and raise storeUsage. If the broker lowered the limit "
    "at its start on a full disk, restart it: only a restart raises the limit.",
    ("C012", "L025", "C007"),
)
BLOCKED_TEMP = Remedy(
    "Consume the pending non-persistent messages, or raise tempUsage to more than one file of the temporary store.",
    ("C007",),
)
BLOCKED_MEMORY = Remedy(
    "Find the destination whose consumers are slow or gone, and consume or purge it. Raise memoryUsage only if the "
    "heap has room.",
    ("C006",),
)
LOST_SPOOL = Remedy(
    "Give each node a dataDirectory (and tmpDataDirectory) on a separate disk, or use release 5.13.1 or later. Earlier "
    "releases delete the temporary store at each start, before they have the lock. Send the non-persistent messages "
    "that the active node had moved to its disk again: they are lost.",
    ("L040",),
)
REFUSED_CONNECTIONS = Remedy(
    "Find out whether a client opens connections without closing them. If not, raise maximumConnections of the "
    "connector above the number of clients and bridges, with room for a failover.",
    ("C009",),
)
REFUSED_TLS = Remedy(
    "Check the certificates of the clients and of the connector: their validity, names and authorities, and that the "
    "clients use TLS on this port.",
)
REFUSED_CLIENT_RIGHTS = Remedy(
    "Add an authorizationEntry that gives the account's group this right on the destination, or correct the "
    "destination that the client uses: a topic and a queue with the same name have separate entries.",
    ("N027",),
)
DUPLICATE_CLIENT = Remedy(
    "Give each client a unique client id. A client that reconnects is also rejected until the broker detects the "
    "loss of its old connection: lower wireFormat.maxInactivityDuration if that takes too long.",
)
SLOW_STORE = Remedy(
    "Check the disk or the mount of the store at that time, and use a separate disk for the store. Check for old "
    "messages that keep many files of the store journal: a longer journal takes longer to replay after a crash.",
    ("L022",),
)

REPORTED: dict[str, tuple[str, Remedy]] = {
    "LIFE-NAME-ILLEGAL": (
        "the broker changed its brokerName, which has characters that are not allowed",
        Remedy("Set brokerName (activemq_broker_name in a fleet) to letters, digits, dots, hyphens and underscores."),
    ),
    "LIFE-JMX-RETRY": (
        "the JMX connector could not start",
        Remedy("Find the process that uses the port, often another broker on the host, and change one of both ports."),
    ),
    "X-RMI-REGISTRY": (
        "the JMX registry could not start",
        Remedy("Find the process that uses the port, often another broker on the host, and change one of both ports."),
    ),
    "LIFE-ASYNC-NC-FAIL": (
        "a network connector did not start, so its link is down",
        Remedy("Correct the cause that the error names, and restart the network connector or the broker."),
    ),
    "LIFE-IGNORED-STORE": (
        "the broker ignores its store, because persistent is false: a restart loses all messages",
        Remedy('Remove persistent="false" of <broker>, or the persistence adapter.'),
    ),
    "LOCK-NONE": (
        "the store has no lock, so two brokers can open it",
        Remedy("Configure a <locker> for the store.", ("L001",)),
    ),
    "LOCK-LEASE-TIMING": (
        "the lease of the lock can expire between two renewals",
        Remedy("Set lockKeepAlivePeriod below lockAcquireSleepInterval.", ("L009", "L010")),
    ),
    "PMS-MASTER-SUICIDE": (
        "the master stopped because its slave reported an error",
        Remedy("Read the log of the slave for the same time, and correct the cause that the error names."),
    ),
    "PMS-UNSUPPORTED": (
        "a slave of pure master/slave tried to attach to a release that has no pure master/slave",
        Remedy("Use a shared store, or the same release up to 5.7 on both nodes.", ("V016",)),
    ),
    "NET-URI-SYNTAX": (
        "the address of a link is no valid URI, so the link is down",
        Remedy("Correct the uri of the network connector."),
    ),
    "NET-POISON": (
        "a bridge could not forward a message, and moved it to the dead letter queue",
        Remedy("Read the error, correct its cause, and send the message again from the dead letter queue."),
    ),
    "NET-STATIC-FAIL": (
        "a bridge could not include a destination statically",
        Remedy("Correct the name of the destination in staticallyIncludedDestinations."),
    ),
    "NET-MS-TOO-FEW": (
        "a masterslave link has fewer than two addresses",
        Remedy("Write the addresses of both nodes into the URI of the link, or use static:.", ("N010",)),
    ),
    "NET-MC-ADVERT-FAIL": (
        "the broker could not announce itself by multicast",
        Remedy("Allow multicast between the hosts, or list the addresses of the links."),
    ),
    "NET-MC-FIREWALL": (
        "the system does not permit multicast",
        Remedy("Allow multicast in the firewall, or list the addresses of the links."),
    ),
    "NET-MC-PACKET": (
        "the broker could not read a multicast packet of another sender",
        Remedy("Use a multicast group that no other program uses."),
    ),
    "FO-BAD-URI": (
        "an address of the failover transport is no valid URI",
        Remedy("Correct the address in the uri of the network connector."),
    ),
    "X-JDBC-CREATE": (
        "the store could not create its tables in the database",
        Remedy("Give the account of the store the right to create tables, or create them before the start."),
    ),
    "DLQ-FAIL": (
        "the broker could not move a message to the dead letter queue",
        Remedy(
            "Correct the cause that the error names, such as a full store or a missing right. The message stays in "
            "its queue."
        ),
    ),
    "RLD-TOO-MANY": (
        "more brokers than replicas use one path of ZooKeeper",
        Remedy("Give each group of brokers a separate zkPath, and set replicas to their number.", ("V005",)),
    ),
    "RLD-SYNC-WAIT": (
        "writes wait for replicas that are not connected",
        Remedy("Start the missing replicas, and check their connections.", ("V005",)),
    ),
}
"""The problem that the broker reports, and the advice, by the kind of log record."""
LOCK_ERROR = (
    "the lock of the store could not be renewed or released",
    Remedy("Check the storage or the database of the lock at that time.", (*_FILE, "L014")),
)
