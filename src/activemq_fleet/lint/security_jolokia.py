"""Rules S about the operations that Jolokia permits."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.security_console import find_web_console_imports

_POLICY_FILE = "jolokia-access.xml"
_ADDING_OPERATIONS = ("addConnector", "addNetworkConnector")
# From these releases on, the broker rejects such a connector regardless of the policy.
_RESTRICTS_SCHEMES = "5.19.8 6.2.7"


@rule("S007", "warning", releases="5.17.1 6.0.0")
def jolokia_permits_adding_connectors(document: Document) -> Iterator[Problem]:
    """Jolokia permits its users to add connectors and links to the broker.

    Why: up to 5.19.3 and 6.2.2 the URI of an added connector or link can load a remote file and run code
        (CVE-2026-34197). In later releases a user can still open ports and forward messages. The shipped policies,
        including those of 5.19.10 and 6.2.9, permit addConnector: their <allow> has <operation>*</operation>. If
        <commands> does not list exec, Jolokia ignores the operations in <deny>. The shipped jetty.xml permits every
        authenticated user to use Jolokia. From 5.19.7 and 6.2.6 on, it permits only the role of administrators.
    Fix: if <commands> of jolokia-access.xml does not list exec, replace <operation>*</operation> in <allow> with the
        names of the operations that users need, such as browse*. If <commands> lists exec or does not exist, add
        addConnector and addNetworkConnector to <deny>.
    Cannot see: the policy of releases up to 5.17.0, webapps/api/WEB-INF/classes/jolokia-access.xml. Change it manually
        in the same way.
    Source: CVE-2026-34197; measured with Jolokia 1.7.1, 1.7.2 and 2.6.0

    Fires on 5.18.3, as jolokia-access.xml::

        <restrict>
          <commands><command>read</command></commands>
          <allow><mbean><name>org.apache.activemq:*</name><attribute>*</attribute><operation>*</operation></mbean></allow>
        </restrict>

    Silent on 5.18.3, as jolokia-access.xml::

        <restrict>
          <commands><command>read</command></commands>
          <allow>
            <mbean><name>org.apache.activemq:*</name><attribute>*</attribute><operation>browse*</operation></mbean>
          </allow>
        </restrict>
    """
    policy = _jolokia_policy(document)
    if policy is None:
        return
    permitting_elements = {
        name: element for name in _ADDING_OPERATIONS if (element := _permitting_element(policy.root, name))
    }
    if permitting_elements:
        element = next(iter(permitting_elements.values()))
        yield element.problem(
            f"{_POLICY_FILE} permits each user of Jolokia to call {' and '.join(permitting_elements)}: such a user can "
            "open ports and forward messages",
            fix=_remedy_of_permission(element, tuple(permitting_elements)),
        )


@rule("S011", "info", releases=_RESTRICTS_SCHEMES)
def jolokia_may_add_links_that_release_rejects(document: Document) -> Iterator[Problem]:
    """Jolokia's policy permits addNetworkConnector, which the release rejects for most URI schemes.

    Why: from 5.19.8 and 6.2.7 on, the JMX operation addNetworkConnector rejects masterslave:, multicast:, failover:,
        discovery:, fanout:, vm:, http: and other schemes. Scripts that add a link to a pair through JMX or Jolokia
        therefore fail. A networkConnector in activemq.xml can still have these schemes.
    Fix: add links in activemq.xml and restart the broker, or add only plain static:(tcp://…) links through Jolokia. If
        no operator adds links through Jolokia, reject addNetworkConnector in jolokia-access.xml as rule S007 describes.
    Cannot see: whether any operator uses the operation.
    Source: TransportValidationUtils of 5.19.8 and 6.2.7

    Fires on 6.3.1, as jolokia-access.xml::

        <restrict>
          <commands><command>read</command><command>exec</command></commands>
        </restrict>

    Silent on 6.3.1, as jolokia-access.xml::

        <restrict>
          <commands><command>read</command></commands>
        </restrict>
    """
    policy = _jolokia_policy(document)
    element = _permitting_element(policy.root, "addNetworkConnector") if policy else None
    if element is not None:
        yield element.problem(
            f"{_POLICY_FILE} permits addNetworkConnector, but release {document.release} rejects masterslave:, "
            "multicast: and failover: URIs in this operation: calls that add a link to a pair fail"
        )


def _remedy_of_permission(element: Element, operations: tuple[str, ...]) -> str:
    """Return an instruction to reject operations that an element of the policy permits."""
    if element.name == "operation":
        return (
            f"in <allow>, replace <operation>{element.leading_text}</operation> with the names of the operations that "
            f"users need, such as browse*, without {' and '.join(operations)}. An entry in <deny> has no effect here, "
            "because <commands> does not list exec"
        )
    names = "".join(f"<operation>{name}</operation>" for name in operations)
    return f"add <mbean><name>org.apache.activemq:*</name>{names}</mbean> to <deny> of {_POLICY_FILE}"


def _jolokia_policy(document: Document) -> Document | None:
    """Return the Jolokia policy; None if the console is disabled or the file could not be read."""
    policy = document.parsed_sibling_file(_POLICY_FILE) if find_web_console_imports(document) else None
    return policy if policy and policy.root.name == "restrict" else None


def _permitting_element(policy: Element, operation: str) -> Element | None:
    """Return the element by which the policy permits an operation of the broker's MBean; None if it does not.

    The logic is that of Jolokia's MBeanAccessChecker. A kind of request that ``<commands>`` lists is permitted unless
    ``<deny>`` denies it. Any other kind is permitted only if ``<allow>`` lists it, and ``<deny>`` is then ignored.
    """
    commands = policy.first_child("commands")
    if commands is None or any(command.leading_text == "exec" for command in commands.children("command")):
        return None if _matching_operation(policy.first_child("deny"), operation) else commands or policy
    return _matching_operation(policy.first_child("allow"), operation)


def _matching_operation(section: Element | None, operation: str) -> Element | None:
    """Return the section's ``<operation>`` that matches the broker's operation, or None."""
    for mbean in section.children("mbean") if section is not None else ():
        if any(_matches_broker(name.leading_text) for name in mbean.children("name")):
            for permitted in mbean.children("operation"):
                if fnmatchcase(operation, permitted.leading_text):
                    return permitted
    return None


def _matches_broker(pattern: str) -> bool:
    """Return whether a pattern of object names matches the broker's own MBean."""
    domain, _, properties = pattern.partition(":")
    keys = dict.fromkeys(pair.partition("=")[0].strip() for pair in properties.split(","))
    if not fnmatchcase("org.apache.activemq", domain.strip()) or keys.keys() - {"type", "brokerName", "*"}:
        return False
    types = [pair.partition("=")[2].strip() for pair in properties.split(",") if pair.strip().startswith("type=")]
    return all(fnmatchcase("Broker", kind) for kind in types)
