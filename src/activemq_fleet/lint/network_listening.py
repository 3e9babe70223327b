"""Rules N about where a networked broker listens."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.clients import elements_in_broker, is_loopback, listens_on
from activemq_fleet.lint.document import Document, Problem
from activemq_fleet.lint.engine import rule


@rule("N041", "warning", source="4 of 275 files of public repositories")
def unreachable_member(document: Document) -> Iterator[Problem]:
    """A broker that is linked to other machines, and listens on its own only.

    Why: no client and no bridge of another machine can reach it, so messages come in over the links that it dials
        itself, and only if they are duplex. What it hands to clients of failover: lists leads to themselves.
    Fix: bind its transportConnectors to 0.0.0.0 or an address that the others reach.

    Fires on 5.18.3::

        <broker>
          <networkConnectors>
            <networkConnector name="south" uri="static:(tcp://south.example.com:61616)"/>
          </networkConnectors>
          <transportConnectors>
            <transportConnector name="openwire" uri="tcp://localhost:61616?wireFormat.maxFrameSize=10485760"/>
          </transportConnectors>
        </broker>

    Silent on 5.18.3::

        <broker>
          <networkConnectors>
            <networkConnector name="south" uri="static:(tcp://localhost:61617)"/>
          </networkConnectors>
          <transportConnectors>
            <transportConnector name="openwire" uri="tcp://localhost:61616?wireFormat.maxFrameSize=10485760"/>
          </transportConnectors>
        </broker>
    """
    for broker in document.brokers:
        connectors = [listens_on(connector) for connector in elements_in_broker(broker, "transportConnector")]
        hosts = [uri.host for uri in connectors if uri.scheme and uri.scheme != "vm"]
        if not hosts or not all(is_loopback(host) for host in hosts):
            continue
        for link in elements_in_broker(broker, "networkConnector"):
            dialled = [part.host for part in link.uri().transports if link.known("uri") and part.host and part.port]
            away = next((host for host in dialled if not is_loopback(host)), "")
            if away and not link.flag("duplex", False):
                text = f"{broker.get('brokerName') or 'the broker'} dials {away}, and listens on {hosts[0]} only"
                yield link.problem(text, "uri", away)
