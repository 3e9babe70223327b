"""Parse what hosts returned for a status into typed values, host by host.

The values are untrusted: root of the host and the accounts of its broker and agent control them. A part that does not
parse makes the state of that host unknown, with the reason, without an effect on other hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from activemq_fleet.node.judge import BrokerState
from activemq_fleet.node.printable import escape_unprintable
from activemq_fleet.topology import Fleet

_MAX_LENGTH = 4000
_MAX_DEPTH = 20
_LAST_SECOND = 253402300799  # The last second of the year 9999.


def _printable_text(text: str) -> str:
    return escape_unprintable(text[:_MAX_LENGTH])


Text = Annotated[str, AfterValidator(_printable_text)]
Number = Annotated[int, Field(strict=True, ge=-(1 << 63), lt=1 << 63)]
Decimal = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1e18, le=1e18)]
Moment = Annotated[float, Field(strict=True, ge=0, le=_LAST_SECOND)]
Flag = Annotated[bool, Field(strict=True)]


class _EvidencePart(BaseModel):
    """A part of the evidence that our Ansible modules return about a host, with typed values.

    Keys that no rule reads are left out: declare what a rule reads.
    """

    model_config = ConfigDict(strict=True, extra="ignore")


class _Limit(_EvidencePart):
    percent: Number | None = None
    limit: Number | None = None


class _Queue(_EvidencePart):
    name: Text
    messages: Number
    consumers: Number
    dlq: Flag
    largest: Number = 0


class _Bridge(_EvidencePart):
    link: Text
    peer: Text
    responder: Flag


class _UsageEvidence(_EvidencePart):
    store: _Limit
    memory: _Limit
    temp: _Limit
    connections: Number | None = None
    messages: Number
    durable: Number
    dlq: Number
    queues: list[_Queue] = []
    bridges: list[_Bridge]
    whole: Flag = True


class _NoUsage(_EvidencePart):
    """The usage of a broker that has none: an empty mapping."""

    model_config = ConfigDict(strict=True, extra="forbid")


class _Certificate(_EvidencePart):
    name: Text
    ends: Annotated[float, Field(strict=True, ge=-_LAST_SECOND, le=_LAST_SECOND)] | None
    error: Text


class _TakenPort(_EvidencePart):
    port: Number
    pid: Number | None = None
    program: Text | None = None


class _Watchdog(_EvidencePart):
    state: Text
    text: Text


class _OperationEvidence(_EvidencePart):
    level: Text
    message: Text


class _Breaking(_EvidencePart):
    peer: Text
    count: Number
    error: Text | None = None


class _BrokerEvidence(_EvidencePart):
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
    holds_lock: Flag | None = None
    generation: Number | None = None
    generation_in_force: Number | None = None
    subscriptions_at_risk: list[Text] | None = None
    drift: list[Text] | None = None
    restart_reasons: list[Text] | None = None
    free: dict[Text, Number] | None = None
    usage: _NoUsage | _UsageEvidence | None = None
    usage_error: Text | None = None
    log_error: Text | None = None
    records: list[_OperationEvidence] = []
    breaking_bridges: list[_Breaking] | None = None
    deployed: dict[Text, Text] | None = None
    certificates: list[_Certificate] | None = None
    taken_ports: list[_TakenPort] | None = None
    watchdog: _Watchdog | None = None
    message_returned: Flag | None = None


class _Outbox(_EvidencePart):
    outbox_rows: Number | None = None
    outbox_bytes: Number | None = None
    oldest_age: Decimal | None = None
    inbox_rows: Number | None = None
    quarantined: Number | None = None


class _Agent(_EvidencePart):
    state: Literal["running", "stopped"] | None
    how: Text
    damage: Text | None = None
    store: _Outbox | None = None
    publisher: Text | None = None
    subscriber: Text | None = None
    deployed: dict[Text, Text] | None = None
    certificates: list[_Certificate] | None = None


class _HAProxy(_EvidencePart):
    state: Text | None
    answers: Flag


class _Keepalived(_EvidencePart):
    state: Text | None


class _Balancer(_EvidencePart):
    haproxy: _HAProxy
    keepalived: _Keepalived
    addresses: dict[Text, Flag | None]


def typed_evidence(fleet: Fleet, evidence: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the evidence (facts collected from a fleet's hosts), validated and in typed values, by host.

    ``fleet_status`` describes the evidence. An invalid part has the state None, and the reason as ``how``. A part that
    the fleet does not have on a host is left out.
    """
    parts: dict[str, dict[str, type[_EvidencePart]]] = {}
    for broker in fleet.brokers:
        parts.setdefault(broker.host, {})["broker"] = _BrokerEvidence
    for agent in fleet.agents:
        parts.setdefault(agent.host, {})["agent"] = _Agent
    for balancer in fleet.balancers:
        parts.setdefault(balancer.host, {})["balancer"] = _Balancer
    return {host: _typed_host(parts[host], returned) for host, returned in evidence.items() if host in parts}


def _typed_host(parts: Mapping[str, type[_EvidencePart]], returned: Any) -> dict[str, Any]:
    if not isinstance(returned, Mapping):
        return {
            part: _unusable_part(f"it is of the type {type(returned).__name__}, but must be a mapping")
            for part in parts
        }
    typed: dict[str, Any] = {}
    if returned.get("unreachable"):
        typed["unreachable"] = _printable_text(" ".join(str(returned["unreachable"]).split()))
    for part, model in parts.items():
        if returned.get("invalid"):
            typed[part] = _unusable_part(_printable_text(str(returned["invalid"])))
        elif part in returned:
            try:
                typed[part] = model.model_validate(_plain(returned[part])).model_dump(exclude_unset=True)
            except ValidationError as error:
                first_error = error.errors(include_url=False, include_input=False)[0]
                location = ".".join(
                    str(segment) for segment in (part, *first_error["loc"]) if not str(segment).startswith("_")
                )
                typed[part] = _unusable_part(_printable_text(f"{location}: {first_error['msg']}"))
            except ValueError as error:
                typed[part] = _unusable_part(_printable_text(f"{part}: {error}"))
    return typed


def _unusable_part(reason: str) -> dict[str, Any]:
    reason_text = (
        f"the module host_status of the collection returned an unusable result ({reason}): install the collection "
        "activemq.fleet and the Python library activemq-fleet in the same version"
    )
    return {"state": None, "how": reason_text}


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value in plain Python containers, because Ansible's evaluate templates when they are read."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"the result of the module host_status is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key], depth + 1) for key in value}
    if isinstance(value, list | tuple):
        return [_plain(member, depth + 1) for member in value]
    return value
