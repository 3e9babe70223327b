"""N: one link as one file shows it: its URI, its options, its peers."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Document
from activemq_fleet.lint.engine import Problem, rule


@rule("N001", "error", releases="5.6.0", source="measured on 5.17.2; MasterSlaveDiscoveryAgentFactory", refuses=True)
def masterslave_with_one_uri(document: Document) -> Iterator[Problem]:
    """masterslave: with fewer than two brokers.

    Why: it builds a failover transport of master and slave and expects both; with one the broker does not start.
    Fix: write static:(tcp://host:61616) for a single broker, or name both nodes of the pair.

    Fires on 5.18.3::

        <networkConnector name="south" uri="masterslave:(tcp://south:61616)"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="masterslave:(tcp://south-a:61616,tcp://south-b:61616)"/>
    """
    for link in document.links:
        for found in link.uri().find("masterslave"):
            if len(found.parts) < 2:
                yield link.problem(
                    f"masterslave: names {len(found.parts)} broker, and needs two", "uri", "masterslave:"
                )


@rule("N009", "error", source="XML 1.0, section 2.4", refuses=True)
def bare_ampersand(document: Document) -> Iterator[Problem]:
    """A bare & in an attribute or a text.

    Why: in XML it begins a reference, so the file cannot be read and the broker does not start.
    Fix: write &amp; between the options of a URI.

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616?wireFormat.maxFrameSize=10000000&soTimeout=0)"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616?wireFormat.maxFrameSize=10000000&amp;soTimeout=0)"/>
    """
    yield from document.stray_ampersands()
