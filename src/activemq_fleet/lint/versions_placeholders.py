"""Rules V about templates (of Jinja, ERB, EPP …), and placeholders without a value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from activemq_fleet.lint.document import Document, Element, Problem, once_per_document
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.imports import import_elements_with_outside_paths, imported_paths_and_documents
from activemq_fleet.lint.locations import path_relative_to_referring_file
from activemq_fleet.schema import BEANS, CORE

PLACEHOLDER_OF_SPRING = re.compile(r"\$\{([A-Za-z_][\w.-]*)(:[^${}]*)?\}")
_NO_CONFIGURER = "the file has no PropertyPlaceholderConfigurer"
_LITERAL_TEXT_EFFECT = (
    "without a PropertyPlaceholderConfigurer, the broker uses the text itself, with dollar and braces, as a name, "
    "directory or address"
)
_MAX_LISTED_PLACEHOLDERS = 10
_PROPERTY_KEY = re.compile(r"^[ \t]*([\w.-]+)[ \t]*[=:]", re.MULTILINE)
_SYSTEM_PROPERTY_OPTION = re.compile(r"-D([\w.-]+)")
# The properties that every JVM sets: System.getProperties of Java 8 to 21.
_JAVA_PROPERTIES = frozenset(
    {
        *(f"user.{name}" for name in ("name", "home", "dir", "language", "country", "timezone")),
        *(f"os.{name}" for name in ("name", "arch", "version")),
        *(f"java.{name}" for name in ("home", "version", "vendor", "io.tmpdir", "class.path", "library.path")),
        *("file.encoding", "file.separator", "line.separator", "path.separator"),
    }
)
_SCRIPT_PROPERTIES = frozenset({"activemq.base", "activemq.home", "activemq.classpath"})
_DIRECTORY_PROPERTIES = frozenset({"activemq.conf", "activemq.data"})
_KARAF_PROPERTIES = frozenset(f"karaf.{name}" for name in ("base", "home", "data", "etc", "name", "instances"))
_ENVIRONMENT_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_RENDERED_PROPERTIES = frozenset(
    f"activemq.{name}"
    for name in ("network.password", "jdbc.password", "tls.keystore.password", "tls.truststore.password")
)


# Parts in which template marks have no meaning or another one: {{name}} is a property of Camel.
# An unclosed part extends to the end, because a search that restarts at each part would take too long.
_IGNORED_PARTS = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<camelContext\b.*?(?:</camelContext>|\Z)", re.DOTALL
)
_TEMPLATE_MARK = re.compile(
    r"<%|<#\w|<@\w|\[%"  # ERB, EPP, FreeMarker, Template Toolkit
    r"|\{\{[^{}\n]{1,300}\}\}|\{%|\{#\s"  # Jinja, Go
    r"|(?<=[\"'])#{3,}\s*[A-Z][A-Z0-9_]{1,100}\s*#{3,}"  # the images of Red Hat
    r"|@@[\w.-]{1,100}@@|%%[A-Z][A-Z0-9_]{1,100}%%|(?<![\w.@])@[A-Z][A-Z0-9_.]{2,100}@(?!\w)"  # Maven, sed
)


@rule("V022", "warning")
def file_is_a_template(document: Document) -> Iterator[Problem]:
    """The file is a template, not a configuration: render it first.

    Why: the broker reads the rendered file. The placeholders of a template have no values, and its conditions may
        remove elements, so no other rule checks the template.
    Fix: render the template with the tool that installs it, and check the rendered file.
    Source: 39 templates among 310 files of public repositories

    Fires on 5.18.3::

        <broker brokerName="{{ inventory_hostname }}"/>

    Silent on 5.18.3::

        <broker brokerName="${env.HOSTNAME}"/>
    """
    # files.file_findings reports this when it reads the file.
    yield from ()


def first_template_mark_with_position(text: str) -> tuple[int, int, str] | None:
    """Return (line, column, text) of the first mark of a template language, or None for a text that is not a template.

    A mark is for example an expression of Jinja or the ``<%`` of ERB. Line and column are 1-based.
    """
    checked_text = _IGNORED_PARTS.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), text)
    match = _TEMPLATE_MARK.search(checked_text)
    if match is None:
        return None
    begin = match.start()
    return checked_text.count("\n", 0, begin) + 1, begin - checked_text.rfind("\n", 0, begin), match[0]


@rule("V024", "warning")
def placeholder_without_value(document: Document) -> Iterator[Problem]:
    """A ${name} has no value in any properties file that the broker reads.

    Why: with a PropertyPlaceholderConfigurer the broker does not start ("Could not resolve placeholder") unless a
        properties file, -Dname= or the environment defines the name. Without a configurer the broker uses the text
        itself, with dollar and braces, as a name, directory or address.
    Fix: if the file has no PropertyPlaceholderConfigurer, add one, or replace each placeholder with its value. Without
        a properties file, the configurer uses only defaults (${name:default}), system properties and environment
        variables. Define each other name in a properties file that the configurer reads, or write a default.
    Cannot see: the command line, the environment, properties files in other directories, and the file that imports this
        one. With a configurer, the finding is therefore an info. The rule does not check a file that has neither a
        broker nor a configurer. In the same directory it reads only properties files that a configurer names. In an
        inventory it also reads the -D options of activemq_java_options. It treats activemq.base and similar names as
        set if the release's start script sets them (activemq.conf and activemq.data from 5.6 on). It assumes that a
        name in capitals is an environment variable.
    Source: PropertyPlaceholderConfigurer of Spring 3.0 to 7.0; measured on 5.18.3

    Fires on 5.18.3::

        <broker brokerName="${my.name}"/>

    Fires on 5.18.3::

        <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"/>
        <networkConnector name="south" uri="static:(tcp://${south.host}:61616)"/>

    Silent on 5.18.3::

        <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">
          <property name="properties"><value>
            app.password=rosebud
            south.host=localhost
          </value></property>
        </bean>
        <networkConnector name="south" uri="static:(tcp://${south.host}:${south.port:61616})"/>
    """
    if document.broker is not None and not document.broker.settings.xml_fragments:
        return  # in the file of a fleet, only the placeholders in fragments are checked
    configurers = _configurers(document)
    if not configurers and not has_no_placeholder_configurer(document):
        return
    start_properties = _start_properties(document)
    defined_names = (
        set()
        if configurers and all(_ignores_system_properties(bean) for bean in configurers)
        else set(start_properties)
    )
    for source in _property_sources(document, configurers):
        defined_names |= {*_inline_property_names(source)}
        defined_names |= {
            key for name in _properties_files(source) for key in _property_names(document.other_files.get(name, b""))
        }
    configurer_nodes = {node for bean in configurers for node in (bean, *bean.descendants())}
    reported: set[str] = set()
    unset: list[tuple[Element, str, str]] = []
    matches: list[re.Match[str]] = []
    for node, attribute, value in _values_with_placeholders(document):
        for match in PLACEHOLDER_OF_SPRING.finditer(value):
            name = match[1]
            names = (
                start_properties if node in configurer_nodes else defined_names
            )  # Spring resolves the locations of a configurer before it reads properties files
            is_set = match[2] or name in names or _ENVIRONMENT_VARIABLE.fullmatch(name)
            if name in reported or (configurers and is_set) or not _is_checked(document, match[0]):
                continue
            reported.add(name)
            if not configurers and _is_link_address(node, attribute, value[: match.start()]):
                link = f"<{node.name}> {node.get('name')}".rstrip()
                text = f"{link} cannot connect, because nothing replaces the placeholder {match[0]}"
                fix = fix_text_for_unreplaced_placeholders(document, [match])
                yield node.problem(f"{text}: {_NO_CONFIGURER}", attribute, match[0], severity="error", fix=fix)
            else:
                unset.append((node, attribute, match[0]))
                matches.append(match)
    if unset:
        node, attribute, placeholder = unset[0]
        listed = ", ".join([placeholder, *map(_placeholder_with_line, unset[1:_MAX_LISTED_PLACEHOLDERS])])
        more = f" and {len(unset) - _MAX_LISTED_PLACEHOLDERS} more" if len(unset) > _MAX_LISTED_PLACEHOLDERS else ""
        noun = "placeholder" if len(unset) == 1 else "placeholders"
        text = f"nothing replaces the {noun} {listed}{more}: {_NO_CONFIGURER}"
        if configurers:
            text = f"no properties file next to this file sets the {noun} {listed}{more}"
        fix = fix_text_for_unreplaced_placeholders(document, matches)
        if configurers:
            fix = (
                "define the name of each placeholder in a properties file that the PropertyPlaceholderConfigurer "
                "reads, or write a default as ${name:default}"
            )
        why = _LITERAL_TEXT_EFFECT
        if configurers:
            why = (
                'the broker does not start ("Could not resolve placeholder") unless -Dname=, the environment or '
                "another properties file defines the name"
            )
        yield node.problem(text, attribute, placeholder, fix=fix, why=why, severity="info" if configurers else None)


def fix_text_for_unreplaced_placeholders(document: Document, matches: Sequence[re.Match[str]]) -> str:
    """Return the text of the fix for placeholders in an activemq.xml that no Spring configurer replaces.

    The text is an instruction to the user. ``matches`` are the placeholders, as matches of PLACEHOLDER_OF_SPRING.
    Without a properties file, a configurer replaces a placeholder with a default, a system property or an environment
    variable. It reads other names from a properties file.
    """
    start_properties = _start_properties(document)
    sources, undefined = dict[str, None](), list[str]()
    for match in matches:
        if match[1] in start_properties:
            sources["system properties"] = None
        elif match[2]:
            sources["the defaults in the placeholders"] = None
        elif _ENVIRONMENT_VARIABLE.fullmatch(match[1]):
            sources["environment variables"] = None
        else:
            undefined.append(match[1])
    if not undefined:
        sources_text = " and ".join(sources)
        return (
            f"add a PropertyPlaceholderConfigurer, which uses {sources_text}, or replace each placeholder with its "
            "value"
        )
    names = ", ".join(undefined[:_MAX_LISTED_PLACEHOLDERS]) + (
        " and the others" if len(undefined) > _MAX_LISTED_PLACEHOLDERS else ""
    )
    return (
        f"add a PropertyPlaceholderConfigurer, and define {names} in a properties file that it reads, or replace "
        "each placeholder with its value"
    )


def _placeholder_with_line(unset: tuple[Element, str, str]) -> str:
    node, attribute, placeholder = unset
    return f"{placeholder} (line {node.position(attribute, placeholder)[0]})"


def _is_link_address(node: Element, attribute: str, text_before: str) -> bool:
    """Return whether the text after ``text_before`` is in an address to which a link connects."""
    if (node.name, attribute) not in (("networkConnector", "uri"), ("masterConnector", "remoteURI")):
        return False
    return "?" not in text_before[max(text_before.rfind("("), text_before.rfind(",")) + 1 :]


@once_per_document
def _configurers(document: Document) -> list[Element]:
    """Return the elements of a file that replace placeholders."""
    beans = [bean for bean in document.elements_with_tag_name("bean") if _is_placeholder_configurer(bean)]
    return beans + document.elements_with_tag_name("property-placeholder")


def has_no_placeholder_configurer(document: Document) -> bool:
    """Return whether no Spring configurer replaces the placeholders of an activemq.xml.

    The result is False if an imported file may have a configurer. A file without a broker is part of another one, which
    may have a configurer.
    """
    if not document.brokers or _configurers(document) or any(import_elements_with_outside_paths(document)):
        return False
    return not any(
        imported_document is None or _configurers(imported_document)
        for _, imported_document in imported_paths_and_documents(document)
    )


def _values_with_placeholders(document: Document) -> Iterator[tuple[Element, str, str]]:
    """Yield (element, attribute, value) of Spring's and ActiveMQ's elements; in others, ``${…}`` belongs to Camel."""
    for node in document.nodes:
        if node.namespace in (CORE, BEANS):
            for attribute, value in node.element_attribute_values_and_text():
                if "${" in value:
                    yield node, attribute, value


def _is_checked(document: Document, placeholder: str) -> bool:
    """Return whether a placeholder is to be checked. In the file of a fleet, only those in fragments are."""
    broker = document.broker
    return broker is None or any(placeholder in fragment.xml for fragment in broker.settings.xml_fragments)


def _start_properties(document: Document) -> set[str]:
    """Return the property names that the start script, the JVM and the inventory set."""
    broker, release = document.broker, document.release
    if broker is not None:
        options = _SYSTEM_PROPERTY_OPTION.findall("\n".join(broker.settings.java_options))
        accounts = [account.key for account in broker.accounts]
        return {
            *_JAVA_PROPERTIES,
            *_SCRIPT_PROPERTIES,
            *_DIRECTORY_PROPERTIES,
            *_RENDERED_PROPERTIES,
            *options,
            *accounts,
        }
    directories = _DIRECTORY_PROPERTIES if release.start_script_sets_conf else ()
    policy = ("jolokia.conf",) if release.jolokia_policy_file == "conf/jolokia-access.xml" else ()
    return {*_JAVA_PROPERTIES, *_SCRIPT_PROPERTIES, *_KARAF_PROPERTIES, *directories, *policy}


def _ignores_system_properties(bean: Element) -> bool:
    mode = bean.get("system-properties-mode") + "".join(
        node.get("value") for node in bean.children("property") if node.get("name").startswith("systemPropertiesMode")
    )
    return mode.endswith("NEVER") or mode == "0"


def _is_placeholder_configurer(bean: Element) -> bool:
    return bean.get("class").endswith(("PlaceholderConfigurer", "PlaceholderConfigurer3"))


def _property_sources(document: Document, configurers: Sequence[Element]) -> list[Element]:
    """Return the placeholder configurers, and the elements to which they refer for their properties."""
    source_ids = {bean.get("properties-ref") for bean in configurers}
    source_ids |= {
        reference.get(name)
        for bean in configurers
        for reference in bean.descendants("property", "ref")
        for name in ("ref", "bean")
    }
    return [*configurers, *(node for node in document.nodes if node.get("id") and node.get("id") in source_ids)]


def _properties_files(source: Element) -> Iterator[str]:
    """Yield the properties files that a configurer names, as paths below the directory of activemq.xml."""
    texts = [source.get("location")]
    for node in source.children("property"):
        if node.get("name") in ("location", "locations"):
            texts += [node.get("value"), *(value.leading_text for value in node.descendants("value"))]
    return (
        path_relative_to_referring_file(location)
        for text in texts
        for location in re.split(r"[,\n]", text)
        if location.strip()
    )


def _inline_property_names(source: Element) -> Iterator[str]:
    """Yield the property names that a configurer itself defines: <props>, <map>, or the lines of a <value>."""
    for node in source.descendants("prop", "entry"):
        yield node.get("key")
    for node in source.descendants("value"):
        yield from _PROPERTY_KEY.findall(node.leading_text)


def _property_names(data: bytes) -> list[str]:
    return _PROPERTY_KEY.findall(data.decode("utf-8", "replace"))
