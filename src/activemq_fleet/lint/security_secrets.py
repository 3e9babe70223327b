"""Rules S about secrets in clear text, in activemq.xml and on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.fleets import FleetView
from activemq_fleet.settings.default_credentials import is_default_credential

_WORDS = "password|passwd|passphrase|pwd|secret"
_NAME = re.compile(rf"(?:{_WORDS})$", re.IGNORECASE)
_IN_TEXT = re.compile(
    r"(?:password|passwd|passphrase|pwd|secret)=([^&;)\s\"',]+)|//[^/\s:@(]+:([^@/\s]+)@", re.IGNORECASE
)
_OPTION = re.compile(rf"-D([^=]*(?:{_WORDS}|token))=(.+)", re.IGNORECASE)
_STANDS = "stands in the file in clear text"
_NOT_CLEAR = re.compile(r".*[$#]\{.*|ENC\(.*|\*+|#.*|", re.DOTALL)


def is_clear(value: str) -> bool:
    """Return False for a value with a placeholder, a reference, an encrypted or a masked value."""
    return not _NOT_CLEAR.fullmatch(value.strip())


@rule("S010", "warning", source="the schema; Spring's beans; reference of encrypted passwords")
def password_in_the_file(document: Document) -> Iterator[Problem]:
    """A password stands in activemq.xml in clear text.

    Why: the file is read by everybody who looks after the broker, is copied to every node and kept in a repository;
        what it opens is an account of this broker or the next, a database, a directory or a key store.
    Fix: write ${network.password} and keep the value in a properties file that only the broker may read (mode 0640),
        loaded by a PropertyPlaceholderConfigurer.
    Cannot see: secrets whose name says nothing of it; and what is in the files beside.

    Fires on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)" userName="net" password="rosebud"/>

    Fires on 5.18.3::

        <broker>
          <sslContext><sslContext keyStore="file:broker.ks" keyStorePassword="rosebud"/></sslContext>
        </broker>

    Fires on 5.18.3::

        <bean id="store" class="org.apache.commons.dbcp2.BasicDataSource">
          <property name="url" value="jdbc:postgresql://db/activemq"/>
          <property name="password" value="rosebud"/>
        </bean>

    Silent on 5.18.3::

        <networkConnector name="south" uri="static:(tcp://south:61616)" userName="net" password="${network.password}"/>

    Silent on 5.18.3::

        <bean id="store" class="org.apache.commons.dbcp2.BasicDataSource">
          <property name="password" value="${db.password}"/>
        </bean>
    """
    for node in document.nodes:
        for name, value in node.attributes.items():
            local = name.rpartition("}")[2]
            if _NAME.search(local):
                if is_clear(value) and not is_default_credential(node.get("username"), value):  # S004 says more of that
                    yield node.problem(f"the {local} of {_owner(node)} {_STANDS}", name)
            elif any(is_clear(found[1] or found[2]) for found in _IN_TEXT.finditer(value)):
                yield node.problem(
                    f"a password in the {local} of {_owner(node)} stands in the file in clear text", name
                )
        yield from _of_property(node)


def _of_property(node: Element) -> Iterator[Problem]:
    """Yield problems of Spring's property, entry, prop and constructor-arg elements that are named as passwords."""
    what = node.get("name") or node.get("key")
    if not _NAME.search(what) or node.name not in ("property", "entry", "prop", "constructor-arg"):
        return
    child = node.child("value")
    for holder, attribute in ((node, "value"), (node, ""), (child, "")):
        if holder is not None and is_clear(holder.get(attribute) if attribute else holder.text):
            yield holder.problem(
                f"the {what} of {_owner(node.parent or node)} stands in the file in clear text", attribute
            )


def _owner(node: Element) -> str:
    """Return how messages name an element: a link by its name, the link to the master, or the element."""
    if node.name == "masterConnector":
        return "the link to the master"
    if node.name in ("networkConnector", "multicastNetworkConnector", "ldapNetworkConnector"):
        return f"link {node.get('name')}"
    name = node.get("username") or node.get("name") or node.get("id")
    return f"<{node.name}> {name}".rstrip()


@rule("S014", "warning", scope="fleet", source="/proc/PID/cmdline: every account of the host may read it")
def password_on_the_command_line(view: FleetView) -> Iterator[Problem]:
    """activemq_java_options holds a password.

    Why: options of Java stand on the command line of the broker, which every account of the host can read (ps), and in
        lists of processes that monitoring collects.
    Fix: give the key store's password in <sslContext> as ${…}, in a properties file of activemq_extra_files; for other
        code name a file with it (many options have a form that ends in .file).

    Fires on 5.18.3::

        all:
          activemq_java_options: [-Djavax.net.ssl.keyStorePassword=rosebud]
        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:

    Silent on 5.18.3::

        all:
          activemq_java_options: [-Dcom.sun.management.jmxremote.password.file=/etc/activemq/jmx.password]
        hosts:
          orders-mq01-a.example.com:
          orders-mq01-b.example.com:
    """
    for broker in view.brokers:
        for option in broker.settings.java_options:
            named = _OPTION.fullmatch(option)
            if named and is_clear(named[2]):
                yield view.problem(broker, f"activemq_java_options holds a password: -D{named[1]}=…")
            elif not named and any(is_clear(found[1] or found[2]) for found in _IN_TEXT.finditer(option)):
                yield view.problem(broker, f"activemq_java_options holds a password in {option.partition('=')[0]}")
