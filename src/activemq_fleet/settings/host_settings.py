"""Validate ``activemq_*`` variables and return typed settings, one object for each host.

The attribute of a variable is its name without ``activemq_``. Defaults that depend on the release
or the topology are None here and decided in ``topology``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    model_validator,
)

from activemq_fleet.naming import DEFAULT_MASTER_NODE, NODE_MARK, PLAIN_NAME
from activemq_fleet.node.config.probe_account import PROBE_GROUP, PROBE_USER
from activemq_fleet.profiles import DEFAULT_PROFILE, PROFILES, HighAvailabilityProfile, ProfileName
from activemq_fleet.settings import variable_types
from activemq_fleet.settings.activemq_size_notation import size_in_bytes
from activemq_fleet.settings.agent import AgentSettings
from activemq_fleet.settings.balancer import BalancerSettings
from activemq_fleet.settings.connectors_and_links import (
    ImmutableSettingsBase,
    LinkAttributes,
    LinkSettings,
    TransportConnectorSettings,
    Ttl,
    UriOptions,
)
from activemq_fleet.settings.default_credentials import is_default_credential
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.settings.java_memory_options import heap_variable_and_size, largest_heap_bytes
from activemq_fleet.settings.jmx_port_and_users import JmxSettings
from activemq_fleet.settings.metrics import MetricsSettings
from activemq_fleet.settings.xml_element_settings import SettingsRenderedAsXmlElements
from activemq_fleet.uris import BRIDGE_OPTIONS

PREFIX = "activemq_"
USERS_OWN = PREFIX + "x_"
# Set by the inventory plugin, or parameters of playbooks: known, and no setting of a host.
NOT_SETTINGS = frozenset({
    "activemq_identity",
    "activemq_naming_pattern",
    "activemq_target",
    "activemq_to",
    "activemq_since",
    "activemq_resync_from",
    "activemq_resync_restart",
    "activemq_drill_allowed",
    "activemq_migrate_seconds",
    "activemq_retire",
    "activemq_drill_kills",
    "activemq_drill_what",
    "activemq_drill_rate",
    "activemq_drill_seed",
    "activemq_drill_report",
    "activemq_status_to",
    "activemq_status_timeout",
    "activemq_status_evidence",
    "activemq_collect_to",
    "activemq_collect_megabytes",
    "activemq_collect_timeout",
    "activemq_collect_days",
    "activemq_collect_dumps",
})  # fmt: skip
# Names under which a broker's ports are listed next to those of its connectors.
MIN_UNFENCED_ACQUIRE_INTERVAL = 100
"""The shortest ``activemq_lock_acquire_interval`` of a broker without a guard, in milliseconds.

With a guard, the broker tries a lock on the host's own disk, so that shorter intervals cost nothing.
"""
_PORTS_OF_OURS = frozenset({"console", "jmx", "jmx_rmi", "metrics", "replication"})
# Attributes of <broker> that peers, clients and the console rely on.
_DECIDED = {
    "brokerName": "remove the attribute, and use activemq_broker_name",
    "id": "remove the attribute, because the web console requires the id 'broker'",
}


def _has_default_password(username: str | None, password: SecretStr | UndecryptedVaultValue | None) -> bool:
    return isinstance(password, SecretStr) and is_default_credential(username or "", password.get_secret_value())


class UserSettings(ImmutableSettingsBase):
    """The settings of a user of brokers: one entry of ``activemq_users``.

    It has a user name, its password and its user groups.
    """

    name: variable_types.Principal
    password: variable_types.Secret
    groups: variable_types.Principals = ()

    @model_validator(mode="after")
    def _refuse_default_credentials(self) -> Self:
        if _has_default_password(self.name, self.password):
            raise ValueError(f"the broker account {self.name} has a default password of ActiveMQ: set another password")
        return self


class AclEntry(ImmutableSettingsBase):
    """The access rights on destinations: one entry of ``activemq_acl``.

    ``read``, ``write`` and ``admin`` are names of user groups.
    """

    destination: variable_types.Destination
    kind: Literal["queue", "topic"]
    read: variable_types.Principals = ()
    write: variable_types.Principals = ()
    admin: variable_types.Principals = ()


class JdbcSettings(ImmutableSettingsBase):
    """The settings of the database that a pair shares by JDBC: the value of ``activemq_jdbc``."""

    url: Annotated[
        str,
        variable_types.matching_text_validator(
            r"jdbc:[^\s\"'<>]+",
            "must be a JDBC URL such as jdbc:postgresql://db/activemq, without spaces, quotes, < and >",
            may_be_secret=True,
        ),
        AfterValidator(variable_types.check_literal_text),
    ]
    driver: variable_types.JavaClass
    jar: variable_types.AbsolutePath | None = None
    username: variable_types.Principal
    password: variable_types.Secret


class FenceCommandSettings(ImmutableSettingsBase):
    """The settings of the command that fences the other node of a pair: the value of ``activemq_fence_command``.

    The program makes sure that the other node's broker is dead. ``timeout`` is in seconds. ``secrets`` are written to a
    file whose path the program receives.
    """

    argv: Annotated[tuple[variable_types.Text, ...], Field(min_length=1)]
    timeout: int = Field(default=60, ge=1, le=3600)
    secrets: dict[
        Annotated[
            str,
            variable_types.matching_text_validator(
                "[A-Z][A-Z0-9_]*", "must be the name of an environment variable such as API_TOKEN"
            ),
        ],
        variable_types.Secret,
    ] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_a_path(self) -> Self:
        if not self.argv[0].startswith("/"):
            raise ValueError(
                f"argv of activemq_fence_command begins with the program {self.argv[0]!r}, but requires an absolute "
                "path: write the full path of the program"
            )
        return self


class TlsSettings(ImmutableSettingsBase):
    """The TLS settings of a broker: the value of ``activemq_tls``.

    They are keystore and truststore as paths on the brokers' hosts, and their passwords.
    """

    keystore: variable_types.AbsolutePath
    keystore_password: variable_types.Secret
    truststore: variable_types.AbsolutePath
    truststore_password: variable_types.Secret
    client_auth: bool = False


class XmlFragmentSettings(ImmutableSettingsBase):
    """The settings of a user-written XML fragment for activemq.xml: one entry of ``activemq_xml_fragments``.

    ``parent`` is a path of elements below ``beans``.
    """

    parent: Annotated[
        str,
        variable_types.matching_text_validator(
            r"(?a:[A-Za-z]\w*(/[A-Za-z]\w*)*)", "must be names of XML elements, separated by /, such as broker/plugins"
        ),
    ] = "broker"
    xml: str = Field(min_length=1)


class ExtraFileSettings(ImmutableSettingsBase):
    """The settings of an additional file of a broker: one entry of ``activemq_extra_files``.

    ``path`` is relative to the broker's configuration tree.
    """

    path: Annotated[str, AfterValidator(variable_types.check_path_below_broker_directory)]
    content: Annotated[str, AfterValidator(variable_types.check_encodable)]


PlainName = Annotated[
    str,
    variable_types.matching_text_validator(PLAIN_NAME, "must contain only letters, digits, - and _, such as orders"),
]
NodeMark = Annotated[
    str,
    variable_types.matching_text_validator(
        NODE_MARK, "must be one word of letters and digits, such as a, 1 or primary"
    ),
]


class WaiverSettings(ImmutableSettingsBase):
    """The settings of a waiver, which excludes findings from blocking: one entry of ``activemq_waivers``.

    ``hosts`` are names or wildcards, ``until`` is the last day on which it is valid.
    """

    rule: Annotated[
        str, variable_types.matching_text_validator(r"[A-Z][0-9]{3}", "must be the name of a rule, such as T005")
    ]
    reason: variable_types.Text
    hosts: Annotated[tuple[variable_types.Text, ...], variable_types.Words] = ("*",)
    until: date | None = None


class _Broker(ImmutableSettingsBase):
    """The variables of a broker's software, store and network."""

    release: variable_types.ReleaseText | None = None
    group: PlainName | None = None
    pair: PlainName | None = None
    node: NodeMark | None = None
    naming_parity: Literal["odd-even", "even-odd"] | None = None
    master_node: NodeMark = DEFAULT_MASTER_NODE
    address: variable_types.Host | None = None
    broker_name: variable_types.Name | None = None
    ha: ProfileName = DEFAULT_PROFILE
    store_directory: variable_types.AbsolutePath | None = None
    fence: Literal["guard", "command", "none"] = "none"
    fence_command: FenceCommandSettings | None = None
    index_rebuild: Literal["serve", "refuse"] = "serve"
    jdbc: JdbcSettings | None = None
    lock_acquire_interval: int | None = Field(default=None, ge=50, le=3_600_000)
    lock_keepalive_interval: int | None = Field(default=None, ge=100, le=3_600_000)
    environment: variable_types.Principal | None = None
    discovery: Literal["masterslave", "failover", "static", "multicast"] | None = None
    topology: Literal["mesh", "hub", "ring", "chain", "none"] = "mesh"
    multicast: variable_types.Multicast = "224.1.2.3:6255"
    multicast_group: variable_types.Principal | None = None
    multicast_name: variable_types.BeanName | None = None
    multicast_interface: variable_types.NetworkInterface | None = None
    network_username: variable_types.Principal | None = None
    network_password: variable_types.Secret | None = None
    probe_password: variable_types.Secret | None = None
    probe_ca: variable_types.AbsolutePath | None = None
    network_ttl: Ttl | None = None
    network_attributes: LinkAttributes = ()
    network_options: UriOptions = BRIDGE_OPTIONS
    links: tuple[LinkSettings, ...] = ()
    pair_links: Literal["none", "static"] = "none"
    connectors: tuple[TransportConnectorSettings, ...] | None = None
    replication_port: variable_types.Port = 61618
    bind: variable_types.Host = "0.0.0.0"  # noqa: S104 -- clients and peers are on other hosts
    port_offset: int = Field(default=0, ge=0, le=65000)
    console: bool = True
    console_bind: variable_types.Host = "127.0.0.1"
    console_port: variable_types.Port = 8161
    authentication: Literal["simple", "custom", "none"] = "simple"
    users: tuple[UserSettings, ...] = ()
    acl: tuple[AclEntry, ...] = ()
    tls: TlsSettings | None = None
    memory_limit: variable_types.Limit | None = None
    store_limit: variable_types.Limit = "20 gb"
    temp_limit: variable_types.Limit = "5 gb"
    broker_attributes: dict[
        Annotated[
            str,
            variable_types.matching_text_validator(
                r"(?a:(?!xml)[A-Za-z]\w*)", "must be the name of an attribute of <broker>, such as persistent"
            ),
        ],
        Annotated[variable_types.Attribute, variable_types.OptionText],
    ] = Field(default_factory=dict)
    jmx: JmxSettings | None = None
    imports: tuple[variable_types.Import, ...] = ()
    shutdown_hooks: tuple[variable_types.JavaClass, ...] = ()
    log_query: bool = False
    runtime_configuration: bool = False
    xml_fragments: tuple[XmlFragmentSettings, ...] = ()
    extra_files: tuple[ExtraFileSettings, ...] = ()
    waivers: tuple[WaiverSettings, ...] = ()

    @property
    def ha_profile(self) -> HighAvailabilityProfile:
        """The high-availability profile of a broker, given by the variable ``activemq_ha``."""
        return PROFILES[self.ha]


class _Host(ImmutableSettingsBase):
    """The variables for where and how a broker is installed and run."""

    install: Literal["archive", "package", "jars", "none"] = "archive"
    archive: variable_types.Archive | None = None
    archive_sha512: variable_types.Sha512 | None = None
    service: Literal["systemd", "none"] = "systemd"
    user: variable_types.UnixName = "activemq"
    uid: int | None = Field(default=None, ge=1, le=4_294_967_294)
    gid: int | None = Field(default=None, ge=1, le=4_294_967_294)
    home: variable_types.AbsolutePath = "/opt/activemq"
    base: variable_types.AbsolutePath = "/var/lib/activemq"
    instance: variable_types.Instance = "activemq"
    heap: variable_types.Heap = "512m"
    unit_memory_max: variable_types.MemoryMax | None = None
    java_home: variable_types.AbsolutePath | None = None
    java_options: tuple[variable_types.JavaOption, ...] = ()
    watchdog: variable_types.Watchdog = "warn"


class HostSettings(_Broker, SettingsRenderedAsXmlElements, _Host, MetricsSettings, BalancerSettings, AgentSettings):
    """The validated settings of one host: all its ``activemq_*`` variables.

    The host is that of a broker, an agent or a load balancer. The object is immutable and comparable.
    """

    @model_validator(mode="before")
    @classmethod
    def _jars_have_no_console(cls, variables: Any) -> Any:
        # The console is a web application of the whole distribution; with jars alone, or Debian's package,
        # the broker would not start (ClassNotFoundException of its Jetty beans, seen on 6.3.1).
        if isinstance(variables, dict) and variables.get("install") in ("jars", "package"):
            return {"console": False} | variables
        return variables

    @model_validator(mode="after")
    def _guards_have_a_watchdog_that_kills(self) -> Self:
        # A guard that lives keeps the pair's lock for a Java that hangs: no standby takes over until it is killed.
        if self.fence != "none" and "watchdog" not in self.model_fields_set:
            object.__setattr__(self, "watchdog", "kill")
        return self

    @model_validator(mode="after")
    def _check_contradictions(self) -> Self:
        reasons = itertools.chain(
            self._store_contradictions(),
            self._attribute_contradictions(),
            self._unusable_values(),
            self._memory_contradictions(),
            self._name_contradictions(),
        )
        if reason := next(reasons, None):
            raise ValueError(reason)
        return self

    def _store_contradictions(self) -> Iterator[str]:
        if self.install in ("jars", "package") and self.console:
            yield (
                f"activemq_console is true, but activemq_install: {self.install} installs no web console: set "
                "activemq_console to false"
            )
        if self.fence != "none" and not self.ha_profile.shares_store_directory:
            yield (
                f"activemq_fence is {self.fence}, but with activemq_ha: {self.ha} the broker shares no directory: "
                "set activemq_fence to none"
            )
        acquire = self.lock_acquire_interval
        if acquire is not None and acquire < MIN_UNFENCED_ACQUIRE_INTERVAL and self.fence == "none":
            yield (
                f"activemq_lock_acquire_interval must be at least {MIN_UNFENCED_ACQUIRE_INTERVAL}, not {acquire}, "
                "because without activemq_fence each attempt accesses the shared store or the database: write a number "
                "of milliseconds, such as 5000 for 5 s"
            )
        # What follows would have to know the journals of several stores.
        several = self.kahadb is not None and self.kahadb.by_destination
        if several and self.fence != "none":
            yield (
                f"activemq_kahadb has by_destination (several stores), but activemq_fence: {self.fence} protects only "
                "one store per pair: set activemq_fence to none, or remove by_destination"
            )
        if several and self.ha_profile.replicates:
            yield (
                f"activemq_kahadb has by_destination (several stores), but with activemq_ha: {self.ha} the playbook "
                "resync copies only one store: remove by_destination"
            )
        if self.kahadb is not None and self.ha_profile.has_database_lease:
            yield f"activemq_kahadb is set, but activemq_ha: {self.ha} uses no kahaDB: remove activemq_kahadb"

    def _attribute_contradictions(self) -> Iterator[str]:
        attributes = self.broker_attributes
        if self.jmx and self.jmx.tls and self.tls is None:
            yield (
                "activemq_jmx.tls is true, but activemq_tls (the key store and trust store of JMX) is not set: set "
                "activemq_tls, or set activemq_jmx.tls to false"
            )
        if self.jmx and attributes.get("useJmx") == "false":
            yield (
                "activemq_jmx is set, but useJmx: false in activemq_broker_attributes disables JMX: remove useJmx "
                "from activemq_broker_attributes"
            )
        if self.plugins and self.plugins.redelivery and attributes.get("schedulerSupport") == "false":
            yield (
                "activemq_plugins.redelivery requires the scheduler, but schedulerSupport: false in "
                "activemq_broker_attributes disables it: remove schedulerSupport"
            )
        doubled = sorted({"schedulerSupport", "schedulerDirectory"} & attributes.keys())
        if self.scheduler and doubled:
            yield (
                f"activemq_scheduler and {doubled[0]!r} in activemq_broker_attributes are both set: remove "
                f"{doubled[0]!r} from activemq_broker_attributes"
            )
        if self.fence == "command" and self.fence_command is None:
            yield (
                "activemq_fence is command, but activemq_fence_command is not set: set it to the program that stops "
                "the broker of the other node"
            )

    def _unusable_values(self) -> Iterator[str]:
        if self.release is not None and self.install in ("archive", "jars"):
            for name, value in (("archive", self.archive), ("archive_sha512", self.archive_sha512)):
                if isinstance(value, dict) and self.release not in value:
                    has = f"it has {', '.join(value)}" if value else "it is empty"
                    yield (
                        f"activemq_{name} has no entry for activemq_release {self.release} ({has}): add an entry for "
                        "this release"
                    )
        for kind in ("network", "agent", "vip"):
            if _has_default_password(getattr(self, f"{kind}_username"), getattr(self, f"{kind}_password")):
                yield f"activemq_{kind}_password is a default password of ActiveMQ: set a different password"
        if _has_default_password(PROBE_USER, self.probe_password):
            yield "activemq_probe_password is a default password of ActiveMQ: set a different password"
        for name in self.ha_profile.required_variables:
            if getattr(self, name) is None:
                yield (
                    f"activemq_ha is {self.ha}, but activemq_{name} is not set: set activemq_{name} with its "
                    "keys url, driver, username and password"
                )

    def _memory_contradictions(self) -> Iterator[str]:
        memory = (
            size_in_bytes(self.unit_memory_max) if self.unit_memory_max and self.unit_memory_max != "infinity" else None
        )
        if memory and memory <= largest_heap_bytes(self):
            variable, heap = heap_variable_and_size(self)
            yield (
                f"activemq_unit_memory_max is {self.unit_memory_max}, but {variable} sets a heap of {heap}: set "
                "activemq_unit_memory_max to more than the heap, because Java requires memory in addition to its heap"
            )

    def _name_contradictions(self) -> Iterator[str]:
        names = [connector.name for connector in self.connectors or ()]
        for doubled in variable_types.repeated_names(names):
            yield f"activemq_connectors has {doubled!r} twice: give each connector a different name"
        for kept in sorted(_PORTS_OF_OURS & set(names)):
            yield (
                f"activemq_connectors has a connector named {kept!r}, which is reserved for another port of the "
                "broker: choose another name for the connector"
            )
        for decided in sorted(_DECIDED.keys() & self.broker_attributes.keys()):
            yield f"activemq_broker_attributes must not set {decided!r}: {_DECIDED[decided]}"
        for doubled in variable_types.repeated_names([user.name for user in self.users]):
            yield f"activemq_users has {doubled!r} twice: merge the entries into one"
        yield from self._probe_account_collisions()

    def _probe_account_collisions(self) -> Iterator[str]:
        """Yield a reason for each account that has the name of the probe account, and each use of its user group."""
        names = [(f"activemq_users[{position}].name", user.name) for position, user in enumerate(self.users)]
        names += [
            (f"activemq_{kind}_username", getattr(self, f"{kind}_username")) for kind in ("network", "agent", "vip")
        ]
        for variable, name in names:
            if name == PROBE_USER:
                yield f"{variable} is {name}, which is reserved for the probes (health checks): choose another name"
        groups = [
            (f"activemq_users[{position}].groups", group)
            for position, user in enumerate(self.users)
            for group in user.groups
        ]
        groups += [
            (f"activemq_acl[{position}].{right}", group)
            for position, entry in enumerate(self.acl)
            for right in ("read", "write", "admin")
            for group in getattr(entry, right)
        ]
        for variable, group in groups:
            if group == PROBE_GROUP:
                yield f"{variable} has {group}, which is reserved for the probes (health checks): remove the group"

    def release_archive_path_or_url(self) -> str | None:
        """Return the path or URL of the archive of the host's ActiveMQ release; None if ``activemq_archive`` has none.

        The path is on the controller.
        """
        return _of_release(self.archive, self.release)

    def release_archive_sha512(self) -> str | None:
        """Return the SHA-512 checksum of the archive of the host's ActiveMQ release, or None if it is not set."""
        return _of_release(self.archive_sha512, self.release)


def _of_release(value: str | dict[str, str] | None, release: str | None) -> str | None:
    return value.get(release or "") if isinstance(value, dict) else value
