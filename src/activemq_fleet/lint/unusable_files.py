"""Rules V and N about files that the broker or the check cannot use, and imported files that the check cannot find."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.errors import names_to_text
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.imports import import_elements_with_outside_paths, imported_paths_and_documents
from activemq_fleet.schema import CORE

_BROKER_CLASS_NAME = re.compile("broker", re.IGNORECASE)
_CLIENT_CLASS = re.compile(
    r"\.ActiveMQ(?:XA|Ssl)*ConnectionFactory$|\.PooledConnectionFactory$|\.JmsPoolConnectionFactory$"
)


@rule("V040", "error", refuses=True)
def file_is_not_activemq_xml(document: Document) -> Iterator[Problem]:
    """The file is not an activemq.xml.

    Why: the broker reads a Spring XML file, and does not start with a file of another kind. Configuration files of
        Apache Artemis, a different broker, can have the same names, but they have different elements.
    Fix: find the activemq.xml that the broker reads, and check that file instead.
    Source: XBeanBrokerFactory; measured on 5.18.3

    Fires on 5.18.3::

        <configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"/></configuration>

    Silent on 5.18.3::

        <broker brokerName="north"/>
    """
    # files.file_findings reports this when it reads the file.
    yield from ()


@rule("V041", "error", refuses=True)
def file_without_a_broker(document: Document) -> Iterator[Problem]:
    """The file defines no broker.

    Why: the broker process reads the file, finds no BrokerService in it and stops: "The configuration has no
        BrokerService instance".
    Fix: if the broker starts with this file, add the <broker>, or the <import> of the file that has it. Otherwise check
        the activemq.xml that has the <broker>: the check includes the files of clients, of Camel and of the web console
        that this activemq.xml imports.
    Cannot see: -Dspring.profiles.active on the command line, imported files that are not next to this one, and a custom
        class that creates a broker. If one of these could provide the broker, the finding is a warning.
    Source: XBeanBrokerFactory of the release tags; measured on 5.18.3

    Fires on 5.18.3::

        <beans xmlns="http://www.springframework.org/schema/beans"
               xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
               xsi:schemaLocation="http://www.springframework.org/schema/beans
                                   http://www.springframework.org/schema/beans/spring-beans.xsd">
          <bean id="factory" class="org.apache.activemq.ActiveMQConnectionFactory">
            <property name="brokerURL" value="tcp://north:61616"/>
          </bean>
        </beans>

    Silent on 5.18.3::

        <broker brokerName="north"/>
    """
    if document.broker is not None or document.file or any(map(_is_active, document.brokers)):
        return
    imported_documents = [
        imported_document for _, imported_document in imported_paths_and_documents(document) if imported_document
    ]
    missing = list(import_elements_with_outside_paths(document))
    if any(map(_defines_broker, (document, *imported_documents))):
        return
    if document.brokers:
        profile = _profile_of(document.brokers[0])
        text = f'the only <broker> is in <beans profile="{profile}">: the broker starts only with that profile'
        fix = f"start the broker with -Dspring.profiles.active={profile}, or move the <broker> out of the profile"
        yield document.brokers[0].problem(text, severity="warning", fix=fix)
        return
    text = f"the file has no <broker>: {_purpose_text(document)}"
    if missing:
        names = ", ".join(name for _, name in missing)
        text += f". The check did not find the files that this file imports: {names}"
    may_have_broker = bool(missing) or document.has_element_or_attribute(("component-scan",))
    yield document.root.problem(text, severity="warning" if may_have_broker else None)


@rule("V042", "info")
def imported_file_that_was_not_checked(document: Document) -> Iterator[Problem]:
    """An imported file was not checked, because it is not in the directory of the file that imports it.

    Why: the broker reads activemq.xml and the files that it imports as one configuration. A mistake in the imported
        file stops the broker as well.
    Fix: copy this file and the imported file into one directory. In the copy, write the name of the imported file
        without a path in <import resource="FILE"/>, and check the copy.
    Source: Spring's <import>, which reads the resource before the broker starts

    Fires on 5.18.3::

        <import resource="queues.xml"/>

    Silent on 5.18.3::

        <broker brokerName="north"/>
    """
    if document.broker is not None or document.file:
        return  # The inventory contains the imported files of a fleet.
    missing = [
        (node, node.get("resource"))
        for node, name in import_elements_with_outside_paths(document)
        if "jetty" not in name and not re.search(r"[$#]\{(?!activemq\.)", node.get("resource"))
    ]
    if missing:
        names = names_to_text([name for _, name in missing])
        text = f"the imported file {names} was not found in the directory of this file: its content was not checked"
        if len(missing) > 1:
            text = f"the imported files {names} were not found in the directory of this file: they were not checked"
        is_remote = any("://" in name for _, name in missing)
        fix = "import a copy that is in the directory of this file, and check again" if is_remote else ""
        yield missing[0][0].problem(text, "resource", fix=fix)


def _defines_broker(document: Document) -> bool:
    """Return whether a file has an active broker, or a bean that may create one."""
    if any(map(_is_active, document.brokers)):
        return True
    return any(
        _BROKER_CLASS_NAME.search(bean.get("class").rpartition(".")[2])
        for bean in document.elements_with_tag_name("bean")
    )


def _is_active(broker: Element) -> bool:
    """Return whether a broker is defined even if no profile of Spring is set."""
    profile = _profile_of(broker)
    return not profile or any(name == "default" or name.startswith("!") for name in re.split(r"[,; ]+", profile))


def _profile_of(broker: Element) -> str:
    """Return the profile of the innermost ``<beans>`` that has one and contains a broker; "" without one."""
    ancestor = broker.parent
    while ancestor is not None:
        if ancestor.get("profile"):
            return ancestor.get("profile")
        ancestor = ancestor.parent
    return ""


def _purpose_text(document: Document) -> str:
    classes = [bean.get("class") for bean in document.elements_with_tag_name("bean")]
    if document.has_element_or_attribute(("camelContext", "routeContext", "routes")):
        return "this is a context of Apache Camel"
    if any(".jetty." in name for name in classes):
        return "this file configures the web console, and an activemq.xml imports it"
    if any(map(_CLIENT_CLASS.search, classes)) or any(
        node.namespace == CORE and node.name.lower().endswith("connectionfactory") for node in document.nodes
    ):
        return "this is a Spring context of JMS clients"
    return "this is a Spring context"


@rule("V019", "error")
def file_too_large(document: Document) -> Iterator[Problem]:
    """The file has more elements, attributes or text than any real broker configuration.

    Why: rules compare elements and parts of URIs with each other, so a malicious file could delay a check for hours. No
        other rule therefore checks a file that exceeds a limit. The limits are 10,000 elements, 10 brokers, 200
        attributes of an element, 16,384 characters of a value, and 500 parts or 20 nested brackets of a URI.
    Fix: check the origin of the file. If the configuration is intended, reduce the file below these limits.
    Source: benchmarks/hostile_files.py: what a file of 1 MB may cost

    Fires on 5.18.3::

        <networkConnector name="n" uri="failover:(failover:(failover:(failover:(failover:(failover:(failover:(failover:(
            failover:(failover:(failover:(failover:(failover:(failover:(failover:(failover:(failover:(failover:(
            failover:(failover:(failover:(tcp://a:61616)))))))))))))))))))))"/>

    Silent on 5.18.3::

        <networkConnector name="n" uri="static:(failover:(tcp://a:61616,tcp://b:61616)?maxReconnectAttempts=0)"/>
    """
    # files.file_findings reports this when it reads the file.
    yield from ()


@rule("N009", "error", refuses=True)
def unescaped_ampersand(document: Document) -> Iterator[Problem]:
    """An attribute or text of the file contains an unescaped &.

    Why: & begins a reference in XML. Therefore the broker cannot read the file, and does not start.
    Fix: write &amp; between the options of a URI.
    Source: XML 1.0, section 2.4; measured on 5.5.1 to 6.3.1

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616?wireFormat.maxFrameSize=10000000&soTimeout=0)"/>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://a:61616?wireFormat.maxFrameSize=10000000&amp;soTimeout=0)"/>
    """
    yield from document.unescaped_ampersand_problems()
