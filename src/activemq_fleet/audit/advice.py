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
        "broker start that put durable subscriptions at risk",
        "broker starts that put durable subscriptions at risk",
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
    "requested. If the dump is missing, a signal (SIGSTOP) had frozen the process: find the sender of the signal. The "
    "pair requires no repair: systemd starts the killed node again, which then becomes standby.",
)

TAKEOVERS = {
    "silent": Remedy(
        "Check the system journal of the host for the cause: the kernel's out-of-memory killer, a power failure, "
        "kill -9. The pair requires no repair: start the stopped node, which then becomes standby.",
    ),
    "stopped": Remedy(
        "No action is required if the stop was intended. For planned maintenance, run the playbook "
        "activemq.fleet.restart, which restarts one pair after the other.",
    ),
    "lost_lock": Remedy(
        "Correct the cause of the lost lock, so that the node does not lose its lock again. The audit reports this "
        "cause as a separate incident (demotion) of the same node and time.",
        ("L021",),
    ),
    "store": Remedy(
        "Correct the cause of the store error. The audit reports this error as a separate incident (store error) at "
        "the same time. Both nodes use the same store, so the new active node can stop because of the same error.",
        ("L014", "L025"),
    ),
    "failed": Remedy("Read the last error in the log of the failed node, and correct its cause.", ()),
    "pure": Remedy(
        "Run the playbook activemq.fleet.resync before you start the old master: the store of the old master lacks "
        "the messages that the pair accepted after the takeover. The pair has no standby until this playbook has "
        "finished.",
        ("P003", "P009"),
    ),
    "unknown": Remedy(
        "Run `activemq-fleet audit` again, and add the log of the previous active node: this log shows why the node "
        "stopped."
    ),
}
"""The advice for a takeover, by how the previous active node stopped."""

TAKEOVERS_BY_END = {
    "WATCHDOG-KILLS": HUNG_BROKER,
    "WATCHDOG-HUNG": HUNG_BROKER,
    "GUARD-KILLED": Remedy(
        "Find out why the guard (the program that protects the shared store) could not renew its lock: a frozen "
        "process or machine, or a shared store that did not respond. The pair requires no repair: systemd "
        "starts the node again as standby."
    ),
    "UNIT-OUT-OF-MEMORY": Remedy(
        "The memory of the host, or the limit of the service unit (activemq_unit_memory_max), was exhausted. Give the "
        "host more memory, raise this limit, or reduce the heap of the broker (activemq_heap)."
    ),
}
"""The advice for a takeover after an end that a systemd journal explains, by the kind of its record."""

SLOW = Remedy(
    " The takeover was slow: reduce the interval at which the standby tries to acquire the lock "
    "(activemq_lock_acquire_interval), and check in its log how long the replay of the store journal took.",
    ("L022",),
)

LOST_LOCKS = {
    "LOCK-FILE-GONE": (
        "its lock file was removed",
        Remedy("Find the process that removed the lock file, such as a second broker with the same store directory. "
               "Only the brokers of the pair may write to the store directory.", ("L005", "L017", "L003")),
    ),
    "LOCK-FILE-MODIFIED": (
        "another process wrote to its lock file",
        Remedy("Check that no third broker uses the store. Check also that both nodes mount the store with locks that "
               "apply to all hosts: NFS version 4.1 or later, without nolock and local_lock, or a cluster file system.",
               ("L001", "L002", "L006", "L017")),
    ),
    "LOCK-LEASE-UPD-ERR": (
        "it could not renew its lease in the database",
        Remedy("Check the database for errors at the time of the incident. Set lockAcquireSleepInterval, the "
        "duration of the lease, to more than the time for which the database was unavailable. A failover "
        "after a crash can then take as long as the lease.", _LEASE),
    ),
    "LOCK-DB-UPDATE-ERR": (
        "it could not renew its lock in the database",
        Remedy("Check the database for errors at the time of the incident. Use <lease-database-locker>: its lease "
               "survives a lost connection to the database.", ("L012", "L014", "L015")),
    ),
    "LOCK-OWNER-LOST": (
        "another process owned the lock",
        Remedy("If a third broker uses the same store, stop it. Otherwise the node was frozen for longer than its lock "
               "is valid: find the cause in the system journal of the host.",
               ("L009", "L010", "L017")),
    ),
    "LOCK-KEEPALIVE-ERR": (
        "it could not check its lock",
        Remedy("Check the storage or the database of the lock for errors at the time of the incident.",
               (*_FILE, "L014")),
    ),
    "RLD-DEMOTED": (
        "ZooKeeper chose another master",
        Remedy("Check the ZooKeeper ensemble, and the connection of the node to ZooKeeper, for errors at the time of "
               "the incident. Replicated LevelDB is no longer maintained: move the store to kahaDB or JDBC.",
               ("V005",)),
    ),
    "": (
        "it no longer held its lock",
        Remedy("Check the storage or the database of the lock for errors at the time of the incident: the log of the "
               "broker has no details.", _FILE),
    ),
}  # fmt: skip
"""The cause as text, and the advice, by the kind of log record before the loss of a lock."""

FAILED_TAKEOVER = Remedy(
    "The pair had no active node until an operator acted. Read the last error in the log of the standby, and correct "
    "its cause. Then run the playbook activemq.fleet.drill to test the takeover again.",
    ("L018", "L025", "C007"),
)
RETIRED = Remedy(
    "Remove the attribute shutdownOnMasterFailure from the <broker> of the standby: it stops the standby when the "
    "master fails. If you keep the attribute, start the standby manually after each failure of the master.",
    ("P007",),
)
SPLIT_BRAIN = Remedy(
    "Immediately stop the node with the less important clients, because both nodes write to the same store. Then "
    "copy the store, and find the reason why the lock did not exclude the other node: NFS before version 4, a mount "
    "without locks, or a deleted lock file.",
    ("L001", "L002", "L003", "L006", "L007", "L026"),
)
FAILING_START = Remedy(
    "Stop the service unit of the broker, so that systemd does not start the broker again. Correct the cause of the "
    "error, and run `activemq-fleet check` on the inventory. The pair has no standby until the broker starts.",
)
SUBSCRIPTIONS_AT_RISK = Remedy(
    "Resend the messages of the affected durable subscriptions, if their publishers still have these messages. "
    "Then remove the file that this incident names. With `activemq_index_rebuild: refuse`, a node does not start "
    "serving if it would lose such messages.",
)
FLAPPING = Remedy(
    "Stop one of the two nodes, so that the takeovers end. Then find the cause of each takeover: usually the "
    "connection to the storage is interrupted, or a watchdog kills slow nodes.",
    ("L009", "L011", "L021"),
)

STORE_ERRORS = {
    "missing": (
        "files of the store journal are missing",
        Remedy("Stop the broker. A part of the store was deleted or restored: find the missing files or a backup of "
               "them, and put them into the store directory before you start the broker. Otherwise, their messages are "
               "lost.", ("L017", "L020", "L024")),
    ),
    "corrupt": (
        "the store journal or its index is damaged",
        Remedy("The broker repairs a damaged index automatically when it starts. A damaged store journal has lost "
               "messages: restore it from a backup, or accept the loss. Check the disk, and make sure that no two "
               "brokers write to one store.", ("L002", "L003", "L017", "L024")),
    ),
    "full": (
        "the disk was full",
        Remedy("Free disk space, and set the limit of the store (<storeUsage>) below the size of the file system.",
               ("L025", "C007")),
    ),
    "write": (
        "the store could not be written",
        Remedy("Check the disk or the mount of the store for errors at the time of the incident. Configure an "
               "<ioExceptionHandler> that stops the broker on such errors, so that the standby takes over.",
               ("L014", "L025")),
    ),
    "database": (
        "the database could not be used",
        Remedy("Check the database for errors at the time of the incident. Configure an <ioExceptionHandler> that "
               "stops the broker while the database is unreachable, so that the standby can take over.",
               ("L014", "L015")),
    ),
}  # fmt: skip

REFUSED_MESSAGES = Remedy(
    "Correct the cause that the error names. Resend, from each client, the messages that the broker did not "
    "acknowledge. A bridge resends its unacknowledged messages automatically.",
    ("V027",),
)
REFUSED_CLIENT = Remedy(
    "Correct the user name and the password of the client. If the client is an agent of activemq-fleet, run the "
    "playbook activemq.fleet.site, which installs the user name and the password from the inventory. If all clients "
    "have correct passwords, check for an attacker that guesses passwords.",
    ("S003",),
)
REFUSED_BRIDGE = Remedy(
    "Set activemq_network_username and activemq_network_password to the same values for both brokers, and run the "
    "playbook activemq.fleet.site for both.",
    ("N036",),
)
REFUSED_RIGHTS = Remedy(
    "Give the account of the bridge (activemq_network_username) the rights to read and write the destinations of the "
    "link and the topics ActiveMQ.Advisory.>.",
    ("N027",),
)
FRAMES = Remedy(
    "Set wireFormat.maxFrameSize of the OpenWire connectors at both ends of the link to a value larger than the "
    "largest message. STOMP messages grow in OpenWire: for them, set at least three times the "
    "wireFormat.maxFrameSize of the STOMP connectors. Then restart both brokers. If you cannot restart them now, "
    "find the queue whose messages the link does not forward (`activemq-fleet status`). Move the first pending "
    "message of this queue, which is the oversized one, to another queue.",
    ("N048",),
)
BREAKING_BRIDGE = Remedy(
    "Find the error in the log of the broker at the other end of the bridge, at the same times, and correct its cause. "
    "If the bridge breaks whenever it forwards one particular message, move this message to another queue: it is the "
    "first pending message of its queue. `activemq-fleet status` lists the queues.",
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
    "Find the process that holds the lock, such as another broker with the same store, and stop it. For a store "
    "directory, fuser -v STORE/lock on each host lists this process. With activemq_fence, check journalctl -u activemq "
    "on both hosts for the reason of the guard; the lock of the pair is STORE/fence/lock. On NFS version 3, the server "
    "keeps the lock of a failed host: start this host, or have the lock released on the NFS server. Then start one "
    "node, and the other node when the first one is active.",
    ("L001", "L002", "L003"),
)
LINK_NEVER_UP = Remedy(
    "Check the address and the port of the link. Check that the broker at this address runs and listens on this "
    "port, and that no firewall blocks the connection. If the log contains no connection error, the port accepts the "
    "connection, but no broker answers: check whether the broker hangs or another process listens on this port.",
    ("V035",),
)
LINK_LOST = Remedy(
    "Check that the broker at the other end of the link runs, and that its port can be reached. If the link does not "
    "connect again, run the operations stop and start of the network connector's MBean (by JMX or Jolokia), or restart "
    "the broker that contains the network connector.",
    ("V035",),
)
LINK_HANDSHAKE = Remedy(
    "The broker at the other end of the link closed the connection during the handshake: read the log of that "
    "broker, and correct the cause. No known release of ActiveMQ connects again after such a failure: run the "
    "operations stop and start of the network connector's MBean (by JMX or Jolokia), or restart the broker that "
    "contains it. If the link is in fact up, this incident is wrong, because the log level hides the line about the "
    "new connection: set the log level of org.apache.activemq.network to INFO.",
)
OUT_OF_MEMORY = Remedy(
    "Restart the broker: after an OutOfMemoryError its state is not known. Raise activemq_heap, or lower memoryUsage "
    "and the limits of connections and frames, and find out which clients hold the memory.",
    ("C006",),
)
OPEN_FILES = Remedy(
    "Raise LimitNOFILE of the broker's service unit above the total number of connections and store files, restart "
    "the broker, and check whether clients leave connections open.",
    ("C009",),
)
CRASHES = Remedy(
    "Read the system journal of the host for the same times: the kernel's out-of-memory killer, a watchdog or kill -9 "
    "terminates a process without a record in its log.",
)
BLOCKED_STORE = Remedy(
    "Consume or purge the pending messages, or free disk space and raise storeUsage. If the broker lowered the limit "
    "because the disk was full when the broker started, free disk space and restart the broker: only a restart raises "
    "the limit.",
    ("C012", "L025", "C007"),
)
BLOCKED_TEMP = Remedy(
    "Consume the pending non-persistent messages, or raise <tempUsage> above the size of one journal file of the "
    "temporary store (journalMaxFileLength, 32 MB by default).",
    ("C007",),
)
BLOCKED_MEMORY = Remedy(
    "Find the destination whose consumers are slow or gone, and consume or purge it. Raise memoryUsage only if the "
    "heap has room.",
    ("C006",),
)
LOST_SPOOL = Remedy(
    "The non-persistent messages in the temporary store of the active node are lost: resend them if their publishers "
    "still have them. Set dataDirectory (and tmpDataDirectory) to a local directory of each node, and keep only the "
    "store on the shared file system. Or upgrade to ActiveMQ 5.13.1 or later: before 5.13.1, a starting node deletes "
    "the temporary store before it acquires the lock, even while the other node uses it.",
    ("L040",),
)
REFUSED_CONNECTIONS = Remedy(
    "Find out whether a client opens connections without closing them. If not, raise maximumConnections of the "
    "connector above the number of clients and bridges, with room for a failover.",
    ("C009",),
)
REFUSED_TLS = Remedy(
    "Check the certificates of the clients and of the connector: the expiry date, the host names, and the certificate "
    "authority, which the other side must trust. Check also that the clients use TLS on this port.",
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
    "Find out what slowed the disk or the mount of the store at the time of the incident, and use a separate disk "
    "for the store. Check for old messages that no consumer acknowledges: the broker cannot delete the files of the "
    "store journal that contain them. A longer journal takes longer to replay after a crash.",
    ("L022",),
)

REPORTED: dict[str, tuple[str, Remedy]] = {
    "LIFE-NAME-ILLEGAL": (
        "the broker replaced characters that are not allowed in its brokerName",
        Remedy(
            "Use only letters, digits, dots, hyphens and underscores in brokerName (activemq_broker_name in a fleet)."
        ),
    ),
    "LIFE-JMX-RETRY": (
        "the JMX connector could not start",
        Remedy(
            "Find the process that uses the JMX port, often another broker on the same host. Change the port of "
            "this process, or the JMX port of the broker."
        ),
    ),
    "X-RMI-REGISTRY": (
        "the JMX registry could not start",
        Remedy(
            "Find the process that uses the JMX port, often another broker on the same host. Change the port of "
            "this process, or the JMX port of the broker."
        ),
    ),
    "LIFE-ASYNC-NC-FAIL": (
        "a network connector did not start, so its link is down",
        Remedy("Correct the cause that the error names, and restart the network connector or the broker."),
    ),
    "LIFE-IGNORED-STORE": (
        "the broker ignores its store, because persistent is false: a restart loses all messages",
        Remedy(
            'If messages must survive a restart, remove persistent="false" of <broker>. Otherwise, remove the '
            "persistence adapter."
        ),
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
        Remedy("Read the log of the slave for the time of this incident, and correct the cause of the error."),
    ),
    "PMS-UNSUPPORTED": (
        "a slave of a pure master/slave pair tried to attach to a broker whose release has no pure master/slave",
        Remedy(
            "Pure master/slave exists only up to 5.7, and requires the same release on both nodes: install such a "
            "release on both nodes, or use a shared store.",
            ("V016",),
        ),
    ),
    "NET-URI-SYNTAX": (
        "the address of a link is not a valid URI, so the link is down",
        Remedy("Correct the uri of the network connector."),
    ),
    "NET-POISON": (
        "a bridge could not forward a message, and moved it to the dead letter queue",
        Remedy("Read the error, correct its cause, and move the message from the dead letter queue back to its queue."),
    ),
    "NET-STATIC-FAIL": (
        "a bridge could not include a destination statically",
        Remedy("Correct the name of the destination in staticallyIncludedDestinations."),
    ),
    "NET-MS-TOO-FEW": (
        "a link with a masterslave: URI has fewer than two addresses",
        Remedy(
            "Write the addresses of both nodes of the remote pair into the URI of the link. For a remote broker "
            "without a standby, use static: in place of masterslave:.",
            ("N010",),
        ),
    ),
    "NET-MC-ADVERT-FAIL": (
        "the broker could not announce itself by multicast",
        Remedy(
            "Allow multicast between the hosts, or replace multicast: in the URI of each network connector by "
            "static: with the addresses of the brokers."
        ),
    ),
    "NET-MC-FIREWALL": (
        "the system does not permit multicast",
        Remedy(
            "Allow multicast in the firewall, or replace multicast: in the URI of each network connector by "
            "static: with the addresses of the brokers."
        ),
    ),
    "NET-MC-PACKET": (
        "the broker could not read a multicast packet of another sender",
        Remedy(
            "Set a group that no other program uses in all multicast: URIs of these brokers, such as "
            "multicast://default?group=NAME."
        ),
    ),
    "FO-BAD-URI": (
        "an address of the failover transport is not a valid URI",
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
        "more brokers use one zkPath of ZooKeeper than the attribute replicas allows",
        Remedy(
            "Set the same zkPath for all brokers that replicate one store, and a different zkPath for every other "
            "store. Set replicas to the number of brokers that replicate the store.",
            ("V005",),
        ),
    ),
    "RLD-SYNC-WAIT": (
        "writes to the replicated LevelDB store wait for replicas that are not connected",
        Remedy(
            "Start the brokers that replicate the store but are not connected, and check that they can connect to the "
            "active broker and to ZooKeeper.",
            ("V005",),
        ),
    ),
}
"""The problem that the broker reports, and the advice, by the kind of log record."""
LOCK_ERROR = (
    "the lock of the store could not be renewed or released",
    Remedy("Check the storage or the database of the lock for errors at the time of the incident.", (*_FILE, "L014")),
)
