"""Rules S about access: authorization, and JMX without authentication."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import XML_FRAGMENTS, rule, variable_to_change
from activemq_fleet.lint.security_authentication import (
    AUTHENTICATION,
    has_authentication,
    non_vm_connectors_and_uris,
    plugin_elements_of,
)


@rule("S015", "warning", each="broker")
def authentication_without_authorization(broker: Element) -> Iterator[Problem]:
    """The broker requires authentication but has no authorization plugin: every account has full access.

    Why: every account, also that of the least important client, can read, write and remove every queue and topic, so
        one leaked password exposes all of them.
    Fix: add an authorizationPlugin with the rights of each group to <plugins>. In a fleet, set activemq_acl.
    Cannot see: a custom plugin, configured as a bean, that may authorize clients. In a fleet the severity is only info
        for this reason.
    Source: AuthorizationBroker of the release tags

    Fires on 5.18.3::

        <simpleAuthenticationPlugin>
          <users><authenticationUser username="app" password="${app.password}" groups="apps"/></users>
        </simpleAuthenticationPlugin>

    Silent on 5.18.3::

        <broker>
          <plugins>
            <jaasAuthenticationPlugin configuration="activemq"/>
            <authorizationPlugin>
              <map>
                <authorizationMap>
                  <authorizationEntries>
                    <authorizationEntry queue="&gt;" read="apps" write="apps" admin="admins"/>
                  </authorizationEntries>
                </authorizationMap>
              </map>
            </authorizationPlugin>
          </plugins>
        </broker>
    """
    if broker.has_attribute("plugins") or not non_vm_connectors_and_uris(broker) or not has_authentication(broker):
        return
    plugins = plugin_elements_of(broker)
    if any(plugin.name in ("authorizationPlugin", "bean", "ref") for plugin in plugins):
        return
    for plugin in plugins:
        if plugin.name in AUTHENTICATION:
            message = "every account has full access: the broker has no authorizationPlugin"
            yield plugin.problem(message, severity="info" if broker.document.broker else None)


@rule("S017", "warning", each="managementContext")
def create_connector_opens_jmx_on_all_interfaces(context: Element) -> Iterator[Problem]:
    """createConnector="true" opens JMX on all interfaces.

    Why: the RMI registry of <managementContext> ignores connectorHost and listens on all interfaces. JMX requires no
        authentication unless the property environment of <managementContext> has an entry jmx.remote.x.password.file.
        Any client that reaches the port can manage the broker, and can run code by loading an MLet (an MBean from a
        remote address).
    Fix: set createConnector="false", and use Jolokia or the JVM's own JMX agent with a password file and TLS.
    Cannot see: a firewall, and a <managementContext> without createConnector, whose default is true up to 5.14.
    Source: ManagementContext of the release tags; jmx.remote.x.password.file of JMX

    Fires on 5.18.3::

        <broker>
          <managementContext><managementContext createConnector="true" connectorPort="1099"/></managementContext>
        </broker>

    Silent on 5.18.3::

        <broker>
          <managementContext><managementContext createConnector="false"/></managementContext>
        </broker>
    """
    if context.boolean_attribute("createConnector", False) and not _requires_authentication(context):
        message = (
            f"JMX listens on port {context.get('connectorPort') or '1099'} of all interfaces and requires no "
            "authentication"
        )
        fix = ""
        if context.document.broker is not None and variable_to_change(context, "createConnector") != XML_FRAGMENTS:
            fix = "add users to activemq_jmx, so that JMX requires a password. Or remove activemq_jmx, and use Jolokia"
        yield context.problem(message, "createConnector", fix=fix)


def _requires_authentication(context: Element) -> bool:
    names = (node.get("key") or node.get("name") for node in context.descendants("entry", "prop"))
    return context.has_attribute("environment") or any(
        name.endswith(("password.file", "login.config")) for name in names
    )


@rule("S030", "warning", each="cachedLDAPAuthorizationMap", releases="5.6.0")
def start_needs_the_ldap_server(authorization_map: Element) -> Iterator[Problem]:
    """The broker does not start while the LDAP server of its cachedLDAPAuthorizationMap does not answer.

    Why: cachedLDAPAuthorizationMap reads all entries when the broker creates it, and the broker does not start if it
        cannot connect. While the LDAP server is down, a standby therefore cannot take over. Without a connection
        timeout, the start blocks.
    Fix: write several servers into connectionURL, separated by spaces (connectionURL="ldap://a:389 ldap://b:389"), and
        let systemd restart the service (Restart=always). Or use authorizationMap, which requires no LDAP server.
    Source: SimpleCachedLDAPAuthorizationMap.afterPropertiesSet of the release tags, AMQ-9627; measured on 5.18.3 and
        6.3.1

    Fires on 5.18.3::

        <authorizationPlugin><map>
          <cachedLDAPAuthorizationMap connectionURL="ldap://ldap.example.com:389"/>
        </map></authorizationPlugin>

    Silent on 5.18.3::

        <authorizationPlugin><map>
          <cachedLDAPAuthorizationMap connectionURL="ldap://ldap1.example.com:389 ldap://ldap2.example.com:389"/>
        </map></authorizationPlugin>
    """
    address = authorization_map.literal_value("connectionURL")
    if authorization_map.has_attribute("connectionURL") and (address is None or len(address.split()) > 1):
        return
    server = f"the LDAP server {address}" if address else "the LDAP server of this map"
    text = f"the broker does not start while {server} does not answer"
    yield authorization_map.problem(text, "connectionURL")
