"""Hostile files of about ``size`` bytes, each designed to slow down its parser: name -> a function of the size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from activemq_fleet.schema import BEANS, CORE

_HEAD = f'<?xml version="1.0" encoding="UTF-8"?>\n<beans xmlns="{BEANS}">\n'
_BROKER = f'<broker xmlns="{CORE}" brokerName="a">'


def document(inside: str) -> bytes:
    """Return a complete file with a text as the content of its broker."""
    return f"{_HEAD}{_BROKER}{inside}</broker></beans>\n".encode()


def link(uri: str) -> str:
    """Return a network connector with a URI."""
    return f'<networkConnectors><networkConnector name="n" uri="{uri}"/></networkConnectors>'


def repeated(piece: str, size: int) -> str:
    return piece * (size // len(piece) + 1)


def numbered(form: str, size: int, between: str = "") -> str:
    """Return copies of ``form`` with 0, 1, 2 … in place of ``{0}``, until they have the size."""
    pieces: list[str] = []
    length = 0
    for number in count():
        if length >= size:
            break
        pieces.append(form.format(number))
        length += len(pieces[-1]) + len(between)
    return between.join(pieces)


def _policies(entries: str) -> bytes:
    inside = f"<policyMap><policyEntries>{entries}</policyEntries></policyMap>"
    return document(f"<destinationPolicy>{inside}</destinationPolicy>")


def _connectors(inside: str) -> bytes:
    return document(f"<transportConnectors>{inside}</transportConnectors>")


def _links(inside: str) -> bytes:
    return document(f"<networkConnectors>{inside}</networkConnectors>")


def _beans(inside: str) -> bytes:
    return f"{_HEAD}{inside}{_BROKER}</broker></beans>".encode()


def _queue(name: str) -> bytes:
    return document(f'<queue physicalName="{name}"/>')


SHAPES: dict[str, Callable[[int], bytes]] = {
    "uris": lambda size: document(link(f"static:({numbered('tcp://h{0}:61616', size, ',')})")),
    "uris in masterslave": lambda size: document(link(f"masterslave:({numbered('tcp://h{0}:1', size, ',')})")),
    "uris in failover": lambda size: document(link(f"static:(failover:({numbered('tcp://h{0}:1', size, ',')}))")),
    "options": lambda size: document(link(f"static:(tcp://a:1)?{numbered('wireFormat.o{0}=1', size, '&amp;')}")),
    "stray options": lambda size: document(link(f"static:(tcp://a:1)?{numbered('o{0}=1', size, '&')}")),
    "options within the bound": lambda size: _links(
        repeated(f'<networkConnector uri="static:(tcp://a:1)?{numbered("o{0}=1", 3000, "&amp;")}"/>', size)
    ),
    "uris within the bound": lambda size: _links(
        repeated(f'<networkConnector uri="static:({numbered("tcp://h{0}:1", 6000, ",")})"/>', size)
    ),
    "deep uri": lambda size: document(link(repeated("failover:(", size))),
    "deep closed uri": lambda size: document(link(repeated("failover:(", size // 2) + repeated(")", size // 2))),
    "brackets": lambda size: document(link(f"static:{repeated('(', size)}")),
    "commas": lambda size: document(link(f"static:({repeated(',', size)})")),
    "question marks": lambda size: document(link(f"static:(tcp://a:1){repeated('?', size)}")),
    "placeholders": lambda size: document(link(f"static:({repeated('${a}', size)})")),
    "open placeholders": lambda size: document(link(repeated("${", size))),
    "connectors": lambda size: _connectors(
        numbered('<transportConnector name="c{0}" uri="nio://0.0.0.0:{0}?transport.x=1"/>', size)
    ),
    "multicast": lambda size: _connectors(
        numbered('<transportConnector uri="tcp://0.0.0.0:{0}" discoveryUri="multicast://default?group=g{0}"/>', size)
    ),
    "links": lambda size: _links(numbered('<networkConnector name="n{0}" uri="static:(tcp://h{0}:1)"/>', size)),
    "links alike": lambda size: _links(
        repeated('<networkConnector name="n" duplex="true" password="y" uri="masterslave:(tcp://h:61616)"/>', size)
    ),
    "links without names": lambda size: document(
        '<broker useJmx="false">'
        + numbered('<networkConnector duplex="true" uri="static:(tcp://h{0}:1)"/>', size)
        + "</broker>"
    ),
    "destinations of a link": lambda size: _links(
        '<networkConnector uri="static:(tcp://h:1)"><dynamicallyIncludedDestinations>'
        + numbered('<queue physicalName="q{0}"/>', size)
        + "</dynamicallyIncludedDestinations></networkConnector>"
    ),
    "policies": lambda size: _policies(numbered('<policyEntry queue="q{0}.&gt;" memoryLimit="1mb"/>', size)),
    "policies alike": lambda size: _policies(repeated('<policyEntry queue="&gt;" producerFlowControl="false"/>', size)),
    "wildcards": lambda size: _policies(f'<policyEntry queue="{repeated("*.", size)}"/>'),
    "attributes": lambda size: document(f"<queue {numbered('a{0}=_1_', size, ' ')}/>".replace("_", '"')),
    "giant value": lambda size: _queue(repeated("a", size)),
    "long name": lambda size: document(f"<{repeated('a', size)}/>"),
    "deep elements": lambda size: document(repeated("<a>", size // 2) + repeated("</a>", size // 2)),
    "nested brokers": lambda size: document(repeated("<broker>" * 200 + "</broker>" * 200, size)),
    "brokers": lambda size: document(repeated("<broker><plugins/><transportConnectors/></broker>", size)),
    "unknown elements": lambda size: document(repeated("<a/>", size)),
    "unknown attributes": lambda size: document(repeated('<queue x="1"/>', size)),
    "bad values": lambda size: _connectors(
        repeated('<transportConnector uri="tcp://a:1" auditNetworkProducers="x"/>', size)
    ),
    "same children": lambda size: document(repeated("<plugins/>", size)),
    "chain of references": lambda size: _beans(
        numbered('<bean id="b{0}" class="x.DataSource" parent="b{0}1"><property name="url" ref="b{0}2"/></bean>', size)
    ),
    "character references": lambda size: _queue(repeated("&#65;", size)),
    "stray ampersands": lambda size: _queue(repeated("&x ", size)),
    "stray ampersands of many": lambda size: document(repeated('<queue physicalName="a&b"/>', size)),
    "unknown entities": lambda size: _queue(repeated("&x;", size)),
    "entities": lambda size: f"<!DOCTYPE a [{numbered('<!ENTITY e{0} _a_>', size)}]><a/>".replace("_", '"').encode(),
    "huge numbers": lambda size: _connectors(f'<transportConnector uri="tcp://0.0.0.0:{repeated("9", size)}"/>'),
    "long numbers": lambda size: _links(
        repeated(f'<networkConnector networkTTL="{"9" * 4000}" uri="static:(tcp://a:1)?x={"9" * 4000}"/>', size)
    ),
    "comments": lambda size: document(repeated("<!-- -->", size)),
    "open comments": lambda size: f"{_HEAD}{repeated('<!--', size)}".encode(),
    "open cdata": lambda size: f"{_HEAD}&{repeated('<![CDATA[', size)}".encode(),
    "line ends": lambda size: document(repeated("\r", size)),
    "spaces": lambda size: document(f'<queue{repeated(" ", size)}physicalName="a"/>'),
    "prefixes": lambda size: document(numbered('<a:b xmlns:a="u{0}"/>', size)),
    "users": lambda size: document(
        "<plugins><simpleAuthenticationPlugin><users>"
        + numbered('<authenticationUser username="u{0}" password="manager" groups="a,b"/>', size)
        + "</users></simpleAuthenticationPlugin></plugins>"
    ),
    "imports": lambda size: _beans(repeated('<import resource="jetty.xml"/>', size)),
    "stores": lambda size: document(
        f"<persistenceAdapter>{repeated('<kahaDB directory=_a_/>', size)}</persistenceAdapter>".replace("_", '"')
    ),
    "text": lambda size: document(f"<queue>{repeated('failover:(', size)}</queue>"),
}
