"""Rules V about the reload of activemq.xml while the broker runs (runtimeConfigurationPlugin)."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule

_PLUGIN_CLASS = "org.apache.activemq.plugin.RuntimeConfigurationPlugin"


@rule("V031", "warning", releases="5.9.0")
def spring_start_prevents_configuration_reload(document: Document) -> Iterator[Problem]:
    """The runtimeConfigurationPlugin never reloads the file, because Spring starts the broker.

    Why: the broker starts while Spring still loads the file, so it does not know the location of the file. The plugin
        searches for the file only at that start, logs "Null BrokerContext", and watches nothing: changes of
        activemq.xml have no effect until a restart, and the JMX operation updateNow() does nothing.
    Fix: write start="false" on <broker>. The start command then starts the broker after Spring has loaded the file. In
        a fleet, set activemq_runtime_configuration: true instead.
    Cannot see: a program that creates the broker and passes the context to it.
    Source: RuntimeConfigurationBroker.start, XBeanBrokerFactory.createBroker of the release tags; measured on 5.18.3

    Fires on 5.18.3::

        <runtimeConfigurationPlugin checkPeriod="1000"/>

    Silent on 5.18.3::

        <broker start="false"/>
        <runtimeConfigurationPlugin checkPeriod="1000"/>
    """
    for broker in document.brokers:
        if broker.boolean_attribute("start", default=True) is not True:
            continue
        message = '<broker> has no start="false": the runtimeConfigurationPlugin never reloads activemq.xml'
        if broker.boolean_attribute("startAsync", default=False) is not False:
            message = '<broker> has no start="false": the runtimeConfigurationPlugin may never reload activemq.xml'
        for plugin in _reload_plugins(broker):
            yield plugin.problem(message)


@rule("V032", "warning", releases="5.9.0 !5.19.8 6.0.0 !6.2.7")
def reload_cannot_change_placeholder_link(document: Document) -> Iterator[Problem]:
    """The runtimeConfigurationPlugin cannot remove or change a link whose attributes have placeholders.

    Why: the plugin searches for the running link by its attributes, and compares the text ${name} with the value of the
        running link. It never finds a link with placeholders. A removed link keeps running, and a changed link runs in
        addition to the old one.
    Fix: replace the placeholders in the networkConnector with their values, restart the broker after each change of the
        link, or install 5.19.8, 6.2.7, 6.3.0 or later.
    Source: apache/activemq#2123, NetworkConnectorProcessor.configMatch of the release tags; measured on 5.18.3 and
        6.3.1

    Fires on 5.18.3::

        <broker start="false"/>
        <runtimeConfigurationPlugin checkPeriod="1000"/>
        <networkConnector name="south" uri="static:(tcp://a:61616)" userName="app" password="${app.password}"/>

    Silent on 6.2.7::

        <broker start="false"/>
        <runtimeConfigurationPlugin checkPeriod="1000"/>
        <networkConnector name="south" uri="static:(tcp://a:61616)" userName="app" password="${app.password}"/>
    """
    for broker in document.brokers:
        if broker.boolean_attribute("start", default=True) is not False or not _reload_plugins(broker):
            continue
        for link in broker.descendants("networkConnector"):
            if document.is_from_inventory(link):
                continue  # the playbook restarts the broker for a link that changes
            attribute = next((name for name, value in link.attributes.items() if "${" in value), "")
            if attribute:
                name = link.get("name") or "without a name"
                text = (
                    f"the runtimeConfigurationPlugin cannot remove or change the link {name}, because its attribute "
                    f"{attribute} contains a placeholder ${{…}}"
                )
                yield link.problem(text, attribute)


def _reload_plugins(broker: Element) -> list[Element]:
    beans = [bean for bean in broker.descendants("bean") if bean.get("class") == _PLUGIN_CLASS]
    return broker.descendants("runtimeConfigurationPlugin") + beans
