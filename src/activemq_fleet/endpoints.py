"""Convert what users write for brokers to addresses: texts, or brokers as in fleet.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from activemq_fleet.addresses import Address, parse_host_port, validated_host_name
from activemq_fleet.node.protocols import PROTOCOLS


def connector_endpoints_of_brokers(items: Any, connector: str) -> tuple[Address, ...]:
    """Return the endpoints (host, port) of one connector of each given broker.

    The order is that of the brokers. ``items`` is a list, or one text with commas. An item is ``host`` (with the usual
    port of the connector), ``host:port``, or a mapping with ``address`` and ``ports`` by connector's name, as in
    fleet.json and ``lab status``. Raises ValueError, naming the item by its position.
    """
    if isinstance(items, str):
        items = [item for item in items.split(",") if item.strip()]
    if isinstance(items, Mapping) or not isinstance(items, Iterable):
        raise ValueError(
            f"the brokers must be in a list, but {str(items)[:60]!r} has the type "
            f"{type(items).__name__}: pass a list of addresses (HOST:PORT), or of broker entries from the file "
            "fleet.json, which `activemq-fleet render` writes"
        )
    addresses = []
    for position, item in enumerate(items):
        try:
            addresses.append(_endpoint(item, connector))
        except ValueError as error:
            raise ValueError(f"entry {position} of the list of brokers (counted from 0): {error}") from None
    if not addresses:
        raise ValueError(
            "the list of brokers is empty: pass at least one address (HOST:PORT), or one broker entry from the file "
            "fleet.json, which `activemq-fleet render` writes"
        )
    return tuple(addresses)


def _endpoint(item: Any, connector: str) -> Address:
    if isinstance(item, str):
        text = item.strip()
        has_port = "]:" in text if text.startswith("[") else text.count(":") == 1
        return parse_host_port(text) if has_port else (validated_host_name(text), PROTOCOLS[connector].port)
    if not isinstance(item, Mapping):
        raise ValueError(
            f"the broker {str(item)[:60]!r} is neither text nor a mapping: write HOST:PORT, or a mapping with the keys "
            "address and ports, as in the file fleet.json, which `activemq-fleet render` writes"
        )
    address, ports = item.get("address"), item.get("ports")
    if not isinstance(address, str) or not isinstance(ports, Mapping):
        raise ValueError(
            f"the broker {str(dict(item))[:60]!r} lacks the key address (text) or the key ports (a mapping): copy both "
            "from the entry of this broker in the file fleet.json, which `activemq-fleet render` writes"
        )
    if not isinstance(ports.get(connector), int):
        raise ValueError(
            f"the broker {address} has no port for the connector {connector}: add {connector} with its port to the "
            f"mapping ports of this broker (the mapping has {', '.join(map(str, ports)) or 'no connector'})"
        )
    return parse_host_port(f"{_bracketed(address)}:{ports[connector]}")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
