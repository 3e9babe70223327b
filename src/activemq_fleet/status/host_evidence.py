"""Parse what hosts returned for a status into typed values, host by host.

The values are untrusted: root of the host and the accounts of its broker and agent control them. A part that does not
parse makes the state of that host unknown, with the reason, without an effect on other hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from activemq_fleet.node.judge import BrokerState
from activemq_fleet.node.printable import escape_unprintable
from activemq_fleet.node.state.evidence import describe_port_holder
from activemq_fleet.topology import Fleet

_MAX_LENGTH = 4000
_LAST_SECOND = 253402300799  # The last second of the year 9999.


def _printable_text(text: str) -> str:
    return escape_unprintable(text[:_MAX_LENGTH])


Text = Annotated[str, AfterValidator(_printable_text)]
Number = Annotated[int, Field(strict=True, ge=-(1 << 63), lt=1 << 63)]
Decimal = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1e18, le=1e18)]
Moment = Annotated[float, Field(strict=True, ge=0, le=_LAST_SECOND)]
Flag = Annotated[bool, Field(strict=True)]
_NONE_AS_LIST = BeforeValidator(lambda value: [] if value is None else value)
_NONE_AS_MAPPING = BeforeValidator(lambda value: {} if value is None else value)
_EMPTY_AS_NONE = BeforeValidator(lambda value: None if value == {} else value)
PartName = Literal["broker", "agent", "balancer"]


class _EvidencePart(BaseModel):
    """A part of the evidence that our Ansible modules return about a host, with typed values.

    Keys that no rule reads are left out: declare what a rule reads.
    """

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class LimitUsage(_EvidencePart):
    """The usage of one limit of a broker (store, memory or temp): percent of the limit, and the limit in bytes."""

    percent: Number | None = None
    limit: Number | None = None


class QueueUsage(_EvidencePart):
    """The messages and consumers of one queue of a broker.

    ``largest`` is the size of its largest message in bytes, 0 where the release does not count it.
    """

    name: Text
    messages: Number
    consumers: Number
    dlq: Flag
    largest: Number = 0


class EstablishedBridgeEvidence(_EvidencePart):
    """A bridge that is established at a broker: the name of its link, the remote brokerName, and which end it is."""

    link: Text
    peer: Text
    responder: Flag


class BrokerStatistics(_EvidencePart):
    """The usage of an active broker: its limits, messages, connections, fullest queues and bridges.

    ``broker_statistics_from_mbeans`` describes the values.
    """

    store: LimitUsage
    memory: LimitUsage
    temp: LimitUsage
    connections: Number | None = None
    messages: Number
    durable: Number
    dlq: Number
    queues: list[QueueUsage] = []
    bridges: list[EstablishedBridgeEvidence]
    whole: Flag = True

    @property
    def percents(self) -> dict[str, int]:
        """The used percent of each limit, by the names ``store``, ``memory`` and ``temp``; 0 where it is unknown."""
        return {name: getattr(self, name).percent or 0 for name in ("store", "memory", "temp")}


class CertificateExpiry(_EvidencePart):
    """The expiry time of a certificate in seconds since the epoch, or None and the reason why it is unknown."""

    name: Text
    ends: Annotated[float, Field(strict=True, ge=-_LAST_SECOND, le=_LAST_SECOND)] | None
    error: Text


class PortHolder(_EvidencePart):
    """A port that a standby needs, and the process that listens on it; None where the process is not visible."""

    port: Number
    pid: Number | None = None
    program: Text | None = None

    @property
    def port_holder_text(self) -> str:
        """The program and pid of the process that listens on the port, as text."""
        return describe_port_holder(self.pid, self.program)


class WatchdogUnit(_EvidencePart):
    """The state and the status text of the systemd unit of a broker's watchdog."""

    state: Text
    text: Text


class LoggedRecord(_EvidencePart):
    """A record (level and message) of a broker's log: a warning, or a record about network links."""

    level: Text
    message: Text


class BreakingBridge(_EvidencePart):
    """A network bridge that breaks repeatedly soon after it is established, as ``flapping_bridges`` describes it."""

    peer: Text
    count: Number
    error: Text | None = None


class BrokerStatusEvidence(_EvidencePart):
    """The status of a broker, as the module ``host_status`` returns it (see ``gather_broker_status``).

    The state is None if the host cannot determine it, for the reason ``how``.
    """

    state: BrokerState | None
    how: Text
    frozen: Flag | None = None
    pid: Number | None = None
    guard: Number | None = None
    since: Text | None = None
    state_since: Moment | None = None
    release: Text | None = None
    version: Text | None = None
    store: Text | None = None
    store_access: Text | None = None
    store_marker: list[Text] | None = None
    holds_lock: Flag | None = None
    generation: Number | None = None
    generation_in_force: Number | None = None
    subscriptions_at_risk: Annotated[list[Text], _NONE_AS_LIST] = []
    drift: Annotated[list[Text], _NONE_AS_LIST] = []
    restart_reasons: Annotated[list[Text], _NONE_AS_LIST] = []
    free: Annotated[dict[Text, Number], _NONE_AS_MAPPING] = {}
    usage: Annotated[BrokerStatistics | None, _EMPTY_AS_NONE] = None
    usage_error: Text | None = None
    log_error: Text | None = None
    records: list[LoggedRecord] = []
    breaking_bridges: Annotated[list[BreakingBridge], _NONE_AS_LIST] = []
    deployed: Annotated[dict[Text, Text], _NONE_AS_MAPPING] = {}
    certificates: Annotated[list[CertificateExpiry], _NONE_AS_LIST] = []
    taken_ports: Annotated[list[PortHolder], _NONE_AS_LIST] = []
    watchdog: WatchdogUnit | None = None
    message_returned: Flag | None = None


class AgentStore(_EvidencePart):
    """The numbers of events in an agent's outbox and inbox, the outbox's bytes and the oldest event's age (seconds)."""

    outbox_rows: Number | None = None
    outbox_bytes: Number | None = None
    oldest_age: Decimal | None = None
    inbox_rows: Number | None = None
    quarantined: Number | None = None


class AgentStatusEvidence(_EvidencePart):
    """The status of a failover agent, as the module ``host_status`` returns it (see ``gather_agent_status``)."""

    state: Literal["running", "stopped"] | None
    how: Text
    damage: Text | None = None
    store: AgentStore | None = None
    publisher: Text | None = None
    subscriber: Text | None = None
    deployed: Annotated[dict[Text, Text], _NONE_AS_MAPPING] = {}
    certificates: Annotated[list[CertificateExpiry], _NONE_AS_LIST] = []


class HAProxyUnitState(_EvidencePart):
    """The state of HAProxy's systemd unit, None without systemd, and whether HAProxy answers."""

    state: Text | None
    answers: Flag


class KeepalivedUnitState(_EvidencePart):
    """The state of keepalived's systemd unit, None without systemd."""

    state: Text | None


class BalancerStatusEvidence(_EvidencePart):
    """The status of a load balancer, as the module ``host_status`` returns it.

    The function ``gather_haproxy_and_keepalived_status`` describes it.
    """

    haproxy: HAProxyUnitState
    keepalived: KeepalivedUnitState
    addresses: dict[Text, Flag | None]


NO_BROKER_EVIDENCE = BrokerStatusEvidence(state=None, how="")
NO_AGENT_EVIDENCE = AgentStatusEvidence(state=None, how="")
_PART_CLASSES: Mapping[PartName, type[_EvidencePart]] = {
    "broker": BrokerStatusEvidence,
    "agent": AgentStatusEvidence,
    "balancer": BalancerStatusEvidence,
}


@dataclass(frozen=True, slots=True)
class HostEvidence:
    """The status data that one host returned: of its broker, agent and load balancer; None for each part without data.

    ``unreachable`` is the reason why the host did not answer; ``unusable`` are the reasons why parts cannot be read.
    """

    broker: BrokerStatusEvidence | None = None
    agent: AgentStatusEvidence | None = None
    balancer: BalancerStatusEvidence | None = None
    unreachable: str = ""
    unusable: Mapping[PartName, str] = field(default_factory=dict)

    def missing_state(self, part: PartName) -> Literal["unreachable", "unknown"]:
        """Return ``unknown`` or ``unreachable``: the state of a broker, agent or load balancer that returned none."""
        return "unknown" if getattr(self, part) or part in self.unusable else "unreachable"

    def missing_reason(self, part: PartName) -> str:
        """Return the reason why the status of a broker, agent or load balancer on this host is unknown, as text."""
        return self.unusable.get(part) or self.unreachable or "the host returned no result"


def read_host_evidence(fleet: Fleet, returned: Mapping[str, Any]) -> dict[str, HostEvidence]:
    """Return the validated status data of each host, parsed from the results of the module ``host_status``.

    ``fleet_status`` describes the results. A host that is not in the fleet is left out, and so is a part that the fleet
    does not have on a host.
    """
    hosts: Mapping[PartName, set[str]] = {
        "broker": {broker.host for broker in fleet.brokers},
        "agent": {agent.host for agent in fleet.agents},
        "balancer": {balancer.host for balancer in fleet.balancers},
    }
    parts = {host: [part for part in hosts if host in hosts[part]] for host in returned}
    return {host: _read_host(parts[host], result) for host, result in returned.items() if parts[host]}


def _read_host(parts: Sequence[PartName], returned: Any) -> HostEvidence:
    if not isinstance(returned, Mapping):
        reason = f"it is of the type {type(returned).__name__}, but must be a mapping"
        return HostEvidence(unusable={part: _unusable_reason(reason) for part in parts})
    read: dict[str, Any] = {}
    unusable: dict[PartName, str] = {}
    for part in parts:
        if returned.get("invalid"):
            unusable[part] = _unusable_reason(_printable_text(str(returned["invalid"])))
        elif part in returned:
            try:
                read[part] = _PART_CLASSES[part].model_validate(returned[part])
            except ValidationError as error:
                first_error = error.errors(include_url=False, include_input=False)[0]
                location = ".".join(map(str, (part, *first_error["loc"])))
                unusable[part] = _unusable_reason(_printable_text(f"{location}: {first_error['msg']}"))
    unreachable = _printable_text(" ".join(str(returned.get("unreachable") or "").split()))
    return HostEvidence(**read, unreachable=unreachable, unusable=unusable)


def _unusable_reason(reason: str) -> str:
    return (
        f"the module host_status of the collection returned an unusable result ({reason}): install the collection "
        "activemq.fleet and the Python library activemq-fleet in the same version"
    )
