"""Rules S about the web console and Jolokia, by the files next to activemq.xml."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from activemq_fleet.addresses import is_wildcard_bind_address
from activemq_fleet.lint.document import Document, Element, Problem, once_per_document
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.imports import import_elements_with_paths

# Classes of Jetty's HTTP connectors, 6.1 to 12, without their packages.
_CONNECTOR_CLASSES = frozenset({
    "BlockingChannelConnector",
    "SelectChannelConnector",
    "ServerConnector",
    "SocketConnector",
    "SslSelectChannelConnector",
    "SslSocketConnector",
})  # fmt: skip
_PROTECTING_PATHS = {
    "/admin": ("/", "/*", "/admin/*", "*.jsp"),
    "/api": ("/", "/*", "/api/*", "/api/jolokia/*"),
}


class BeanProperty(NamedTuple):
    """A property of a Spring bean in an XML file.

    Its value is in an attribute of ``node``, or (attribute "") in the text of ``node``.
    """

    node: Element
    attribute: str

    @property
    def bean_property_value(self) -> str:
        """The value of a Spring bean's property, without white space around it."""
        return (self.node.get(self.attribute) if self.attribute else self.node.leading_text).strip()

    def bean_property_problem(self, message: str, *, fix: str = "") -> Problem:
        """Return a lint problem at the value of a Spring bean's property."""
        return self.node.problem(message, self.attribute, fix=fix)


def _unqualified_class_name(bean: Element) -> str:
    """Return the class name of a Spring bean without its package and outer class."""
    return bean.get("class").rpartition(".")[2].rpartition("$")[2]


def _beans_of_classes(console_xml: Document, *classes: str) -> list[Element]:
    """Return the Spring beans of an XML file whose class, without its package, is one of the given classes."""
    return [bean for bean in console_xml.elements_with_tag_name("bean") if _unqualified_class_name(bean) in classes]


@once_per_document
def find_web_console_imports(document: Document) -> list[tuple[Element, str]]:
    """Return the ``<import>`` elements of an XML file that import the web console's file, each with the imported path.

    A file with another name is a console's if it is next to the XML file and has a connector of Jetty, or if its name
    has "jetty" in it.
    """
    return [
        (node, name)
        for node, name in import_elements_with_paths(document)
        if "jetty" in name.rpartition("/")[2] or _has_console(document, name)
    ]


def _has_console(document: Document, name: str) -> bool:
    console_xml = document.parsed_sibling_file(name)
    return console_xml is not None and bool(_beans_of_classes(console_xml, *_CONNECTOR_CLASSES, "WebConsolePort"))


@once_per_document
def possible_console_documents(document: Document) -> Iterator[Document]:
    """Yield the parsed XML files that may define the web console's beans: imported files, then activemq.xml itself.

    ``find_web_console_imports`` determines which imports are those of the console. A file that is absent or not XML
    is omitted.
    """
    for _, name in find_web_console_imports(document):
        if console_xml := document.parsed_sibling_file(name):
            yield console_xml
    yield document


def _property_of(bean: Element, name: str) -> BeanProperty | None:
    """Return the property of a Spring bean with the given name, or None."""
    for bean_property in bean.children("property"):
        if bean_property.get("name") == name:
            value = bean_property.first_child("value")
            return BeanProperty(bean_property, "value") if value is None else BeanProperty(value, "")
    return None


def properties_of(console_xml: Document, bean_class: str, name: str) -> list[BeanProperty]:
    """Return the properties with the given name of all Spring beans of one class in an XML file."""
    return [
        bean_property
        for bean in _beans_of_classes(console_xml, bean_class)
        if (bean_property := _property_of(bean, name))
    ]


def open_constraint_authenticate_properties(console_xml: Document) -> list[BeanProperty]:
    """Return the property ``authenticate`` of each Jetty security constraint that is open (requires no login)."""
    return [
        authenticate
        for authenticate in properties_of(console_xml, "Constraint", "authenticate")
        if authenticate.bean_property_value.lower() == "false"
    ]


@rule("S005", "error")
def console_without_login(document: Document) -> Iterator[Problem]:
    """The web console, or the API with Jolokia and REST, requires no authentication.

    Why: any client that can reach the port can read and remove messages, and can run code through Jolokia in the
        releases that permit it.
    Fix: in jetty.xml (jetty-spring.xml from 6.3 on), set the property pathSpec of the ConstraintMapping bean to "/",
        which covers all pages. Set the property authenticate of its Constraint bean to true. The jetty.xml of 6.0.0 to
        6.1.1 protects only *.jsp (CVE-2024-32114): upgrade to 6.1.2 or later, and use the jetty.xml of that release.
    Cannot see: a proxy in front of the console that authenticates users.
    Source: CVE-2024-32114; jetty.xml of the release tags, in which authenticate is false up to 5.7

    Fires on 6.0.1, as jetty.xml::

        <beans xmlns="http://www.springframework.org/schema/beans">
          <bean id="login" class="org.eclipse.jetty.util.security.Constraint">
            <property name="name" value="BASIC"/>
            <property name="authenticate" value="true"/>
          </bean>
          <bean class="org.eclipse.jetty.security.ConstraintMapping">
            <property name="constraint" ref="login"/>
            <property name="pathSpec" value="*.jsp"/>
          </bean>
          <bean class="org.eclipse.jetty.webapp.WebAppContext">
            <property name="contextPath" value="/api"/>
          </bean>
        </beans>

    Silent on 6.1.2, as jetty.xml::

        <beans xmlns="http://www.springframework.org/schema/beans">
          <bean id="login" class="org.eclipse.jetty.util.security.Constraint">
            <property name="name" value="BASIC"/>
            <property name="authenticate" value="true"/>
          </bean>
          <bean class="org.eclipse.jetty.security.ConstraintMapping">
            <property name="constraint" ref="login"/>
            <property name="pathSpec" value="/"/>
          </bean>
          <bean class="org.eclipse.jetty.webapp.WebAppContext">
            <property name="contextPath" value="/api"/>
          </bean>
        </beans>
    """
    for console_xml in possible_console_documents(document):
        contexts = [
            path
            for path in properties_of(console_xml, "WebAppContext", "contextPath")
            if path.bean_property_value in _PROTECTING_PATHS
        ]
        if not contexts:
            continue
        open_constraints = open_constraint_authenticate_properties(console_xml)
        for constraint in open_constraints:
            yield constraint.bean_property_problem(
                "the property authenticate of this Constraint bean is false: the pages of the web console require no "
                "authentication",
                fix="set the property authenticate of this Constraint bean to true",
            )
        path_specs = _protected_paths(console_xml)
        if path_specs is None or open_constraints:
            continue
        for context in contexts:
            if not any(path_spec in _PROTECTING_PATHS[context.bean_property_value] for path_spec in path_specs):
                protection = (
                    f"authentication protects only {' and '.join(path_specs)}"
                    if path_specs
                    else "no ConstraintMapping bean protects it"
                )
                message = f"the web application {context.bean_property_value} requires no authentication: {protection}"
                yield context.bean_property_problem(
                    message, fix=_remedy_of_open_paths(console_xml, has_mapping=bool(path_specs))
                )


def _remedy_of_open_paths(console_xml: Document, *, has_mapping: bool) -> str:
    fix = (
        'in this file, set the property pathSpec of a ConstraintMapping bean to "/", which covers all pages. Set the '
        "property authenticate of its Constraint bean to true"
        if has_mapping
        else 'in this file, add a ConstraintMapping bean whose property pathSpec is "/", which covers all pages. Set '
        "its property constraint to a Constraint bean whose property authenticate is true"
    )
    if console_xml.release.is_within_span("6.0.0 !6.1.2"):
        fix += ". Or upgrade to 6.1.2 or later and use its jetty.xml, which protects all pages (CVE-2024-32114)"
    return fix


def _protected_paths(console_xml: Document) -> tuple[str, ...] | None:
    """Return the paths of the web console that require a login.

    The result is None if anything other than Jetty's own constraints may protect them.
    """
    mappings = _beans_of_classes(console_xml, "ConstraintMapping")
    if not mappings and any(
        "ecurity" in _unqualified_class_name(bean) for bean in console_xml.elements_with_tag_name("bean")
    ):
        return None
    has_path_lists = console_xml.release.console_family not in (
        "jetty11",
        "jetty12",
    )  # from Jetty 11 on, each mapping has one path
    paths: list[str] = []
    for mapping in mappings:
        path_spec = _property_of(mapping, "pathSpec")
        if path_spec is None or "${" in path_spec.bean_property_value:
            return None
        paths += (
            [part.strip() for part in path_spec.bean_property_value.split(",")]
            if has_path_lists
            else [path_spec.bean_property_value]
        )
    return tuple(paths)


@rule("S006", "warning")
def console_on_all_interfaces(document: Document) -> Iterator[Problem]:
    """The web console and Jolokia listen on all interfaces.

    Why: a user who can log in to the console has the full access of JMX. Attackers can use several published
        vulnerabilities as soon as they reach the port.
    Fix: set the property host to 127.0.0.1 in the bean jettyPort (up to 5.9 in the bean of Jetty's connector). Connect
        through an SSH tunnel, or a proxy with TLS. In a fleet, set activemq_console_bind.
    Cannot see: -Djetty.host on the command line, which overrides the file, and the files in conf/jetty, which apply
        from 6.3 on. If activemq.xml imports the console's file from another directory, the finding is an info.
    Source: WebConsolePort, jetty.xml of the release tags; SECURITY.md of 6.3.1

    Fires on 5.18.3, as jetty.xml::

        <beans xmlns="http://www.springframework.org/schema/beans">
          <bean id="jettyPort" class="org.apache.activemq.web.WebConsolePort" init-method="start">
            <property name="host" value="0.0.0.0"/>
            <property name="port" value="8161"/>
          </bean>
          <bean id="Connector" class="org.eclipse.jetty.server.ServerConnector">
            <property name="host" value="#{systemProperties['jetty.host']}"/>
          </bean>
        </beans>

    Fires on 5.5.1, as jetty.xml::

        <beans xmlns="http://www.springframework.org/schema/beans">
          <bean id="Connector" class="org.eclipse.jetty.server.nio.SelectChannelConnector">
            <property name="port" value="8161"/>
          </bean>
        </beans>

    Silent on 5.18.3, as jetty.xml::

        <beans xmlns="http://www.springframework.org/schema/beans">
          <bean id="jettyPort" class="org.apache.activemq.web.WebConsolePort" init-method="start">
            <property name="host" value="127.0.0.1"/>
            <property name="port" value="8161"/>
          </bean>
          <bean id="Connector" class="org.eclipse.jetty.server.ServerConnector">
            <property name="host" value="#{systemProperties['jetty.host']}"/>
          </bean>
        </beans>
    """
    for node, name in find_web_console_imports(document):
        if document.broker is not None:
            bind = document.broker.settings.console_bind
            if is_wildcard_bind_address(bind):
                message = f"activemq_console_bind is {bind}: the console listens on all interfaces"
                fix = (
                    "set activemq_console_bind to 127.0.0.1 and use an SSH tunnel, or a proxy with TLS, to reach the "
                    "console"
                )
                yield node.problem(message, "resource", fix=fix)
        elif name not in document.other_files:
            message = f"{name} is not next to this file: the console's address and authentication were not checked"
            fix = (
                f"put {name} into the directory of this file and check again, or make sure in {name} that the console "
                "binds 127.0.0.1 and requires authentication"
            )
            yield node.problem(message, "resource", name, severity="info", fix=fix)
    for console_xml in possible_console_documents(document):
        if not _beans_of_classes(
            console_xml, "InetAccessHandler"
        ):  # this handler accepts only the addresses that the file lists
            yield from dict.fromkeys(_all_interfaces_problems(console_xml))


def _all_interfaces_problems(console_xml: Document) -> Iterator[Problem]:
    for bean in _beans_of_classes(console_xml, *_CONNECTOR_CLASSES):
        host = _property_of(bean, "host")
        if host and "jetty.host" in host.bean_property_value:
            for port in _beans_of_classes(console_xml, "WebConsolePort"):
                yield from _wildcard_host_problems(port, "the bean jettyPort")
        elif host or not any(name.endswith("}host") for name in bean.attributes):
            yield from _wildcard_host_problems(bean, "the connector bean")


def _wildcard_host_problems(bean: Element, bean_text: str) -> Iterator[Problem]:
    """Yield a problem for a connector or port of the web console that listens on all interfaces.

    Its property ``host`` is missing or is the wildcard.
    """
    host = _property_of(bean, "host")
    if host is None:
        yield bean.problem(f"the web console listens on all interfaces: {bean_text} has no property host")
    elif is_wildcard_bind_address(host.bean_property_value):
        yield host.bean_property_problem(f"the web console listens on all interfaces ({host.bean_property_value})")


@rule("S012", "error", releases="5.3.0 !5.14.0")
def console_serves_fileserver(document: Document) -> Iterator[Problem]:
    """The console serves the web application fileserver.

    Why: the fileserver accepts files by PUT and moves them by MOVE to any directory that the broker can write to. Every
        user, by default admin with the password admin, can therefore run code (CVE-2016-3088).
    Fix: remove the WebAppContext of /fileserver from jetty.xml, and webapps/fileserver from the disk.
    Source: CVE-2016-3088; jetty.xml of the release tags

    Fires on 5.11.4, as jetty.xml::

        <beans xmlns="http://www.springframework.org/schema/beans">
          <bean class="org.eclipse.jetty.webapp.WebAppContext">
            <property name="contextPath" value="/fileserver"/>
            <property name="resourceBase" value="${activemq.home}/webapps/fileserver"/>
          </bean>
        </beans>

    Silent on 5.11.4, as jetty.xml::

        <beans xmlns="http://www.springframework.org/schema/beans">
          <bean class="org.eclipse.jetty.webapp.WebAppContext">
            <property name="contextPath" value="/admin"/>
            <property name="resourceBase" value="${activemq.home}/webapps/admin"/>
          </bean>
        </beans>
    """
    for console_xml in possible_console_documents(document):
        for path in properties_of(console_xml, "WebAppContext", "contextPath"):
            if path.bean_property_value == "/fileserver":
                yield path.bean_property_problem(
                    "the web application /fileserver permits clients to write files to any directory that the "
                    "broker can write to"
                )
