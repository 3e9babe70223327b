"""Rules P about pure master/slave in a whole fleet; the profile makes none of these mistakes, but fragments can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.lint.pure_master_slave import elements_and_master_uri_attributes
from activemq_fleet.network.uri_parser import Uri
from activemq_fleet.topology import Broker

_PURE_RELEASES = "5.3.0 !5.8.0"
_MIRRORED_ELEMENTS = ("destinationPolicy", "persistenceAdapter", "persistenceFactory", "plugins")

Shape = tuple[str, tuple[tuple[str, str], ...], tuple["Shape", ...]]


class _Attachment(NamedTuple):
    """A slave that connects to its master, with the element and attribute if a fragment was merged."""

    slave: Broker
    master: Broker
    node: Element | None = None
    attribute: str = ""

    def slave_to_master_connection_problem(self, message: str, *, fix: str = "", why: str = "") -> Problem:
        """Return a lint problem about the connection of a pure pair's slave to its master.

        The problem names a line only if an XML fragment was merged.
        """
        return Problem(message, node=self.node, attribute=self.attribute, host=self.slave.host, fix=fix, why=why)


@rule("P005", "error", scope="fleet", releases=_PURE_RELEASES)
def master_with_two_slaves_or_chained_slave(view: FleetView) -> Iterator[Problem]:
    """A master has two slaves, or a slave has another slave.

    Why: the master copies its messages to both slaves. When the master fails, both slaves take over and serve the same
        messages: consumers receive each message twice (measured on 5.5.1). A slave copies nothing to another slave.
    Fix: keep one masterConnector for each master, on the other node of its pair. Remove each additional masterConnector
        from activemq_xml_fragments.
    Source: pure-master-slave page; measured on 5.5.1

    Fires on 5.5.1::

        all: {activemq_ha: pure}
        hosts:
          orders-mq01-a: {}
          orders-mq01-b: {}
          orders-mq02-a: {}
          orders-mq02-b:
            activemq_xml_fragments:
              - {parent: broker/services, xml: '<masterConnector remoteURI="nio://orders-mq01-a:61618"/>'}

    Silent on 5.5.1::

        all: {activemq_ha: pure}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}, orders-mq02-a: {}, orders-mq02-b: {}}
    """
    attachments = _attachments(view)
    slave_hosts = {attachment.slave.host for attachment in attachments}
    first_slaves: dict[str, Broker] = {}
    for attachment in sorted(attachments, key=lambda attachment: attachment.slave.pair != attachment.master.pair):
        slave = attachment.slave
        first_slave = first_slaves.setdefault(attachment.master.host, slave)
        if first_slave is not slave:
            yield attachment.slave_to_master_connection_problem(
                f"{attachment.master.host} is the master of both {first_slave.host} and {slave.host}: "
                "when it fails, both slaves become masters",
                fix=f"remove the masterConnector of {slave.host} from activemq_xml_fragments",
                why="both new masters serve the same messages, so that each is delivered twice (measured on 5.5.1)",
            )
        if attachment.master.host in slave_hosts:
            is_planned = attachment.slave.pair == attachment.master.pair
            slave_with_fragment = attachment.master if is_planned else attachment.slave
            yield attachment.slave_to_master_connection_problem(
                f"{attachment.master.host}, the master of {slave.host}, is a slave itself: "
                "a slave copies nothing to another slave",
                fix=f"remove the masterConnector of {slave_with_fragment.host} from activemq_xml_fragments",
                why=f"{attachment.slave.host} has no copy of the messages when it takes over",
            )


@rule("P006", "error", scope="fleet", releases=_PURE_RELEASES)
def link_between_master_and_own_slave(view: FleetView) -> Iterator[Problem]:
    """A networkConnector connects a master to its own slave, or a slave to its own master.

    Why: the pair already copies messages. A bridge between its nodes forwards the same messages, and under load
        messages are delivered twice or acknowledged on one side only.
    Fix: remove the networkConnector. The masterConnector must be the only connection between the nodes of a pure pair.
    Source: pure-master-slave page

    Fires on 5.5.1::

        all: {activemq_ha: pure}
        hosts:
          orders-mq01-a: {}
          orders-mq01-b:
            activemq_xml_fragments:
              - parent: broker/networkConnectors
                xml: <networkConnector name="home" uri="static:(tcp://orders-mq01-a:61616)"/>

    Silent on 5.5.1::

        all: {activemq_ha: pure}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    for broker, link, transport in _user_link_transports(view):
        other = view.brokers_by_address.broker_at(transport.host, transport.port)
        if broker.ha_profile.replicates and other and other.pair == broker.pair and other.host != broker.host:
            text = (
                f"networkConnector {link.get('name')} connects to {other.host}, the other node of the same pure pair: "
                "under load messages are delivered twice"
            )
            yield link.problem(text, "uri", transport.text)


@rule("P008", "error", scope="fleet", releases=_PURE_RELEASES)
def pure_pair_stores_plugins_or_policies_differ(view: FleetView) -> Iterator[Problem]:
    """The nodes of a pure pair have different stores, plugins or destination policies.

    Why: the slave executes the master's operations with its own configuration. If the configurations differ, the copy
        of the store differs too. For example, one node has another dead letter queue or limit, or accepts a user that
        the other rejects.
    Fix: set the same activemq_xml_fragments for both nodes, in the group's variables. Only names, URIs and directories
        may differ.
    Source: MasterBroker of 5.5; pure-master-slave page

    Fires on 5.5.1::

        all: {activemq_ha: pure}
        hosts:
          orders-mq01-a:
            activemq_xml_fragments: [{parent: broker/plugins, xml: <statisticsBrokerPlugin/>}]
          orders-mq01-b: {}

    Silent on 5.5.1::

        all:
          activemq_ha: pure
          activemq_xml_fragments: [{parent: broker/plugins, xml: <statisticsBrokerPlugin/>}]
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    pair_names = {broker.pair for broker in view.brokers_with_user_xml if broker.ha_profile.replicates}
    for name in sorted(pair_names):
        master, *slaves = view.fleet.pairs_by_name[name].brokers_in_dialling_order
        for slave in slaves:
            first, second = _mirrored_elements(view, master), _mirrored_elements(view, slave)
            for element in _MIRRORED_ELEMENTS:
                if first.get(element) != second.get(element):
                    text = (
                        f"<{element}> of the slave {slave.host} differs from <{element}> of its master {master.host}: "
                        "the slave's copy of the messages can differ from the messages of the master"
                    )
                    yield Problem(text, host=slave.host)


@rule("P009", "info", scope="fleet", releases=_PURE_RELEASES)
def planned_master_stop_promotes_slave(view: FleetView) -> Iterator[Problem]:
    """If you stop a pure master, its slave takes over permanently.

    Why: a master that stops cleanly notifies its slave ("The Master has shutdown"), and the slave takes over as after a
        crash. From then on the store of the old master is outdated. The old master must not start with this store.
    Fix: before you stop a master, stop its slave. After each failover, run `ansible-playbook -i INVENTORY
        activemq.fleet.resync -e activemq_target=PAIR`. This playbook copies the newer store to the old master before
        the pair starts again.
    Cannot see: when you plan a stop. The rule therefore reports one info per group with pure pairs.
    Source: MasterConnector of 5.5; measured on 5.5.1

    Fires on 5.5.1::

        all: {activemq_ha: pure}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}

    Silent on 5.5.1::

        all: {activemq_ha: shared-file}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    for group in view.fleet.groups:
        pairs = [pair for pair in group.pairs if pair.ha_profile.replicates]
        if pairs:
            message = (
                f"group {group.name} uses pure master/slave: when a master stops while its slave is attached, "
                "the slave becomes master permanently"
            )
            yield Problem(message, host=pairs[0].preferred_master.host)


@rule("P011", "error", scope="fleet", releases=_PURE_RELEASES)
def slave_of_master_on_5_8_or_newer(view: FleetView) -> Iterator[Problem]:
    """A slave has a master that runs 5.8 or newer, which has no pure master/slave.

    Why: a broker of 5.8 or later sends no copies of messages to a slave, and logs "Slave Brokers are no longer
        supported". The slave therefore has no messages when the master fails.
    Fix: set the same activemq_release, older than 5.8, for both brokers. Or remove the masterConnector, and set
        activemq_ha: shared-file or shared-jdbc, which 5.8 and later also support.
    Cannot see: a pair of two releases, which T004 and T005 report.
    Source: TransportConnection of 5.8.0

    Fires on 5.7.0::

        all: {activemq_ha: pure}
        hosts:
          orders-mq01-a: {}
          orders-mq01-b:
            activemq_xml_fragments:
              - {parent: broker/services, xml: '<masterConnector remoteURI="nio://stock-mq01-a:61616"/>'}
          stock-mq01-a: {activemq_ha: none, activemq_release: 5.18.3}

    Silent on 5.7.0::

        all: {activemq_ha: pure}
        hosts: {orders-mq01-a: {}, orders-mq01-b: {}}
    """
    for attachment in _attachments(view):
        if not attachment.master.release.has_pure_master_slave:
            yield attachment.slave_to_master_connection_problem(
                f"slave {attachment.slave.host} gets no copies of messages: its master {attachment.master.host} runs "
                f"{attachment.master.release}, which does not support slaves"
            )


@rule("P012", "warning", scope="fleet")
def user_link_to_one_node_of_pair(view: FleetView) -> Iterator[Problem]:
    """A networkConnector in activemq_xml_fragments lists only one node of a pair.

    Why: a bridge connects only to the addresses in its URI. After a failover, messages stay on the sending broker until
        the listed node is active again.
    Fix: replace the networkConnector with an entry in activemq_links, which lists both nodes. Or, from 5.6 on, set uri
        to masterslave:(tcp://a:61616,tcp://b:61616) with the preferred master first.
    Cannot see: the URIs of clients. The URIs of the agents always contain both nodes. A pure slave without an OpenWire
        connector does not have to be in the URI.
    Source: FailoverTransport; pure-master-slave page

    Fires on 5.18.3::

        hosts:
          orders-mq01-a: {}
          orders-mq01-b: {}
          stock-mq01-a:
            activemq_ha: none
            activemq_xml_fragments:
              - parent: broker/networkConnectors
                xml: <networkConnector name="orders" uri="static:(tcp://orders-mq01-a:61616)"/>

    Silent on 5.18.3::

        hosts:
          orders-mq01-a: {}
          orders-mq01-b: {}
          stock-mq01-a:
            activemq_ha: none
            activemq_xml_fragments:
              - parent: broker/networkConnectors
                xml: <networkConnector name="orders" uri="masterslave:(tcp://orders-mq01-a:61616,tcp://orders-mq01-b:61616)"/>
    """
    links_by_target: dict[tuple[str, str], list[tuple[Element, str, Broker]]] = {}
    for broker, link, transport in _user_link_transports(view):
        other = view.brokers_by_address.broker_at(transport.host, transport.port)
        if other and other.peer and other.pair != broker.pair:
            links_by_target.setdefault((broker.host, other.pair), []).append((link, transport.text, other))
    for (_, pair), links in links_by_target.items():
        listed_hosts = {other.host for _, _, other in links}
        missing = [
            b for b in view.fleet.pairs_by_name[pair].brokers if b.host not in listed_hosts and b.openwire is not None
        ]
        if len(listed_hosts) == 1 and missing:
            link, text, other = links[0]
            missing_host = missing[0].host
            message = (
                f"networkConnector {link.get('name')} lists {other.host} of pair {pair} but not {missing_host}: "
                f"the bridge stays down while {missing_host} is active"
            )
            yield link.problem(message, "uri", text)


@rule("P013", "error", scope="fleet")
def user_link_to_pure_slave(view: FleetView) -> Iterator[Problem]:
    """A networkConnector in activemq_xml_fragments connects to a pure slave.

    Why: a slave opens no port by default. If activemq_xml_fragments adds a transportConnector to the slave, the slave
        opens the port after its promotion. It then treats each broker that connects to it as its own slave. The bridge
        is never established, and clients of the connecting broker hang.
    Fix: list only the master in the uri of the networkConnector. This broker cannot have a bridge to a promoted slave.
        The promoted slave opens its own links to the other masters, and forwards its messages to them.
    Cannot see: which broker is meant, if several brokers have the address in the URI, and none of them listens on the
        port in the URI.
    Source: docs/migrate.md: measured on 5.5.1

    Fires on 5.5.1::

        all: {activemq_ha: pure}
        hosts:
          orders-mq01-a: {}
          orders-mq01-b: {}
          stock-mq01-a:
            activemq_ha: none
            activemq_xml_fragments:
              - parent: broker/networkConnectors
                xml: <networkConnector name="orders" uri="static:(tcp://orders-mq01-b:61616)"/>

    Silent on 5.5.1::

        all: {activemq_ha: pure}
        hosts:
          orders-mq01-a: {}
          orders-mq01-b: {}
          stock-mq01-a:
            activemq_ha: none
            activemq_xml_fragments:
              - parent: broker/networkConnectors
                xml: <networkConnector name="orders" uri="static:(tcp://orders-mq01-a:61616)"/>
    """
    for _, link, transport in _user_link_transports(view):
        listening_broker = view.brokers_by_address.broker_at(transport.host, transport.port)
        targets = [listening_broker] if listening_broker else view.brokers_by_address.brokers_named(transport.host)
        if len(targets) == 1 and targets[0].is_replication_slave:
            [slave] = targets
            text = (
                f"networkConnector {link.get('name')} connects to {slave.host}, a slave of pair {slave.pair}: "
                "the bridge is never established"
            )
            yield link.problem(text, "uri", transport.text)


def _attachments(view: FleetView) -> list[_Attachment]:
    """Return every slave of the fleet with the broker to which it connects as its master."""
    attachments: list[_Attachment] = []
    hosts_with_user_xml = {broker.host for broker in view.brokers_with_user_xml}
    for broker in view.brokers:
        if not broker.release.has_pure_master_slave:
            continue
        if broker.host not in hosts_with_user_xml:
            if broker.is_replication_slave and broker.peer:
                attachments.append(_Attachment(broker, view.fleet.broker(broker.peer)))
            continue
        document = view.broker_document(broker)
        for node, attribute in elements_and_master_uri_attributes(document) if document else ():
            for transport in node.uri_attribute_or_empty(attribute).transport_uris:
                master = view.brokers_by_address.broker_at(transport.host, transport.port)
                if master is not None and master.host != broker.host:
                    attachments.append(_Attachment(broker, master, node, attribute))
    return attachments


def _user_link_transports(view: FleetView) -> Iterator[tuple[Broker, Element, Uri]]:
    """Yield (broker, networkConnector, URI) for each connection to another broker in the user's own XML.

    The user's own XML consists of fragments and attributes.
    """
    for broker, document in view.brokers_and_user_documents_containing(["networkConnector"]):
        for link in document.network_connectors:
            for transport in link.uri_attribute_or_empty().transport_uris:
                yield broker, link, transport


def _mirrored_elements(view: FleetView, broker: Broker) -> dict[str, Shape]:
    document = view.broker_document(broker)
    brokers = document.brokers if document else []
    return {
        child.name: _element_shape(child)
        for broker_element in brokers
        for child in broker_element.children(*_MIRRORED_ELEMENTS)
    }


def _element_shape(node: Element) -> Shape:
    """Return the names and values of an XML element and all its descendants as a tuple, without directories."""
    values = tuple(sorted(item for item in node.attributes.items() if "irectory" not in item[0]))
    return node.name, values, tuple(_element_shape(child) for child in node.children())
