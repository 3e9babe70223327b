"""Host rules about facts that only the machine shows: Java, file systems, clocks, interfaces."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from activemq_fleet.errors import names_to_text
from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.hosts import HostView
from activemq_fleet.node.process.service_names import watchdog_service_name
from activemq_fleet.settings.metrics import EXPORTER_JAVA

_NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4"})
# The locks of these file systems apply to one host only, or may be lost silently.
_NO_CLUSTER_LOCKS = frozenset({"cifs", "smb3", "smbfs", "ocfs2", "fuse.sshfs", "fuse.s3fs", "9p", "vboxsf"})
_LOCAL_LOCK_OPTIONS = ("nolock", "local_lock=all", "local_lock=posix", "localflocks")
_LOCAL_FILE_SYSTEMS = frozenset({
    "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "reiserfs", "tmpfs", "xfs", "zfs",
})  # fmt: skip
_SYSTEM_JAVA = "/usr/bin/java"
_FILE_NOT_FOUND = os.strerror(errno.ENOENT)
_LOCKS_DISABLED_OPTION = "-Djava.nio.channels.FileLock.broken=true"


@rule("V012", "error", scope="host")
def java_too_old(host: HostView) -> Iterator[Problem]:
    """The host's Java is older than the release requires.

    Why: on an older Java than required, the broker stops immediately with UnsupportedClassVersionError.
    Fix: install the required Java version, or set activemq_java_home to the directory of an installed one.
    Source: class file versions in the jars of the release tags

    Fires on 5.18.3::

        facts: {java: 8}

    Silent on 5.18.3::

        facts: {java: 17}
    """
    required_java = host.broker.release.java_minimum
    if host.facts.java is not None and host.facts.java < required_java:
        yield Problem(
            f"Java {host.facts.java} is installed, but ActiveMQ {host.broker.release.text} requires Java "
            f"{required_java} or later",
            fix=f"install Java {required_java} or later, or set activemq_java_home to the directory of an installed "
            f"Java {required_java} or later",
        )


@rule("V025", "error", scope="host")
def metrics_exporter_cannot_start(host: HostView) -> Iterator[Problem]:
    """The metrics exporter cannot start: its port is in use, its keystore is missing, or Java is older than 8.

    Why: the exporter is a Java agent in the broker's JVM. If it cannot start, the JVM stops and the broker does not
        start.
    Fix: set activemq_metrics_port to a free port, copy the keystore of activemq_metrics_tls to the host, or use Java
        8 or later.
    Source: JavaAgent of jmx_exporter 0.20.0; measured on 5.18.3

    Fires on 5.18.3::

        broker: {metrics: {port: 9404}}
        facts: {taken_ports: [{port: 9404, pid: 402, program: python3}]}

    Fires on 5.5.1::

        broker: {metrics: {port: 9404}}
        facts: {java: 7}

    Silent on 5.18.3::

        broker: {metrics: {port: 9404}}
        facts: {taken_ports: [], java: 17}
    """
    if host.broker.metrics is None:
        return
    for taken_port in host.facts.taken_ports:
        if taken_port.port == host.broker.metrics.port:
            text = f"port {taken_port.port} of activemq_metrics_port is in use by {taken_port.port_holder_text}"
            yield Problem(text, fix="set activemq_metrics_port to a free port")
    for path in host.facts.missing_files:
        text = f"the keystore file {path} of activemq_metrics_tls does not exist"
        yield Problem(
            text, fix=f"copy the keystore to {path}, or set the path in activemq_metrics_tls to an existing keystore"
        )
    if host.facts.java is not None and host.facts.java < EXPORTER_JAVA:
        yield Problem(
            f"Java {host.facts.java} is installed, but the metrics exporter requires Java {EXPORTER_JAVA} or later",
            fix=f"install Java {EXPORTER_JAVA} or later and set activemq_java_home to its directory, or remove "
            "activemq_metrics_port",
        )


@rule("V061", "error", scope="host")
def java_missing_or_unusable(host: HostView) -> Iterator[Problem]:
    """The host has no Java, or its Java does not run or reports no version.

    Why: the broker's service unit cannot start, or starts a Java that the release may not support.
    Fix: install Java, or set activemq_java_home to the directory of a Java that runs and reports its version.
    Source: the service unit, which runs the Java that the message names

    Fires on 5.18.3::

        facts: {java_failure: No such file or directory}

    Silent on 5.18.3::

        facts: {java: 17}
    """
    broker, failure = host.broker, host.facts.java_failure
    # The package of the distribution installs the Java on which it depends.
    if failure is None or broker.service != "systemd" or (broker.install == "package" and broker.java == _SYSTEM_JAVA):
        return
    release, oldest = broker.release.text, broker.release.java_minimum
    fix = (
        "install Java, for example with apt-get install openjdk-17-jre-headless, or set activemq_java_home to the "
        "directory of an installed Java"
    )
    if broker.java != _SYSTEM_JAVA:
        fix = (
            f"install Java so that {broker.java} runs, or set activemq_java_home to the directory of an installed Java"
        )
    if failure == _FILE_NOT_FOUND:
        message = f"ActiveMQ {release} requires Java {oldest} or later, but the program {broker.java} does not exist"
    else:
        message = (
            f"ActiveMQ {release} requires Java {oldest} or later, but {broker.java} does not report its version "
            f"({failure})"
        )
    yield Problem(message, fix=fix)


@rule("V062", "error", scope="host")
def broker_port_in_use(host: HostView) -> Iterator[Problem]:
    """Another process listens on a port of the broker, or the broker that it replaces still runs.

    Why: the active broker cannot open the port and stops. On a standby the fault shows only at the failover. A replaced
        broker that still runs, such as a standby from before an adoption, acquires the lock of the store at a failover.
    Fix: stop the process that the message names, or change the variable that sets the port. Disable the service of a
        broker that the playbook replaces: it would start at the next boot with the same ports and store.
    Cannot see: ports that a process opens later.
    Source: BindException of the JVM; measured on 5.18.3

    Fires on 5.18.3::

        broker: {listeners: [{name: stomp, address: 0.0.0.0, port: 61613, variable: activemq_connectors}]}
        facts: {taken_ports: [{port: 61613, pid: 402, program: python3}]}

    Fires on 5.18.3::

        facts: {replaced_brokers: [{pid: 402, base: /opt/activemq, service: activemq.service}]}

    Silent on 5.18.3::

        broker: {listeners: [{name: stomp, address: 0.0.0.0, port: 61613, variable: activemq_connectors}]}
        facts: {taken_ports: []}
    """
    listeners = {listener.port: listener for listener in host.broker.listeners if listener.name != "metrics"}
    for taken_port in host.facts.taken_ports:
        listener = listeners.get(taken_port.port)
        if listener is not None and host.broker.service == "systemd":
            fix = f"stop the process that uses port {taken_port.port}, or set another port in {listener.variable}"
            if taken_port.service is not None and taken_port.service != host.broker.unit_name:
                fix = (
                    f"{_fix_that_disables(taken_port.service)}. If this broker stays, set another port in "
                    f"{listener.variable}"
                )
            elif taken_port.pid in host.facts.home_processes:
                fix = (
                    f"stop the broker that runs from {host.broker.home}: the playbook starts a different broker, which "
                    "needs the same ports"
                )
            yield Problem(
                f"port {taken_port.port} of the broker's listener {listener.name} is in use by "
                f"{taken_port.port_holder_text}",
                fix=fix,
            )
    pids_on_ports = [taken_port.pid for taken_port in host.facts.taken_ports if taken_port.port in listeners]
    for replaced in host.facts.replaced_brokers:
        if replaced.pid not in pids_on_ports and host.broker.service == "systemd":
            fix = f"stop it with {replaced.base}/bin/activemq stop, and disable its service if it has one"
            yield Problem(
                f"the broker of the directory {replaced.base}, which the playbook replaces, still runs (pid "
                f"{replaced.pid})",
                fix=_fix_that_disables(replaced.service) if replaced.service else fix,
            )


def _fix_that_disables(service: str) -> str:
    watchdog = f"{watchdog_service_name(service[: -len('.service')])}.service"
    return (
        f"stop and disable the service of this broker: run `systemctl disable --now {service}`, and the same for "
        f"{watchdog} if it exists"
    )


@rule("V063", "error", scope="host")
def tasks_without_root_rights(host: HostView) -> Iterator[Problem]:
    """Ansible's tasks do not run as root on the host.

    Why: only root can create the broker's account and install its service unit. Without root rights, the playbook fails
        at its first change of the host.
    Fix: set ansible_become: true for the host, and permit the SSH user to use sudo. Or connect as root.
    Source: useradd(8) and systemd.unit(5)

    Fires on 5.18.3::

        facts: {is_root: false}

    Silent on 5.18.3::

        facts: {is_root: true}
    """
    if host.facts.is_root is False and host.broker.service == "systemd":
        yield Problem(
            "Ansible's tasks do not run as root on this host, so they cannot create the broker's account and service "
            "unit"
        )


@rule("V017", "warning", scope="host")
def settings_file_overrides_or_is_unread(host: HostView) -> Iterator[Problem]:
    """A settings file of the start script overrides the deployed settings, or the script does not read it.

    Why: bin/activemq reads only the first settings file that it finds, such as /etc/default/activemq. If this is not
        the deployed file, a manually started broker has other settings than a broker that the service unit starts. Some
        releases read bin/env, others bin/setenv. In a file that the release does not read, settings have no effect.
    Fix: set activemq_heap, activemq_java_options and activemq_java_home to the values in the settings file. Then remove
        the settings file, and run the playbook site.
    Source: bin/activemq of the release tags: the first file found is the only one

    Fires on 5.18.3::

        broker: {environment: /var/lib/activemq/activemq/current/bin/env}
        facts: {settings_files: [/etc/default/activemq, /var/lib/activemq/activemq/current/bin/env]}

    Silent on 5.18.3::

        broker: {environment: /var/lib/activemq/activemq/current/bin/env}
        facts: {settings_files: [/var/lib/activemq/activemq/current/bin/env]}
    """
    ignored_file = {"bin/env": "bin/setenv", "bin/setenv": "bin/env"}.get(host.broker.release.environment_file)
    for path in host.facts.settings_files:
        if path == host.broker.environment or host.broker.install == "package":
            continue  # the package contains a file, and the unit does not read it
        if ignored_file and path.endswith(f"/{ignored_file}"):
            yield Problem(
                f"ActiveMQ {host.broker.release.text} does not read the settings file {path}: its settings have no "
                "effect",
                fix=_settings_file_fix(path),
            )
        elif not path.endswith(("/bin/env", "/bin/setenv")):
            yield Problem(
                f"bin/activemq reads only the settings file {path}: a manually started broker does not get the "
                "deployed settings",
                fix=_settings_file_fix(path),
            )


def _settings_file_fix(path: str) -> str:
    return (
        f"set activemq_heap, activemq_java_options and activemq_java_home to the values in {path}, remove {path}, and "
        "run the playbook site"
    )


@rule("L001", "error", scope="host")
def shared_store_on_nfs_3_or_older(host: HostView) -> Iterator[Problem]:
    """A shared store is on NFS version 3 or older.

    Why: NFS version 3 has no leases. Its server keeps the lock of a failed host until that host starts again, and the
        standby cannot take over.
    Fix: mount the share with vers=4.1 or later, and set a short lease on the NFS server, such as lease-time=15 and
        grace-time=15 in section [nfsd] of /etc/nfs.conf. Or use a cluster file system or block storage.
    Source: NFSv3: a separate lock server keeps the locks of a host that died

    Fires on 5.18.3::

        facts: {store_filesystem: nfs, store_mount_options: [rw, vers=3]}

    Silent on 5.18.3::

        facts: {store_filesystem: nfs4, store_mount_options: [rw, vers=4.2]}
    """
    if host.shared_store_filesystem_type not in _NETWORK_FILE_SYSTEMS:
        return
    options = dict(option.partition("=")[::2] for option in host.facts.store_mount_options)
    version = (
        options.get("vers") or options.get("nfsvers") or ("3" if host.shared_store_filesystem_type == "nfs" else "4")
    )
    if version.startswith(("2", "3")):
        yield Problem(
            f"{host.shared_store_description} is on NFS version {version}: after the host of the master fails, the "
            "standby waits for the lock indefinitely"
        )


@rule("L002", "error", scope="host")
def store_locks_not_visible_to_other_host(host: HostView) -> Iterator[Problem]:
    """The locks of a shared store's file system are not visible to the other host.

    Why: each node acquires a lock that the other node cannot see, and both become master on one store.
    Fix: mount the share as NFS version 4 without nolock and local_lock, or use a cluster file system such as GFS2.
    Source: AMQ-4378; Linux nfs(5): nolock and local_lock keep locks on the client

    Fires on 5.18.3::

        facts: {store_filesystem: nfs4, store_mount_options: [rw, vers=4.1, local_lock=all]}

    Fires on 5.18.3::

        facts: {store_filesystem: cifs}

    Silent on 5.18.3::

        facts: {store_filesystem: nfs4, store_mount_options: [rw, vers=4.1, local_lock=none]}
    """
    if host.shared_store_filesystem_type is None:
        return
    if host.shared_store_filesystem_type in _NO_CLUSTER_LOCKS:
        yield Problem(
            f"{host.shared_store_description} is on {host.shared_store_filesystem_type}, whose locks apply to one "
            "host only: both nodes become master",
            fix="move the store to NFS version 4, or to a cluster file system such as GFS2",
        )
    for option in host.facts.store_mount_options:
        if option in _LOCAL_LOCK_OPTIONS:
            yield Problem(
                f"the locks of {host.shared_store_description} apply to this host only, because of the mount option "
                f"{option}: both nodes become master",
                fix=f"mount the share with NFS version 4 and without the option {option} on both nodes",
            )


@rule("L006", "error", scope="host")
def java_option_disables_file_locks(host: HostView) -> Iterator[Problem]:
    """A Java option disables file locks.

    Why: the broker starts without a lock. Both nodes then become master on one store.
    Fix: remove -Djava.nio.channels.FileLock.broken=true from activemq_java_options and from the environment of the
        service, and restart the broker.
    Source: LockFile of the release tags

    Fires on 5.18.3::

        facts: {java_options: [-Xmx512m, -Djava.nio.channels.FileLock.broken=true]}

    Silent on 5.18.3::

        facts: {java_options: [-Xmx512m]}
    """
    if not host.broker.ha_profile.shares_store_directory:
        return
    if _LOCKS_DISABLED_OPTION in host.broker.java_options:
        yield Problem(
            "FileLock.broken=true in activemq_java_options disables the lock of the store: both nodes become master"
        )
    elif _LOCKS_DISABLED_OPTION in host.facts.java_options:
        yield Problem(
            "FileLock.broken=true on the command line of the running broker disables the lock of the store: both nodes "
            "become master"
        )


@rule("L011", "warning", scope="host", releases="5.7.0")
def lease_host_without_clock_sync(host: HostView) -> Iterator[Problem]:
    """A host whose broker locks its store by a lease in a database does not synchronize its clock.

    Why: each host compares the time at which the lease expires with its own clock. A host whose clock is ahead acquires
        the lease while the other host still serves clients.
    Fix: run chrony or systemd-timesyncd on both nodes.
    Source: LeaseDatabaseLocker of the release tags

    Fires on 5.18.3::

        broker: {ha: shared-jdbc}
        facts: {clock_synchronised: false}

    Silent on 5.18.3::

        broker: {ha: shared-jdbc}
        facts: {clock_synchronised: true}
    """
    if host.broker.ha_profile.has_database_lease and host.facts.clock_synchronised is False:
        yield Problem(
            "the clock of the host is not synchronized: a node with a wrong clock can acquire the database lease of "
            "the active node"
        )


@rule("L025", "warning", scope="host")
def store_limit_above_file_system_size(host: HostView) -> Iterator[Problem]:
    """The store limit is larger than the file system can hold.

    Why: the broker lowers the limit when it starts. Producers therefore block before the store has the planned size.
    Fix: enlarge the file system, or lower activemq_store_limit below the size of the file system.
    Source: BrokerService.checkStoreUsageLimits; measured

    Fires on 5.18.3::

        broker: {store_limit: 21474836480, directory: /srv/activemq/orders-mq01}
        facts: {store_capacity: 5368709120}

    Silent on 5.18.3::

        broker: {store_limit: 21474836480, directory: /srv/activemq/orders-mq01}
        facts: {store_capacity: 53687091200}
    """
    limit, capacity = host.broker.store_limit, host.facts.store_capacity
    if limit is not None and capacity is not None and capacity < limit:
        yield Problem(
            f"the store limit is {limit >> 20} MiB, but {host.store_description} has space for only "
            f"{capacity >> 20} MiB",
            fix=f"enlarge the file system, or set activemq_store_limit to less than {capacity >> 20} MiB",
        )


@rule("L044", "warning", scope="host")
def heap_above_machine_memory(host: HostView) -> Iterator[Problem]:
    """The Java heap of the broker is larger than the memory of the machine.

    Why: the JVM starts, and reserves memory only when it uses it. Under load the machine swaps, or Linux kills the
        broker.
    Fix: lower activemq_heap, or -Xmx in activemq_java_options if it is set, or add memory to the machine.
    Cannot see: the memory of other programs, and limits of a container.
    Source: measured with Java 17, which started with a heap of 300 GB on a machine with 24 GB

    Fires on 5.18.3::

        broker: {heap: 34359738368}
        facts: {memory: 17179869184}

    Silent on 5.18.3::

        broker: {heap: 4294967296}
        facts: {memory: 17179869184}
    """
    heap, memory = host.broker.heap, host.facts.memory
    if heap is not None and memory is not None and heap > memory:
        yield Problem(
            f"the Java heap is {heap >> 20} MiB, but the machine has only {memory >> 20} MiB of memory",
            fix=f"lower the heap to less than {memory >> 20}m: activemq_heap, or -Xmx in activemq_java_options if it "
            "is set",
        )


@rule("L026", "warning", scope="host")
def shared_store_on_local_file_system(host: HostView) -> Iterator[Problem]:
    """A shared store is on a local file system of the host.

    Why: each node would have a separate store and a separate lock, and both would become master. To prevent this, the
        broker does not start until both nodes find the same file .activemq-fleet-pair in the directory.
    Fix: mount the shared file system at activemq_store_directory, or at a directory above it, on both nodes. A disk
        that both machines mount at the same time needs a cluster file system.
    Cannot see: disks that two machines share.
    Source: file systems that one kernel mounts at a time

    Fires on 5.18.3::

        facts: {store_filesystem: ext4, boot: of one machine}
        peer: {boot: of another}

    Silent on 5.18.3::

        facts: {store_filesystem: ext4, boot: of one machine}
        peer: {boot: of one machine}

    Silent on 5.18.3::

        facts: {store_filesystem: nfs4, boot: of one machine}
        peer: {boot: of another}
    """
    boot_id, peer_boot_id = host.facts.boot, host.peer.boot
    if (
        host.shared_store_filesystem_type in _LOCAL_FILE_SYSTEMS
        and boot_id
        and peer_boot_id
        and boot_id != peer_boot_id
    ):
        yield Problem(
            f"{host.shared_store_description} is on {host.shared_store_filesystem_type}, a local file system: the "
            "pair's other node, on another machine, cannot use this store"
        )


@rule("L034", "error", scope="host")
def deployed_pair_renamed_in_inventory(host: HostView) -> Iterator[Problem]:
    """The inventory now gives a deployed pair another name.

    Why: the brokerName and the directory of the store contain the pair's name. The broker would start with another,
        empty store, and durable subscriptions of bridges would remain under the old name.
    Fix: to keep the pair and its messages, set activemq_pair to the deployed name in the variables of both nodes. Keep
        activemq_naming_pattern if it is set. To move the host to another pair, first empty the queues of the old
        broker, because the new broker does not take over its messages. Then stop the old broker, and rename its
        directory (activemq_base/activemq_instance). To leave that directory where it is, add a waiver of L034 to
        activemq_waivers instead of renaming it.
    Source: the comment that the deployed activemq.xml begins with; naming of activemq.fleet

    Fires on 5.18.3::

        broker: {pair: orders-mq01}
        facts: {pair: orders01}

    Silent on 5.18.3::

        broker: {pair: orders-mq01}
        facts: {pair: orders-mq01}
    """
    deployed, configured = host.facts.pair, host.broker.pair
    if deployed and configured and deployed != configured and host.broker.ha_profile.has_peer:
        yield Problem(
            f"the deployed broker belongs to the pair {deployed}, but the inventory names the pair {configured}: "
            "the broker would start with an empty store",
            fix=f"to keep the pair and its messages, set activemq_pair: {deployed} on both nodes. To move the host to "
            f"{configured}, first empty the queues of the old broker, because the new broker does not take over its "
            "messages. Then stop the old broker, and rename its directory (activemq_base/activemq_instance). If "
            "the new broker is to start with an empty store, add a waiver of L034 to activemq_waivers",
        )


@rule("N063", "warning", scope="host")
def host_cannot_resolve_names(host: HostView) -> Iterator[Problem]:
    """The host cannot resolve the name of a node of its pair, or of a link target.

    Why: bridges and the measurement of the playbook switchover cannot connect to a name that the host does not resolve.
    Fix: add the name to DNS or to /etc/hosts of the host, or set activemq_address of the broker with this name to an IP
        address or to another name. If the name is in activemq_links, you can also change it there.
    Cannot see: whether the name resolves to the correct address.
    Source: getaddrinfo(3)

    Fires on 5.18.3::

        facts: {unresolved_names: [orders-mq01-b]}

    Silent on 5.18.3::

        facts: {unresolved_names: []}
    """
    names = sorted(host.facts.unresolved_names)
    if names:
        yield Problem(
            f"the host cannot resolve {names_to_text(names)}, to which its broker or the playbook switchover connects"
        )


@rule("M001", "error", scope="host")
def multicast_in_a_cloud(host: HostView) -> Iterator[Problem]:
    """Multicast discovery is used on a machine in a cloud.

    Why: cloud networks usually do not forward multicast. Without multicast no broker discovers another.
    Fix: set activemq_discovery to static or masterslave. If the network forwards multicast, add a waiver of M001 to
        activemq_waivers.
    Source: the documentation of clouds: their networks forward no multicast

    Fires on 5.18.3::

        broker: {multicast: true}
        facts: {cloud: Amazon EC2}

    Silent on 5.18.3::

        broker: {multicast: true}
        facts: {cloud: }
    """
    if host.broker.multicast and host.facts.cloud:
        yield Problem(
            f"the links use multicast, but this host is in the cloud {host.facts.cloud}, whose network does not "
            "forward multicast: no bridge is established"
        )


@rule("M005", "error", scope="host")
def multicast_host_with_only_loopback(host: HostView) -> Iterator[Problem]:
    """A host with multicast discovery has no network interface but the loopback one.

    Why: Java finds no interface to join the multicast group, and the broker does not start.
    Fix: bring up the host's network interface. For a test on one machine, set activemq_multicast_interface: lo instead.
    Source: measured on Java 17 in a network namespace with a loopback interface only

    Fires on 5.18.3::

        broker: {multicast: true}
        facts: {interfaces: [lo]}

    Silent on 5.18.3::

        broker: {multicast: true, multicast_interface: lo}
        facts: {interfaces: [lo]}
    """
    if host.broker.multicast and host.facts.interfaces == ("lo",) and not host.broker.multicast_interface:
        yield Problem(
            "the network connectors of the broker use multicast, but only the loopback interface of the host is up: "
            "the broker cannot start"
        )
