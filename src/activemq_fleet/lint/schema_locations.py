"""Rules V about the schemas that a file names, and their locations in the release."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import SCHEMA_LOCATION, Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.locations import (
    is_below_directory_of_referring_file,
    path_relative_to_referring_file,
)
from activemq_fleet.releases import XBEAN
from activemq_fleet.schema import BEANS, CORE

_CHECKED_NAMESPACES = frozenset({BEANS, CORE, XBEAN})
_CAMEL_NAMESPACE_PREFIX = "http://camel.apache.org/schema/"

_VERSIONED_SCHEMA = re.compile(r"\S*/activemq-core-(\d[\w.-]*)\.xsd")


@rule("V020", "error", refuses=True)
def namespace_without_a_local_schema(document: Document) -> Iterator[Problem]:
    """For an XML namespace, schemaLocation has no address, or an address whose schema is in no jar of the release.

    Why: the broker validates activemq.xml when it starts. It loads the schema of each namespace from the first address
        that xsi:schemaLocation has for it. The jars of a release contain only activemq-core.xsd of the release, and the
        Spring schemas up to the version of Spring in the lib directory. From 5.15.10 on, the broker also finds them by
        https: addresses. The broker must download every other schema, and does not start if the download fails. The
        download fails without Internet access. It also fails for http: addresses, because activemq.apache.org and
        www.springframework.org redirect to https:.
    Fix: write for each namespace the address whose schema is in the jars of every release:
        http://www.springframework.org/schema/beans/spring-beans.xsd and
        http://activemq.apache.org/schema/core/activemq-core.xsd.
    Cannot see: the broker of Amazon MQ, whose configurations are a <broker> without a schemaLocation. The rule also
        does not see added jars, whose META-INF/spring.schemas may contain other namespaces, and files that a file: or
        classpath: address names.
    Source: META-INF/spring.schemas of ActiveMQ's and Spring's tags; measured on 5.3.2, 5.5.1, 5.18.3 and 6.3.1

    Fires on 5.18.3::

        <beans xmlns="http://www.springframework.org/schema/beans"
               xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
               xsi:schemaLocation="http://www.springframework.org/schema/beans
                                   http://www.springframework.org/schema/beans/spring-beans.xsd
                                   http://activemq.apache.org/schema/core
                                   http://activemq.apache.org/schema/activemq-core.xsd">
          <broker xmlns="http://activemq.apache.org/schema/core" brokerName="north"/>
        </beans>

    Fires on 5.5.1::

        <beans xmlns="http://www.springframework.org/schema/beans"
               xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
               xsi:schemaLocation="http://www.springframework.org/schema/beans
                                   http://www.springframework.org/schema/beans/spring-beans-3.2.xsd
                                   http://activemq.apache.org/schema/core
                                   http://activemq.apache.org/schema/core/activemq-core.xsd">
          <broker xmlns="http://activemq.apache.org/schema/core" brokerName="north"/>
        </beans>

    Fires on 6.3.1::

        <beans xmlns="http://www.springframework.org/schema/beans">
          <broker xmlns="http://activemq.apache.org/schema/core" brokerName="north"/>
        </beans>

    Silent on 5.18.3::

        <beans xmlns="http://www.springframework.org/schema/beans"
               xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
               xsi:schemaLocation="http://www.springframework.org/schema/beans
                                   http://www.springframework.org/schema/beans/spring-beans-3.2.xsd
                                   http://activemq.apache.org/schema/core
                                   https://activemq.apache.org/schema/core/activemq-core.xsd">
          <broker xmlns="http://activemq.apache.org/schema/core" brokerName="north" useJmx="false" persistent="false"/>
        </beans>
    """
    hints: dict[str, tuple[Element, str]] = {}
    checked: set[str] = set()
    for node in _elements_that_require_schema(document):
        if node.has_attribute(SCHEMA_LOCATION):
            for hinted_namespace, address in node.schema_locations:
                hints.setdefault(hinted_namespace, (node, address))
        namespace = node.namespace
        if namespace and namespace not in checked:
            checked.add(namespace)
            yield from _missing_schema_problems(document, node, namespace, hints.get(namespace))


def _elements_that_require_schema(document: Document) -> Iterator[Element]:
    """Yield the elements whose XML namespace requires a schema, without the content of foreign elements."""
    foreign: set[Element | None] = set()
    for element in document.nodes:
        if element.parent in foreign:
            foreign.add(element)
            continue
        yield element
        if element.namespace not in _CHECKED_NAMESPACES:
            foreign.add(element)


def _missing_schema_problems(
    document: Document, node: Element, namespace: str, hint: tuple[Element, str] | None
) -> Iterator[Problem]:
    schemas, release = document.release.schemas_in_jars, f"ActiveMQ {document.release.text}"
    if hint is not None and schemas.has_schema_at(namespace, hint[1]):
        return
    known_address = schemas.versionless_schema_address(namespace)
    fix = f"write {namespace} {known_address} in xsi:schemaLocation" if known_address else ""
    if "activemq.org/" in namespace:
        fix = f'write xmlns="{CORE}", which is the namespace since 5.0, and its schema in xsi:schemaLocation'
    if hint is None:
        text = f"xsi:schemaLocation has no address for the namespace {namespace} of <{node.name}>"
        is_for_amazon = node.name == "broker" and node.parent is None
        text += ": only Amazon MQ starts with such a file" if is_for_amazon else ": the broker does not start"
        why = (
            "the broker validates activemq.xml when it starts, and loads the schema of each namespace from the first "
            "address that xsi:schemaLocation has for it"
        )
        yield node.problem(text, fix=fix, why=why)
        return
    hint_node, address = hint
    if "${" in address or address.startswith(_CAMEL_NAMESPACE_PREFIX):
        return
    if (
        is_below_directory_of_referring_file(address)
        and path_relative_to_referring_file(address) in document.other_files
    ):
        return
    if re.match(r"(file|classpath\*?|jar):|/", address) or (
        ":" not in address and not is_below_directory_of_referring_file(address)
    ):
        text = f"{release} starts only if the schema {address} exists: this check cannot verify that"
        yield hint_node.problem(text, SCHEMA_LOCATION, address, severity="warning", fix=fix)
    elif ":" not in address:
        text = f"the schema {address} does not exist next to this file: {release} does not start"
        yield hint_node.problem(text, SCHEMA_LOCATION, address, fix=fix)
    elif known_address:
        text = f"no jar of {release} contains the schema {address}: the broker does not start if it cannot download it"
        edits = hint_node.part_replacement_edit(SCHEMA_LOCATION, address, known_address)
        yield hint_node.problem(text, SCHEMA_LOCATION, address, fix=fix, edits=edits)
    else:
        text = (
            f"{release} has no schema of the namespace {namespace}: the broker does not start with <{node.name}> "
            "unless an added jar contains the schema"
        )
        fix = (
            fix or "put the jar whose META-INF/spring.schemas has this address into lib/optional, or remove the element"
        )
        yield hint_node.problem(text, SCHEMA_LOCATION, address, fix=fix)


@rule("V010", "info", each="beans broker", texts="activemq-core-")
def schema_location_names_single_release(node: Element) -> Iterator[Problem]:
    """A schemaLocation names the schema of one release, activemq-core-X.Y.Z.xsd.

    Why: a release contains activemq-core-X.Y.Z.xsd for some versions only, often not for its own version. This release
        contains the named schema. After the next upgrade the broker may not start (V020). V002 checks the file against
        the schema of the release, whatever version schemaLocation names.
    Fix: write http://activemq.apache.org/schema/core/activemq-core.xsd, which is in every release's jar.
    Source: META-INF/spring.schemas of the releases' jars; measured on eleven releases, 5.5.1 to 6.3.1

    Fires on 5.18.3::

        <beans xmlns="http://www.springframework.org/schema/beans"
               xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
               xsi:schemaLocation="http://www.springframework.org/schema/beans
                                   http://www.springframework.org/schema/beans/spring-beans.xsd
                                   http://activemq.apache.org/schema/core
                                   http://activemq.apache.org/schema/core/activemq-core-5.5.0.xsd">
          <broker xmlns="http://activemq.apache.org/schema/core" brokerName="north"/>
        </beans>

    Silent on 5.18.3::

        <beans xmlns="http://www.springframework.org/schema/beans"
               xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
               xsi:schemaLocation="http://www.springframework.org/schema/beans
                                   http://www.springframework.org/schema/beans/spring-beans.xsd
                                   http://activemq.apache.org/schema/core
                                   http://activemq.apache.org/schema/core/activemq-core.xsd">
          <broker xmlns="http://activemq.apache.org/schema/core" brokerName="north"/>
        </beans>
    """
    for match in _VERSIONED_SCHEMA.finditer(node.get(SCHEMA_LOCATION)):
        if node.document.release.schemas_in_jars.has_schema_at(CORE, match[0]):
            text = (
                f"schemaLocation names the schema of ActiveMQ {match[1]}, but the release is "
                f"{node.document.release.text}"
            )
            address = node.document.release.schemas_in_jars.versionless_schema_address(CORE)
            edits = node.part_replacement_edit(SCHEMA_LOCATION, match[0], address)
            yield node.problem(text, SCHEMA_LOCATION, match[0], edits=edits)
