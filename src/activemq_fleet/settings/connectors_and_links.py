"""Define what connectors and links of ``activemq.xml`` can be set to: attributes by name, with the type of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from activemq_fleet.node.protocols import protocol_name_of_scheme
from activemq_fleet.settings import variable_types
from activemq_fleet.similar_names import most_similar_name

_BOOLEAN, _NUMBER, _TEXT = ("true", "false"), "a whole number", "text"
_NO_MAPPING = "the value is not a mapping: write each option as NAME: VALUE on a line of its own"
_MAX_HOPS = 1_000_000
_MULTICAST = re.compile(r"multicast://[A-Za-z0-9.:-]+(?:\?[A-Za-z0-9.=&_-]*)?")
_LINK_ATTRIBUTES: dict[str, object] = {
    "advisoryAckPercentage": _NUMBER,
    "advisoryForFailedForward": _BOOLEAN,
    "advisoryPrefetchSize": _NUMBER,
    "alwaysSyncSend": _BOOLEAN,
    "autoStart": _BOOLEAN,
    "bridgeTempDestinations": _BOOLEAN,
    "checkDuplicateMessagesOnDuplex": _BOOLEAN,
    "clientIdToken": _TEXT,
    "conduitNetworkQueueSubscriptions": _BOOLEAN,
    "conduitSubscriptions": _BOOLEAN,
    "consumerPriorityBase": _NUMBER,
    "decreaseNetworkConsumerPriority": _BOOLEAN,
    "destinationFilter": _TEXT,
    "dispatchAsync": _BOOLEAN,
    "dynamicOnly": _BOOLEAN,
    "gcDestinationViews": _BOOLEAN,
    "gcSweepTime": _NUMBER,
    "prefetchSize": _NUMBER,
    "staticBridge": _BOOLEAN,
    "suppressDuplicateQueueSubscriptions": _BOOLEAN,
    "suppressDuplicateTopicSubscriptions": _BOOLEAN,
    "syncDurableSubs": _BOOLEAN,
    "useBrokerNameAsIdSees": _BOOLEAN,
    "useCompression": _BOOLEAN,
    "useVirtualDestSubs": _BOOLEAN,
}
_CONNECTOR_ATTRIBUTES: dict[str, object] = {
    "allowLinkStealing": _BOOLEAN,
    "auditNetworkProducers": _BOOLEAN,
    "autoStart": _BOOLEAN,
    "disableAsyncDispatch": _BOOLEAN,
    "discoveryUri": _MULTICAST,
    "displayStackTrace": _BOOLEAN,
    "enableStatusMonitor": _BOOLEAN,
    "maximumConsumersAllowedPerConnection": _NUMBER,
    "maximumProducersAllowedPerConnection": _NUMBER,
    "rebalanceClusterClients": _BOOLEAN,
    "updateClusterClients": _BOOLEAN,
    "updateClusterClientsOnRemove": _BOOLEAN,
    "updateClusterFilter": _TEXT,
    "warnOnRemoteClose": _BOOLEAN,
}


def _pairs(value: Any) -> Any:
    """Return a mapping's items, names and values as text; pairs are returned unchanged."""
    items: Iterable[Any] = value.items() if isinstance(value, Mapping) else value
    if not isinstance(items, Iterable) or isinstance(items, str):
        raise ValueError(_NO_MAPPING)
    pairs = [tuple(item) if isinstance(item, list | tuple) else item for item in items]
    if any(not isinstance(item, tuple) or len(item) != 2 for item in pairs):
        raise ValueError(_NO_MAPPING)
    return tuple((name, variable_types.option_text(text)) for name, text in pairs)


def _of_types(types: Mapping[str, object], element: str) -> BeforeValidator:
    """Return a validator of XML attributes, given their types and the element to which they belong."""

    def check(value: Any) -> Any:
        for name, text in (pairs := _pairs(value)):
            wanted = types.get(name) if isinstance(name, str) else None
            if wanted is None:
                near = most_similar_name(str(name), types)
                hint = f"did you mean {near}?" if near else f"use one of {', '.join(sorted(types))}"
                raise ValueError(f"the attribute {name!r} of a {element} is unknown: {hint}")
            if wanted is _BOOLEAN and text not in _BOOLEAN:
                raise ValueError(
                    f"the attribute {name} of a {element} is {str(text)[:60]!r}, which is not a boolean: write true or "
                    "false"
                )
            if wanted is _NUMBER and not (isinstance(text, str) and text.removeprefix("-").isdecimal()):
                raise ValueError(
                    f"the attribute {name} of a {element} is {str(text)[:60]!r}, which is not a whole number: write a "
                    "number such as 1000"
                )
            if wanted is _MULTICAST and not (isinstance(text, str) and _MULTICAST.fullmatch(text)):
                raise ValueError(
                    f"the attribute {name} of a {element} is {str(text)[:60]!r}, which is not a URI of multicast "
                    "discovery: write a URI such as multicast://default"
                )
        return pairs

    return BeforeValidator(check)


def _json_schema_of(types: Mapping[str, object]) -> WithJsonSchema:
    """Return the JSON Schema of a mapping whose values may be numbers and booleans or the same as text."""
    schemas: dict[object, list[str]] = {_BOOLEAN: ["boolean", "string"], _NUMBER: ["integer", "string"]}
    properties = {name: {"type": schemas.get(wanted, "string")} for name, wanted in types.items()}
    return WithJsonSchema({"type": "object", "properties": properties, "additionalProperties": False})


_Items = tuple[tuple[str, variable_types.Attribute], ...]
_AS_MAPPING = PlainSerializer(dict, return_type=dict[str, str])
LinkAttributes = Annotated[
    _Items, _of_types(_LINK_ATTRIBUTES, "networkConnector"), _AS_MAPPING, _json_schema_of(_LINK_ATTRIBUTES)
]
ConnectorAttributes = Annotated[
    _Items, _of_types(_CONNECTOR_ATTRIBUTES, "transportConnector"), _AS_MAPPING, _json_schema_of(_CONNECTOR_ATTRIBUTES)
]
UriOptions = Annotated[
    tuple[tuple[variable_types.OptionName, variable_types.UriOption], ...],
    BeforeValidator(_pairs),
    _AS_MAPPING,
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "integer", "boolean"]}}),
]
FRAME_SIZE = "wireFormat.maxFrameSize"
DEFAULT_OPTIONS = {"maximumConnections": "1000", FRAME_SIZE: "10485760"}
"""The options of a connector for clients that do not speak OpenWire."""
_OPENWIRE_FRAME = "33554432"
"""32 MiB. A STOMP message of 10 MiB is up to three times as large in OpenWire, plus 8 KiB for its headers and 32 bytes
for each broker that it has passed (measured on 5.8.0 to 6.3.1)."""
_OPENWIRE_FRAME_FOR_UNLIMITED_CLIENTS = "301989888"
"""288 MiB: more than a broker accepts over STOMP and MQTT in a release that cannot limit them."""


def default_connector_options(scheme: str, *, limits_client_frames: bool = True) -> dict[str, str]:
    """Return the default URI options of a connector with the given scheme.

    They apply if the inventory sets none. OpenWire carries the links. So it has a larger limit than the other
    protocols: each message that a client sends over one of those passes each link. ``limits_client_frames``: the
    release limits the frames of STOMP and MQTT. A connector of the scheme ``auto`` has one limit for all protocols.
    """
    if protocol_name_of_scheme(scheme) != "openwire" or scheme.startswith("auto"):
        return dict(DEFAULT_OPTIONS)
    frame = _OPENWIRE_FRAME if limits_client_frames else _OPENWIRE_FRAME_FOR_UNLIMITED_CLIENTS
    return {**DEFAULT_OPTIONS, FRAME_SIZE: frame}


class ImmutableSettingsBase(BaseModel):
    """The base class of settings that are immutable and reject unknown keys.

    A host's settings and the models of their values inherit from it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, arbitrary_types_allowed=True)


class SplitTtl(ImmutableSettingsBase):
    """Separate TTLs of a network link for consumers' subscriptions and for messages (consumerTTL and messageTTL).

    Each is the number of bridges that they may cross. ActiveMQ has them from 5.9 on (AMQ-4607). A limit of -1 means no
    limit.
    """

    consumer: int = 1
    message: int = -1


def _ttl(value: Any) -> Any:
    numbers = [value]
    if isinstance(value, Mapping) and value and not value.keys() - SplitTtl.model_fields.keys():
        numbers = list(value.values())
        value = SplitTtl.model_construct(**value)
    elif isinstance(value, SplitTtl):
        numbers = [value.consumer, value.message]
    if any(type(number) is not int or not (number == -1 or 1 <= number <= _MAX_HOPS) for number in numbers):
        raise ValueError(
            f"the TTL (the largest number of bridges that messages may cross) is "
            f"{str(numbers[0] if len(numbers) == 1 else numbers)[:60]!r}"
            ": write a whole number of 1 or more, -1 for no limit, or {consumer: NUMBER, message: NUMBER}"
        )
    return value


Ttl = Annotated[int | SplitTtl, BeforeValidator(_ttl)]


class TransportConnectorSettings(ImmutableSettingsBase):
    """The settings of a transport connector: one entry of ``activemq_connectors``.

    ``port`` is without ``activemq_port_offset``. ``bind`` is None for ``activemq_bind``. ``tls`` is False for a
    connector that stays as it is where ``activemq_tls`` makes the others encrypt. ``attributes`` are those of
    ``<transportConnector>``.
    """

    name: variable_types.BeanName
    scheme: variable_types.Scheme
    port: variable_types.Port
    options: dict[variable_types.OptionName, Annotated[variable_types.UriOption, variable_types.OptionText]] = Field(
        default_factory=lambda known: default_connector_options(known.get("scheme", ""))
    )
    bind: variable_types.Host | None = None
    tls: bool = True
    attributes: ConnectorAttributes = ()


class LinkSettings(ImmutableSettingsBase):
    """The settings of a network link: one entry of ``activemq_links``.

    ``source`` (``from`` in YAML) and ``to`` are names of groups or pairs. With ``addresses`` the link leads to a
    broker, or the two nodes of a pair, outside of the inventory, which ``to`` gives a name. ``static_include`` are
    destinations whose messages cross whether or not there is a consumer. ``attributes`` are those of
    ``<networkConnector>``, ``options`` those of its URI, None for the fleet's.
    """

    source: variable_types.Text = Field(alias="from")
    to: variable_types.Text
    addresses: tuple[variable_types.Dialled, ...] = ()
    duplex: bool = False
    name: variable_types.BeanName | None = None
    include: tuple[variable_types.DestinationPattern, ...] = ()
    static_include: tuple[variable_types.DestinationPattern, ...] = ()
    exclude: tuple[variable_types.DestinationPattern, ...] = ()
    ttl: Ttl | None = None
    attributes: LinkAttributes = ()
    options: UriOptions | None = None
