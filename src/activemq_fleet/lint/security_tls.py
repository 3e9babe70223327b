"""Rules S about key stores and protocols of TLS."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Problem
from activemq_fleet.lint.engine import rule

_GUESSED = frozenset({"changeit", "changeme", "password", "passw0rd", "secret", "activemq", "admin", "123456", "test"})
_STORES = re.compile(r"(key|trust)StorePassword|keyStoreKeyPassword|keyPassword", re.IGNORECASE)
_OLD = re.compile(r"\b(SSLv2(?:Hello)?|SSLv3|SSL|TLSv1(?:\.[01])?)(?![\w.])")


@rule("S019", "warning", source="broker.ks of the release tags (password); keytool (changeit)")
def guessed_store_password(document: Document) -> Iterator[Problem]:
    """A key or trust store with a password that everybody knows.

    Why: password is that of the broker.ks that every release ships, whose private key is public; changeit is Java's
        own. Whoever gets a copy of the file has the key of the broker.
    Fix: make a key store of your own with a password of its own, and write keyStorePassword="${keystore.password}".

    Fires on 5.18.3::

        <broker>
          <sslContext><sslContext keyStore="file:broker.ks" keyStorePassword="password"/></sslContext>
        </broker>

    Silent on 5.18.3::

        <broker>
          <sslContext><sslContext keyStore="file:broker.ks" keyStorePassword="${keystore.password}"/></sslContext>
        </broker>
    """
    for node in document.nodes:
        for name, value in node.attributes.items():
            if _STORES.fullmatch(name) and value.strip().lower() in _GUESSED:
                yield node.problem(f"the {name} is one that everybody tries first", name)


@rule("S020", "warning", source="RFC 7568 (SSLv3), RFC 8996 (TLS 1.0 and 1.1)")
def broken_protocol(document: Document) -> Iterator[Problem]:
    """SSLv3, TLS 1.0 or TLS 1.1 is switched on by name.

    Why: both are broken and withdrawn. Java has switched them off since 2015 and 2021; a connector that names nothing
        else takes no connection there, and one that also names newer ones lets old clients in again on an older Java.
    Fix: leave enabledProtocols out, or write TLSv1.2,TLSv1.3; protocol="TLS" on <sslContext>.

    Fires on 5.18.3::

        <transportConnector name="ssl" uri="ssl://0.0.0.0:61617?transport.enabledProtocols=TLSv1,TLSv1.1"/>

    Silent on 5.18.3::

        <transportConnector name="ssl" uri="ssl://0.0.0.0:61617?transport.enabledProtocols=TLSv1.2"/>
    """
    for connector in (*document.connectors, *document.links):
        for part in connector.uri().walk():
            for option, value in part.options.items():
                if option.rpartition(".")[2] == "enabledProtocols" and (old := _OLD.search(value)):
                    yield connector.problem(f"{option} lets {old[1]} in", "uri", option)
    for context in document.all("sslContext"):
        if old := _OLD.fullmatch(context.known("protocol") or ""):
            yield context.problem(f"protocol is {old[1]}", "protocol")
