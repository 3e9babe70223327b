# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The results of modules that observe a host, as typed values for the decisions of the controller.

Root of a host and the account of its broker can forge the result of a module. A value of an unexpected type is rejected
here, so that no decision uses it. Keys that no decision reads are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from ..errors import NodeError
from ..judge import STATES, BrokerState

_Observed = TypeVar("_Observed")


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _sequence_check(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and all(check(member) for member in value)


def _mapping_check(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and all(_is_text(key) and check(value[key]) for key in value)


_CHECK_BY_ANNOTATION: Mapping[str, Callable[[Any], bool]] = {
    "BrokerState": lambda value: value in STATES,
    "bool": lambda value: isinstance(value, bool),
    "int": _is_whole_number,
    "float": _is_number,
    "str": _is_text,
    "tuple[str, ...]": _sequence_check(_is_text),
    "tuple[int, ...]": _sequence_check(_is_whole_number),
    "Mapping[str, str]": _mapping_check(_is_text),
    "Mapping[str, int]": _mapping_check(_is_whole_number),
    "Mapping[str, Any]": _mapping_check(lambda _unused: True),
    "tuple[TakenPort, ...]": _sequence_check(lambda value: isinstance(value, Mapping)),
    "tuple[ReplacedBroker, ...]": _sequence_check(lambda value: isinstance(value, Mapping)),
}
"""The check of a field's values, by the annotation of the field without ``| None``."""


@dataclass(frozen=True)
class TakenPort:
    """A TCP port that a broker needs but another process has taken, and that process.

    The process is None where it is not visible.
    """

    port: int
    address: str = ""
    pid: int | None = None
    program: str | None = None
    service: str | None = None
    """The systemd service of the process, such as ``activemq.service``, if the process is a broker."""

    @property
    def port_holder_text(self) -> str:
        """A text about the process that holds a taken port: its program and pid, or "another process"."""
        return describe_port_holder(self.pid, self.program)


@dataclass(frozen=True)
class ReplacedBroker:
    """A running broker that the broker of the inventory replaces: its process, directory and systemd service."""

    pid: int
    base: str
    service: str | None = None
    """None for a broker that was started by hand or by an init script."""


def describe_port_holder(pid: int | None, program: str | None) -> str:
    """Describe the process that holds a taken port: its program and pid, or "another process" if it is not visible."""
    return "another process" if pid is None else f"{program or 'a process'}, pid {pid}"


_MEMBER_CLASSES: Mapping[str, type[Any]] = {
    "tuple[TakenPort, ...]": TakenPort,
    "tuple[ReplacedBroker, ...]": ReplacedBroker,
}
"""The dataclass of a field's members, by the annotation of the field, where they are returned as mappings."""


def _create_from_result(kind: type[_Observed], returned: Mapping[str, Any]) -> _Observed:
    """Return an object of the dataclass ``kind`` with the values that a module returned; None represents the default.

    Raises NodeError for a missing value without a default, and for a value of a wrong type.
    """
    values = {}
    for attribute in fields(kind):  # type: ignore[arg-type]
        observed = returned.get(attribute.name)
        if observed is None:
            continue
        annotation = str(attribute.type).removesuffix(" | None")
        if not _CHECK_BY_ANNOTATION[annotation](observed):
            raise NodeError(
                f"the host returned the value {str(observed)[:100]!r} for {attribute.name}, which must be of the type "
                f"{annotation}: the versions of the collection and of the library probably differ. Install the same "
                "version of the collection activemq.fleet and of the library activemq-fleet on the controller"
            )
        if annotation in _MEMBER_CLASSES:
            observed = [_create_from_result(_MEMBER_CLASSES[annotation], member) for member in observed]
        values[attribute.name] = tuple(observed) if isinstance(observed, list) else observed
    try:
        return kind(**values)
    except TypeError as error:
        raise NodeError(str(error)) from None


@dataclass(frozen=True)
class BrokerEvidence:
    """The evidence about a broker that the module ``broker_info`` returns.

    None means unknown, or none. ``frozen``: a signal stopped its process. ``age`` is the time since the start of the
    process in seconds, of a monotonic clock; ``clock`` is the host's time in seconds since the epoch. ``store_access``
    is the reason why the broker cannot acquire the lock of the store, empty if it can. ``free`` has bytes by
    directory. ``release`` is the running release. ``store_used``: whether its store ever had content. ``generation`` is
    the generation of a fenced store whose files the broker has open, ``generation_in_force`` that of the guards' newest
    claim. ``store_marker`` are the lines of the store's marker. ``taken_ports`` are the ports of a standby on which
    another process listens.
    """

    state: BrokerState
    how: str = ""
    frozen: bool = False
    pid: int | None = None
    guard: int | None = None
    age: float | None = None
    clock: float | None = None
    release: str | None = None
    version: str | None = None
    complete: bool = True
    drift: tuple[str, ...] = ()
    restart_required: bool = False
    previous: str | None = None
    previous_intact: bool | None = None
    unit: Mapping[str, str] | None = None
    store: str | None = None
    store_used: bool | None = None
    generation: int | None = None
    generation_in_force: int | None = None
    store_marker: tuple[str, ...] | None = None
    store_access: str | None = None
    free: Mapping[str, int] | None = None
    log: Mapping[str, Any] = field(default_factory=dict)
    connectors: Mapping[str, str] = field(default_factory=dict)
    answering_connectors: tuple[str, ...] = ()
    message_returned: bool | None = None
    persistence: Mapping[str, Any] = field(default_factory=dict)
    taken_ports: tuple[TakenPort, ...] = ()

    @classmethod
    def from_broker_info_result(cls, returned: Mapping[str, Any]) -> BrokerEvidence:
        """Create the evidence about a broker from the result of the module ``broker_info``.

        Raises NodeError.
        """
        return _create_from_result(cls, returned)


@dataclass(frozen=True)
class MachineFacts:
    """The facts about a broker's machine from the module ``machine_info``, such as Java, memory and file system.

    None or empty means unknown, and no rule reports unknown facts.
    """

    is_root: bool | None = None
    """Whether the tasks of Ansible run as root."""
    java: int | None = None
    """Feature release of the Java that the unit would run, such as 17."""
    java_failure: str | None = None
    """Why that Java does not report its version, such as ``No such file or directory``."""
    store_filesystem: str | None = None
    """Type of the file system that holds the store's directory: ``xfs``, ``nfs4``, ``nfs``, ``cifs``, ``ocfs2``."""
    store_mount_options: tuple[str, ...] = ()
    """As in /proc/mounts: ``vers=3``, ``nolock``, ``local_lock=all``."""
    store_capacity: int | None = None
    """Bytes to which the store can grow: its current size and the free space of its file system."""
    store_fenced: bool = False
    """Whether the store's directory has a directory in place of the lock file, so that only guards can use it."""
    running_store: Mapping[str, Any] | None = None
    """The store in the configuration that the running broker was started with, with the keys of ``StoreFacts``."""
    memory: int | None = None
    """Bytes of the machine's memory."""
    java_options: tuple[str, ...] = ()
    """The Java options on the running broker's command line."""
    settings_files: tuple[str, ...] = ()
    """Existing files that the start script of at least one release reads."""
    clock_synchronised: bool | None = None
    user: str | None = None
    """The account of the running broker."""
    taken_ports: tuple[TakenPort, ...] = ()
    """Those of the ports that the broker needs on which another process listens."""
    account_exists: bool | None = None
    """Whether the account of the broker exists."""
    account_uid: int | None = None
    account_gid: int | None = None
    """The id of the group that is named after the account."""
    account_processes: tuple[int, ...] = ()
    """Some of the processes that run as the account."""
    uid_holder: str | None = None
    """Another account that has the id ``activemq_uid``."""
    gid_holder: str | None = None
    """Another group that has the id ``activemq_gid``."""
    base_exists: bool = False
    """Whether the broker's directory exists."""
    data_uid: int | None = None
    """The owner of the broker's data directory; None if the directory contains no file."""
    data_account: str | None = None
    """The account with that id; None if no account has it."""
    missing_files: tuple[str, ...] = ()
    """Missing files that the broker's JVM requires at its start."""
    unresolved_names: tuple[str, ...] = ()
    """The host names of the broker's pair and of its link targets that the machine does not resolve."""
    interfaces: tuple[str, ...] = ()
    """Interfaces that are up, loopback included."""
    cloud: str | None = None
    """The cloud that the machine reports, such as ``Amazon EC2``."""
    pair: str | None = None
    """The name of the pair in the configuration that is in force on the host."""
    boot: str | None = None
    """The kernel's boot id: two hosts with the same id are the same machine, or containers on the same machine."""
    release: str | None = None
    """The release that the running broker has open."""
    pid: int | None = None
    """The process of the broker."""
    has_home_link_conflict: bool = False
    """Whether the path of the link to the release exists, and is not a link."""
    home_exists: bool = False
    """Whether the directory of the release exists."""
    home_releases: tuple[str, ...] = ()
    """The releases of the brokers' jars in that directory."""
    home_processes: tuple[int, ...] = ()
    """The processes that have files of that directory open."""
    replaced_brokers: tuple[ReplacedBroker, ...] = ()
    """The running brokers that the broker replaces, such as the one before an adoption."""

    @classmethod
    def from_machine_info_result(cls, returned: Mapping[str, Any]) -> MachineFacts:
        """Create the facts about a machine from the result of the module ``machine_info``.

        Raises NodeError.
        """
        return _create_from_result(cls, returned)


@dataclass(frozen=True)
class StoreMarkerEvidence:
    """The evidence about a store's marker, the file that assigns a shared store to its pair of brokers.

    The module ``store_marker`` returns it. ``marked`` has the lines of the marker, None without a marker. ``mounted``:
    the directory, or a directory above it other than the root, is a mount point. ``fenced``: brokers use generations of
    the store.
    """

    exists: bool
    mounted: bool
    used: bool
    fenced: bool = False
    marked: tuple[str, ...] | None = None

    @classmethod
    def from_store_marker_result(cls, returned: Mapping[str, Any]) -> StoreMarkerEvidence:
        """Create a ``StoreMarkerEvidence`` object from the result of the Ansible module ``store_marker``.

        Raises NodeError.
        """
        return _create_from_result(cls, returned)
