"""Rules P about pure master/slave in the file of one node."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule

_PURE_RELEASES = "5.3.0 !5.8.0"
_PASSWORD_PLUGINS = ("simpleAuthenticationPlugin", "jaasAuthenticationPlugin", "jaasDualAuthenticationPlugin")


def elements_and_master_uri_attributes(document: Document) -> Iterator[tuple[Element, str]]:
    """Yield the attributes that contain the URI of a slave's master, as (element, attribute)."""
    for connector in document.elements_with_tag_name("masterConnector"):
        yield from ((connector, name) for name in ("remoteURI", "remoteUri") if connector.has_attribute(name))
    yield from (
        (broker, "masterConnectorURI") for broker in document.brokers if broker.has_attribute("masterConnectorURI")
    )


@rule("P001", "error", releases=_PURE_RELEASES)
def slave_failover_retries_indefinitely(document: Document) -> Iterator[Problem]:
    """A slave connects to its master through a failover: URI that retries indefinitely.

    Why: the slave attaches and appears healthy. When the master fails, the slave logs no error and only tries to
        reconnect, so it never takes over.
    Fix: set maxReconnectAttempts=1 in the failover: URI, after its brackets. Or write remoteURI="nio://HOST:PORT", and
        start the slave only after the master.
    Source: MasterConnector and FailoverTransport of 5.5; measured on 5.5.1 and 5.7.0: no takeover within 30 s, and with
        nio: one after 0.02 s

    Fires on 5.5.1::

        <masterConnector remoteURI="failover:(nio://orders-mq01-a:61618)"/>

    Fires on 5.7.0::

        <masterConnector remoteURI="failover:(nio://orders-mq01-a:61618)?randomize=false"/>

    Silent on 5.5.1::

        <masterConnector remoteURI="nio://orders-mq01-a:61618"/>

    Silent on 5.5.1::

        <masterConnector remoteURI="failover:(nio://orders-mq01-a:61618)?maxReconnectAttempts=1"/>
    """
    for node, name in elements_and_master_uri_attributes(document):
        for failover in node.uri_attribute_or_empty(name).find_uris_with_given_schemes("failover"):
            attempts_text = failover.options.get("maxReconnectAttempts")
            attempts = failover.integer_option("maxReconnectAttempts")
            if attempts_text is None or (
                attempts is not None and attempts < document.release.bridge_reconnect_attempts
            ):
                attempts_phrase = (
                    "without maxReconnectAttempts"
                    if attempts_text is None
                    else f"with maxReconnectAttempts={attempts_text}"
                )
                message = (
                    f"the failover: URI of the slave, {attempts_phrase}, reconnects to the master indefinitely: this "
                    "slave never takes over"
                )
                yield node.problem(message, name, "failover:")


@rule("P002", "warning", releases=_PURE_RELEASES)
def master_serves_before_slave_attaches(document: Document) -> Iterator[Problem]:
    """A master of a pure pair starts serving before its slave is attached.

    Why: the slave only has messages that it received while it was attached. All other messages are lost when
        the master fails.
    Fix: set waitForSlave="true" and waitForSlaveTimeout="86400000" (a day, in milliseconds) on the master's <broker>.
    Cannot see: from one file alone, whether a broker is a master. The rule treats a broker with shutdownOnSlaveFailure
        as a master.
    Source: BrokerService of 5.5; pure-master-slave page

    Fires on 5.5.1::

        <broker shutdownOnSlaveFailure="true"/>

    Silent on 5.5.1::

        <broker waitForSlave="true" waitForSlaveTimeout="86400000" shutdownOnSlaveFailure="true"/>
    """
    is_fleet_master = (
        document.broker is not None
        and document.broker.ha_profile.replicates
        and not document.broker.is_replication_slave
    )
    for broker in document.brokers:
        is_master = is_fleet_master or broker.has_attribute("shutdownOnSlaveFailure")
        if is_master and not _is_slave(broker) and broker.boolean_attribute("waitForSlave", False) is False:
            message = (
                "this master does not wait for its slave: messages that it accepts before the slave attaches are never "
                "copied"
            )
            yield broker.problem(
                message, "waitForSlave" if broker.has_attribute("waitForSlave") else "shutdownOnSlaveFailure"
            )


@rule("P003", "warning", each="broker", releases=_PURE_RELEASES)
def shutdown_on_slave_failure_not_set(broker: Element) -> Iterator[Problem]:
    """A master does not set shutdownOnSlaveFailure, which decides what it does when its slave fails.

    Why: by default the master continues alone without notifying its clients, so messages have only one copy until an
        operator intervenes.
    Fix: set shutdownOnSlaveFailure="true" on <broker> if the master is to stop. Set it to "false" if the master is to
        continue, and monitor the slave.
    Source: BrokerService of 5.5; pure-master-slave page

    Fires on 5.5.1::

        <broker waitForSlave="true" waitForSlaveTimeout="86400000"/>

    Silent on 5.5.1::

        <broker waitForSlave="true" waitForSlaveTimeout="86400000" shutdownOnSlaveFailure="false"/>
    """
    if broker.boolean_attribute("waitForSlave", False) and not broker.has_attribute("shutdownOnSlaveFailure"):
        yield broker.problem(
            "shutdownOnSlaveFailure is not set: this master continues without a copy when its slave fails",
            "waitForSlave",
        )


@rule("P004", "warning", each="broker", releases="5.3.1 !5.8.0")
def wait_for_slave_without_timeout(broker: Element) -> Iterator[Problem]:
    """A master sets waitForSlave without waitForSlaveTimeout.

    Why: after 600000 ms without a slave the master cancels its start ("Gave up waiting for slave to start") and stops.
        A master that starts during a longer repair of the slave therefore does not stay up.
    Fix: set waitForSlaveTimeout, in ms, to the duration of a repair, such as 86400000 for a day.
    Source: BrokerService of 5.5; measured on 5.5.1

    Fires on 5.5.1::

        <broker waitForSlave="true" shutdownOnSlaveFailure="false"/>

    Silent on 5.5.1::

        <broker waitForSlave="true" waitForSlaveTimeout="86400000" shutdownOnSlaveFailure="false"/>
    """
    if broker.boolean_attribute("waitForSlave", False) and not broker.has_attribute("waitForSlaveTimeout"):
        yield broker.problem(
            "waitForSlaveTimeout is not set: this master stops if no slave attaches within 600 s of its start",
            "waitForSlave",
        )


@rule("P007", "warning", each="broker", releases=_PURE_RELEASES)
def slave_stopping_with_master_has_links(broker: Element) -> Iterator[Problem]:
    """A slave that stops with its master has links, which never start.

    Why: with shutdownOnMasterFailure="true" the slave never takes over: it stops, and keeps a copy of the data. Its
        networkConnectors would start only at a failover.
    Fix: remove shutdownOnMasterFailure if the slave is to take over. If it is not, remove its networkConnectors.
    Source: BrokerService.masterFailed and startAllConnectors of 5.5 and 5.7

    Fires on 5.5.1::

        <broker shutdownOnMasterFailure="true"/>
        <masterConnector remoteURI="nio://orders-mq01-a:61618"/>
        <networkConnector name="south" uri="static:(tcp://south:61616)"/>

    Silent on 5.5.1::

        <masterConnector remoteURI="nio://orders-mq01-a:61618"/>
        <networkConnector name="south" uri="static:(tcp://south:61616)"/>
    """
    links = broker.descendants("networkConnector")
    if links and _is_slave(broker) and broker.boolean_attribute("shutdownOnMasterFailure", False):
        links_text = "networkConnectors" if len(links) > 1 else f"networkConnector {links[0].get('name')}"
        text = f"this slave stops when its master stops, and never takes over: its {links_text} can never start"
        yield broker.problem(text, "shutdownOnMasterFailure")


@rule("P010", "warning", releases=_PURE_RELEASES)
def slave_without_credentials(document: Document) -> Iterator[Problem]:
    """A slave connects to its master without a user name and password.

    Why: a master that requires authentication rejects the slave, which then copies nothing.
    Fix: set userName and password on <masterConnector>. If the file has the attribute masterConnectorURI, replace it
        with this element.
    Cannot see: the master's file. The rule assumes that the master requires authentication if the slave has an
        authentication plugin, because both nodes must have the same plugins.
    Source: MasterConnector of 5.5; pure-master-slave page

    Fires on 5.5.1::

        <masterConnector remoteURI="nio://orders-mq01-a:61618"/>

    Silent on 5.5.1::

        <masterConnector remoteURI="nio://orders-mq01-a:61618" userName="network" password="${network.password}"/>
    """
    plugins = [
        plugin
        for plugin in document.elements_with_tag_name(*_PASSWORD_PLUGINS)
        if not _accepts_anonymous_clients(plugin)
    ]
    if not plugins:
        return
    for node, name in elements_and_master_uri_attributes(document):
        missing = [attribute for attribute in ("userName", "password") if not node.has_attribute(attribute)]
        if missing:
            message = (
                f"the connection to the master has no {' and no '.join(missing)}: a master with a "
                f"<{plugins[0].name}>, as in this file, rejects this slave"
            )
            yield node.problem(message, name)


def _accepts_anonymous_clients(plugin: Element) -> bool:
    return plugin.boolean_attribute("anonymousAccessAllowed", False) is not False


def _is_slave(broker: Element) -> bool:
    return broker.has_attribute("masterConnectorURI") or bool(broker.descendants("masterConnector"))
