"""Rules V about attribute values that the schema accepts and the broker cannot convert."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from activemq_fleet.lint.document import Document, Element, Problem, once_per_document
from activemq_fleet.lint.engine import XML_FRAGMENTS, rule, variable_to_change
from activemq_fleet.lint.versions_placeholders import (
    PLACEHOLDER_OF_SPRING,
    fix_text_for_unreplaced_placeholders,
    has_no_placeholder_configurer,
)


@dataclass(frozen=True, slots=True)
class _NumberType:
    """The conversion of a size by a broker: its editor multiplies in ``bits`` bits and ignores an overflow.

    ``property_bits``: the bits of the property that takes the product; Spring rejects a product that needs more.
    """

    bits: int
    property_bits: int

    @property
    def largest_number_before_unit(self) -> int:
        """The largest number before the unit of a size, such as the 64 in ``64 mb``, that a release can parse.

        The limit does not include the multiplication by the unit.
        """
        return (1 << (self.bits - 1)) - 1

    @property
    def largest_accepted_size(self) -> int:
        """The largest size in bytes that a property of this Java integer type, int or long, accepts."""
        return (1 << (self.property_bits - 1)) - 1

    def product_with_java_overflow(self, number: int, unit: str) -> int:
        """Return the size in bytes of a number with a unit (b, k, m or g), as Java computes it.

        A product that is too large for Java's integer type of ``bits`` bits wraps around.
        """
        product = number << (10 * "bkmg".index(unit.lower() or "b"))
        half = 1 << (self.bits - 1)
        return (product + half) % (2 * half) - half

    def overflows_property(self, size: int) -> bool:
        """Return whether a size in bytes is too large for the Java type of the property that takes it.

        Spring then rejects the size.
        """
        return not -self.largest_accepted_size - 1 <= size <= self.largest_accepted_size


# MemoryIntPropertyEditor at an int, MemoryPropertyEditor at a long, and MemoryPropertyEditor at an int.
_INT, _LONG, _LONG_TO_INT = _NumberType(32, 32), _NumberType(64, 64), _NumberType(64, 32)
_OVERFLOW_REASON = "the broker multiplies number and unit, ignores the overflow, and logs nothing"
# XBeanByteConverterUtil; the digits are parsed before they are multiplied.
_SIZE = re.compile(r"[ \t]*([0-9]+)[ \t]*([kmg]?)b?[ \t]*", re.IGNORECASE)
_USAGE_SIZES = {"limit": _LONG, "total": _LONG, "percentUsageMinDelta": _LONG_TO_INT}
# Attributes with a MemoryPropertyEditor or MemoryIntPropertyEditor, and the number type of each.
_SIZE_ATTRIBUTES: Mapping[str, Mapping[str, _NumberType]] = {
    "amqPersistenceAdapter": {
        "indexPageSize": _LONG_TO_INT,
        "maxCheckpointMessageAddSize": _INT,
        "maxFileLength": _LONG_TO_INT,
        "maxReferenceFileLength": _LONG_TO_INT,
    },
    "broker": {"diskUsageCheckRegrowThreshold": _LONG_TO_INT},
    "duplexNetworkConnector": {"prefetchSize": _INT},
    "jobSchedulerUsage": _USAGE_SIZES,
    "journaledJDBC": {"journalLogFileSize": _INT},
    "journalPersistenceAdapterFactory": {"journalLogFileSize": _INT},
    "kahaDB": {
        "indexCacheSize": _LONG_TO_INT,
        "indexWriteBatchSize": _LONG_TO_INT,
        "journalMaxFileLength": _INT,
        "journalMaxWriteBatchSize": _LONG_TO_INT,
    },
    "kahaPersistenceAdapter": {"maxDataFileLength": _LONG},
    "ldapNetworkConnector": {"prefetchSize": _INT},
    "mKahaDB": {"journalMaxFileLength": _INT, "journalWriteBatchSize": _INT},
    "managementContext": {"connectorPort": _INT, "rmiServerPort": _INT},
    "memoryUsage": _USAGE_SIZES,
    "multicastNetworkConnector": {"prefetchSize": _INT},
    "networkConnector": {"prefetchSize": _INT},
    "policyEntry": {"memoryLimit": _LONG},
    "storeUsage": _USAGE_SIZES,
    "tempUsage": _USAGE_SIZES,
}
_PLAIN_NUMBERS = frozenset({"connectorPort", "rmiServerPort", "prefetchSize", "indexCacheSize", "percentUsageMinDelta"})
# Attributes with a BooleanEditor, and the first release that has this editor.
_BOOLEANS_SINCE = "5.6.0"
_BOOLEAN_ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "broker": frozenset({
        "advisorySupport",
        "deleteAllMessagesOnStartup",
        "passiveSlave",
        "persistent",
        "schedulerSupport",
        "shutdownOnSlaveFailure",
        "systemExitOnShutdown",
        "useJmx",
        "waitForSlave",
    }),
    "managementContext": frozenset({"createConnector"}),
}  # fmt: skip
_KAHADB_ENUM_VALUES: Mapping[str, tuple[str, ...]] = {
    "journalDiskSyncStrategy": ("ALWAYS", "PERIODIC", "NEVER"),
    "preallocationScope": ("ENTIRE_JOURNAL", "ENTIRE_JOURNAL_ASYNC", "NONE"),
    "preallocationStrategy": ("SPARSE_FILE", "OS_KERNEL_COPY", "ZEROS", "CHUNKED_ZEROS"),
}
# The types of Java on all systems, on macOS and on Windows, then those of Bouncy Castle.
_KEY_STORE_TYPES = frozenset(
    {
        "jks",
        "jceks",
        "pkcs12",
        "pkcs11",
        "dks",
        "caseexactjks",
        "keychainstore",
        "keychainstore-root",
        "windows-my",
        "windows-root",
        "windows-my-currentuser",
        "windows-my-localmachine",
        "windows-root-currentuser",
        "windows-root-localmachine",
        "bks",
        "bks-v1",
        "bouncycastle",
        "uber",
        "bcfks",
        "bcfks-def",
        "bcpkcs12",
        "pkcs12-def",
        "pkcs12-3des-3des",
    }
)


@rule("V050", "error", refuses=True)
def unconvertible_attribute_value(document: Document) -> Iterator[Problem]:
    """The broker cannot convert the value of an attribute to a size, a boolean or one of the permitted names.

    Why: the schema accepts any text as the value. The broker converts the text when it creates the element, fails, and
        does not start.
    Fix: write a size as a whole number with the optional unit kb, mb or gb: limit="1536 mb". Write a boolean as true or
        false without spaces. If only fixed names are permitted, write one that the finding lists, such as
        journalDiskSyncStrategy="ALWAYS".
    Cannot see: values that contain a placeholder.
    Source: XBeanByteConverterUtil, BooleanEditor and MessageDatabase of the release tags; measured on 5.5.1, 5.8.0,
        5.18.3 and 6.3.1

    Fires on 5.18.3::

        <broker><systemUsage><systemUsage>
          <storeUsage><storeUsage limit="1.5 gb"/></storeUsage>
        </systemUsage></systemUsage></broker>

    Fires on 5.5.1::

        <policyEntry queue=">" memoryLimit="10 megabytes"/>

    Fires on 5.18.3::

        <broker persistent="yes"/>

    Fires on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" journalDiskSyncStrategy="sometimes"/>

    Silent on 5.18.3::

        <broker persistent="FALSE"><systemUsage><systemUsage>
          <storeUsage><storeUsage limit="1536 MB"/></storeUsage>
        </systemUsage></systemUsage></broker>
    """
    for node, attribute, kind, message in _literal_sizes(document):
        if message:
            yield node.problem(message, attribute, fix=_size_fix(node, attribute, kind))
    if document.release.is_within_span(_BOOLEANS_SINCE):
        for node in document.elements_with_tag_name(*_BOOLEAN_ATTRIBUTES):
            for attribute in _BOOLEAN_ATTRIBUTES[node.name] & node.attributes.keys():
                booleans = ("true", "false")
                if _is_literal(node, attribute) and node.get(attribute).lower() not in booleans:
                    spaces = " without spaces at its ends" if node.get(attribute).strip().lower() in booleans else ""
                    message = (
                        f'{attribute}="{_shortened_value(node, attribute)}" of <{node.name}> must be true or '
                        f"false{spaces}"
                    )
                    variable = variable_to_change(node, attribute)
                    fix = f'write {attribute}="true" or "false"'
                    if variable == XML_FRAGMENTS:
                        fix += f" in {variable}"
                    elif variable is not None:
                        fix = f"write {attribute} as true or false in {variable}"
                    yield node.problem(message, attribute, fix=fix)
    for store in document.elements_with_tag_name("kahaDB"):
        for attribute, names in _KAHADB_ENUM_VALUES.items():
            if not _is_literal(store, attribute) or not _is_read_by_broker(store, attribute):
                continue
            if store.get(attribute).strip().upper() not in names:
                message = (
                    f'{attribute}="{_shortened_value(store, attribute)}" of <kahaDB> must be one of {", ".join(names)}'
                )
                yield store.problem(message, attribute, fix=f"write one of {', '.join(names)}")


@once_per_document
def _literal_sizes(document: Document) -> Iterator[tuple[Element, str, _NumberType, str]]:
    """Yield (element, attribute, number type, message) of each size in the file that is not a placeholder.

    The message is about a size that the broker cannot convert; it is "" for any other size.
    """
    for node in document.elements_with_tag_name(*_SIZE_ATTRIBUTES):
        for attribute, kind in _SIZE_ATTRIBUTES[node.name].items():
            if attribute in node.attributes and _is_literal(node, attribute):
                yield node, attribute, kind, _size_message(node, attribute, kind)


def _is_literal(node: Element, attribute: str) -> bool:
    return node.literal_value(attribute) is not None


def _shortened_value(node: Element, attribute: str) -> str:
    value = node.get(attribute)
    return value if len(value) <= 60 else f"{value[:60]}…"


def _is_read_by_broker(store: Element, attribute: str) -> bool:
    """Return whether the broker reads an attribute. It ignores the preallocation of a store that it does not start."""
    broker = store.nearest_ancestor_with_tag_name("broker")
    return (
        attribute == "journalDiskSyncStrategy"
        or broker is None
        or broker.boolean_attribute("persistent", True) is not False
    )


def _size_fix(node: Element, attribute: str, kind: _NumberType) -> str:
    """Return the fix for a size that the broker cannot convert."""
    variable = variable_to_change(node, attribute)
    place = f" in {variable}" if variable else ""
    if _SIZE.fullmatch(node.get(attribute)):
        is_plain = attribute in _PLAIN_NUMBERS
        size = "a smaller number" if is_plain else f"a size of at most {kind.largest_accepted_size} bytes"
        return f"write {size}{place}"
    is_xml = variable in (None, XML_FRAGMENTS)
    example = "1000" if attribute in _PLAIN_NUMBERS else "1536 mb"
    example_text = f'{attribute}="{example}"' if is_xml else example
    if attribute in _PLAIN_NUMBERS:
        return f"write a whole number{place}, such as {example_text}"
    return f"write a whole number with an optional unit{place}, such as {example_text}"


def _size_message(node: Element, attribute: str, kind: _NumberType) -> str:
    """Return the message about an attribute that the broker cannot convert to a size; "" if it can."""
    reason = _size_problem(node, attribute, kind)
    return f'{attribute}="{_shortened_value(node, attribute)}" of <{node.name}> {reason}' if reason else ""


def _size_problem(node: Element, attribute: str, kind: _NumberType) -> str:
    match = _SIZE.fullmatch(node.get(attribute))
    if match is None:
        number = node.integer_attribute(attribute)
        if attribute == "prefetchSize" and number is not None and number < 1:
            return ""  # rule N030 reports this value
        expected = "number" if attribute in _PLAIN_NUMBERS else "size, a whole number with the unit kb, mb or gb"
        return f"must be a {expected}"
    number = int(match[1].lstrip("0")[:20] or "0")
    if number > kind.largest_number_before_unit:
        number_text = "the number before the unit" if match[2] else "the number"
        return f"is too large: {number_text} may be at most {kind.largest_number_before_unit}"
    if kind.overflows_property(kind.product_with_java_overflow(number, match[2])):
        return f"is too large: the maximum is {kind.largest_accepted_size} bytes"
    return ""


@rule("V054", "error")
def size_that_overflows(document: Document) -> Iterator[Problem]:
    """The broker accepts a size and uses another number, because the size does not fit the property.

    Why: the broker multiplies number and unit in 32 or 64 bits, ignores an overflow, starts, and logs nothing.
        journalMaxFileLength="4gb" becomes 0, and "2gb" becomes a negative number: the store begins a new data file for
        each write. "5gb" becomes 1gb, which works: for such a value the finding is only a warning. A limit that becomes
        negative has no effect.
    Fix: write a size of at most 2147483647 bytes (2047mb) for journalMaxFileLength. For every other attribute, the
        finding states the maximum.
    Source: XBeanByteConverterUtil, MemoryIntPropertyEditor of the release tags; measured on 5.5.1, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" journalMaxFileLength="4gb"/>

    Fires on 5.5.1::

        <kahaDB directory="${activemq.data}/kahadb" journalMaxFileLength="5 GB"/>

    Fires on 6.3.1::

        <policyEntry queue=">" memoryLimit="8589934592gb"/>

    Silent on 5.18.3::

        <kahaDB directory="${activemq.data}/kahadb" journalMaxFileLength="1gb"/>
    """
    for node, attribute, kind, message in _literal_sizes(document):
        match = _SIZE.fullmatch(node.get(attribute))
        if match is None or message:
            continue
        result = kind.product_with_java_overflow(int(match[1]), match[2])
        if result == int(match[1]) << (10 * "bkmg".index(match[2].lower() or "b")):
            continue
        size_phrase = f'{attribute}="{_shortened_value(node, attribute)}" of <{node.name}>'
        message = f"{size_phrase} is too large for the broker, which reads it as {result} bytes"
        fix = f"write a size of at most {kind.largest_accepted_size} bytes"
        why = f"{_OVERFLOW_REASON}. A limit that becomes negative has no effect"
        if attribute == "journalMaxFileLength":
            why = f"{_OVERFLOW_REASON}. With this length, the store begins a new data file for each write"
        if result > 0:
            why = f"{_OVERFLOW_REASON}. The broker works with this smaller value instead of the configured one"
        yield node.problem(message, attribute, severity="warning" if result > 0 else None, fix=fix, why=why)


@rule("V051", "error", refuses=True)
def unreplaced_placeholder_in_typed_value(document: Document) -> Iterator[Problem]:
    """An address, size or boolean contains a ${name} that nothing replaces: the broker cannot convert it.

    Why: without a PropertyPlaceholderConfigurer the broker uses the text itself, with dollar and braces. A listener
        at ${port} fails with "Port value out of range: -1", a limit of ${limit} with "Could not convert to a memory
        size".
    Fix: add a PropertyPlaceholderConfigurer, or replace each placeholder with its value. Without a properties file, the
        configurer uses only defaults (${name:default}), system properties and environment variables. Define each other
        name in a properties file that the configurer reads.
    Cannot see: a tool that replaces the placeholder before the broker reads the file.
    Source: measured on 5.5.1, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <transportConnector name="more" uri="tcp://0.0.0.0:${port}"/>

    Fires on 5.5.1::

        <transportConnector name="more" uri="tcp://0.0.0.0:${port}"/>

    Fires on 5.18.3::

        <policyEntry queue=">" memoryLimit="${limit}"/>

    Silent on 5.18.3::

        <transportConnector name="more" uri="tcp://0.0.0.0:21626?wireFormat.maxFrameSize=10485760"/>
    """
    if not has_no_placeholder_configurer(document):
        return
    for connector in document.transport_connectors:
        address = connector.get("uri").partition("?")[0]
        if connector.uri_attribute_or_empty().scheme != "vm" and (match := PLACEHOLDER_OF_SPRING.search(address)):
            message = (
                f"nothing replaces the placeholder {match[0]} in the address of connector {connector.get('name')}: "
                "the broker does not start"
            )
            yield connector.problem(
                message, "uri", match[0], fix=fix_text_for_unreplaced_placeholders(document, [match])
            )
    for link in document.network_connectors:
        if match := PLACEHOLDER_OF_SPRING.match(link.get("uri").strip()):
            message = (
                f"nothing replaces the placeholder {match[0]} in the URI of the link {link.get('name')}: "
                "the broker does not start"
            )
            yield link.problem(message, "uri", match[0], fix=fix_text_for_unreplaced_placeholders(document, [match]))
    for node in document.elements_with_tag_name(*_SIZE_ATTRIBUTES):
        for attribute in _SIZE_ATTRIBUTES[node.name]:
            yield from _unreplaced_placeholder_problems(document, node, attribute)
    if document.release.is_within_span(_BOOLEANS_SINCE):
        for node in document.elements_with_tag_name(*_BOOLEAN_ATTRIBUTES):
            for attribute in sorted(_BOOLEAN_ATTRIBUTES[node.name]):
                yield from _unreplaced_placeholder_problems(document, node, attribute)


def _unreplaced_placeholder_problems(document: Document, node: Element, attribute: str) -> Iterator[Problem]:
    if match := PLACEHOLDER_OF_SPRING.search(node.get(attribute)):
        text = f"nothing replaces the placeholder {match[0]} in {attribute} of <{node.name}>: the broker does not start"
        yield node.problem(text, attribute, match[0], fix=fix_text_for_unreplaced_placeholders(document, [match]))


@rule("V052", "error", each="sslContext", refuses=True)
def unknown_key_store_type(context: Element) -> Iterator[Problem]:
    """An sslContext names a type of key store that Java does not have.

    Why: the broker cannot open its key store, fails with a KeyStoreException ("not found"), and does not start.
    Fix: write keyStoreType="PKCS12" or "JKS", the type with which the file was created; keytool -list shows it.
    Cannot see: an additional security provider. The types of Java and of Bouncy Castle count as known.
    Source: SpringSslContext of the release tags; KeyStore of Java 8 to 21; measured on 5.18.3

    Fires on 5.18.3::

        <broker>
          <sslContext><sslContext keyStore="file:broker.ks" keyStoreType="someTypeOfFile"/></sslContext>
        </broker>

    Silent on 5.18.3::

        <broker>
          <sslContext><sslContext keyStoreType="pkcs12"/></sslContext>
        </broker>
    """
    for attribute in ("keyStoreType", "trustStoreType"):
        kind = context.literal_value(attribute)
        store = attribute.removesuffix("Type")
        if kind is not None and context.has_attribute(store) and kind.lower() not in _KEY_STORE_TYPES:
            message = (
                f'{attribute}="{kind}" is not a key store type of Java, unless an added security provider defines it'
            )
            fix = (
                f'write {attribute}="PKCS12" or "JKS", the type with which the file was created; keytool -list shows it'
            )
            yield context.problem(message, attribute, fix=fix)
