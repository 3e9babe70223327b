"""Rules S about the groups of authorization entries, by the accounts that the file and the files next to it define."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from activemq_fleet.errors import names_to_text
from activemq_fleet.lint.clients_policies import policy_destination_text
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.network_subscriptions import wildcard_covers
from activemq_fleet.lint.security_accounts import properties_lines
from activemq_fleet.lint.security_authentication import ADMITS_ANYONE, plugin_elements_of

_RIGHTS = ("read", "write", "admin")
_GROUP_CLASS = "org.apache.activemq.jaas.GroupPrincipal"
_DEFAULT_ANONYMOUS_GROUP = "anonymous"
_EVERYONE = "*"
_EVERYONE_SINCE = "5.9.0"
"""The first release in which "*" matches every group."""
_CONNECTION_ADVISORY_TOPIC = "ActiveMQ.Advisory.Connection"
"""The topic to which the broker sends a message, in the name of the client, when a client connects."""
_ADVISORY_ENTRY = 'write <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="*" write="*" admin="*"/>'
_LOGIN_MODULE = re.compile(rb"^[ \t]*([\w.$]+LoginModule)\b", re.MULTILINE)
_PROPERTIES_LOGIN = b"org.apache.activemq.jaas.PropertiesLoginModule"
_GROUPS_FILE = "groups.properties"


@rule("S031", "warning", needs="authorizationMap")
def authorized_group_without_account(document: Document) -> Iterator[Problem]:
    """An authorization entry gives rights to a group that contains no account.

    Why: no client gets these rights. A frequent cause is a misspelt name, such as "admin" for "admins". The broker
        treats "all" and "everyone" as ordinary names. From 5.9 on, "*" matches every group.
    Fix: in the read, write or admin attribute of the entry, replace the group with a group that has accounts. Or add an
        account to the group. To give the right to every account, write * from 5.9 on.
    Cannot see: groups of other login modules (LDAP, a custom plugin). If such a module exists, the rule reports
        nothing. For JAAS, the rule reads groups.properties next to the file.
    Source: DefaultAuthorizationMap and SimpleAuthenticationPlugin of the release tags

    Fires on 5.18.3::

        <simpleAuthenticationPlugin>
          <users><authenticationUser username="shop" password="${shop.password}" groups="shops"/></users>
        </simpleAuthenticationPlugin>
        <authorizationPlugin><map><authorizationMap>
          <authorizationEntries>
            <authorizationEntry queue=">" read="shop" write="shop" admin="shop"/>
            <authorizationEntry topic=">" read="*" write="*" admin="*"/>
          </authorizationEntries>
        </authorizationMap></map></authorizationPlugin>

    Silent on 5.18.3::

        <simpleAuthenticationPlugin>
          <users><authenticationUser username="shop" password="${shop.password}" groups="shops"/></users>
        </simpleAuthenticationPlugin>
        <authorizationPlugin><map><authorizationMap>
          <authorizationEntries>
            <authorizationEntry queue=">" read="shops" write="shops" admin="shops"/>
            <authorizationEntry topic=">" read="*" write="*" admin="*"/>
          </authorizationEntries>
        </authorizationMap></map></authorizationPlugin>
    """
    for authorization_map, accounts in _maps_with_known_accounts(document):
        known_groups = frozenset(group for groups in accounts.values() for group in groups)
        reported: set[str] = set()
        for entry in authorization_map.descendants("authorizationEntry", "tempDestinationAuthorizationEntry"):
            if not _uses_group_names(authorization_map, entry):
                continue
            for right in _RIGHTS:
                for group in _split_names(entry.literal_value(right)):
                    if group not in reported and not _is_group_of_account(group, known_groups, document):
                        reported.add(group)
                        if group == _EVERYONE:
                            text = (
                                f"* has the {right} right on {_destination_text(entry)}, but release "
                                f"{document.release} treats it as the name of a group, and no account is in this group"
                            )
                        else:
                            text = (
                                f"group {group} has the {right} right on {_destination_text(entry)}, but no account is "
                                "in this group"
                            )
                        yield entry.problem(text, right, group, fix=_remedy_of_group(document))


@rule("S032", "error", needs="authorizationMap")
def account_without_advisory_admin_right(document: Document) -> Iterator[Problem]:
    """An account has no admin right on the advisory topics: the broker rejects clients with this account.

    Why: the broker sends an advisory for each client that connects, in the name of the client. If the client may not
        create the topic, the broker rejects the connection: "not authorized to create:
        topic://ActiveMQ.Advisory.Connection". If another client has created the topic, the broker accepts the
        connection, and rejects the client's first consumer of each destination.
    Fix: write <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="*" write="*" admin="*"/>. Before 5.9, list the
        groups of all accounts instead of *.
    Cannot see: groups of other login modules (LDAP, a custom plugin). If such a module exists, the rule reports
        nothing. For JAAS, the rule reads groups.properties next to the file. The finding is a warning if other accounts
        have the right.
    Source: AuthorizationBroker and AdvisoryBroker of the release tags; measured on 5.18.3

    Fires on 5.18.3::

        <simpleAuthenticationPlugin>
          <users><authenticationUser username="shop" password="${shop.password}" groups="shops"/></users>
        </simpleAuthenticationPlugin>
        <authorizationPlugin><map><authorizationMap>
          <authorizationEntries>
            <authorizationEntry queue=">" read="shops" write="shops" admin="shops"/>
            <authorizationEntry topic="ActiveMQ.Advisory.>" read="all" write="all" admin="all"/>
          </authorizationEntries>
        </authorizationMap></map></authorizationPlugin>

    Silent on 5.18.3::

        <simpleAuthenticationPlugin>
          <users><authenticationUser username="shop" password="${shop.password}" groups="shops"/></users>
        </simpleAuthenticationPlugin>
        <authorizationPlugin><map><authorizationMap>
          <authorizationEntries>
            <authorizationEntry queue=">" read="shops" write="shops" admin="shops"/>
            <authorizationEntry topic="ActiveMQ.Advisory.>" read="shops" write="shops" admin="shops"/>
          </authorizationEntries>
        </authorizationMap></map></authorizationPlugin>
    """
    if any(broker.boolean_attribute("advisorySupport", default=True) is not True for broker in document.brokers):
        return
    for authorization_map, accounts in _maps_with_known_accounts(document):
        entries = _connection_advisory_entries(authorization_map)
        if entries is None:
            continue
        node = entries[0] if entries else authorization_map
        rejected = [
            name for name, groups in accounts.items() if not any(_may_grant_admin(entry, groups) for entry in entries)
        ]
        if rejected and len(rejected) == len(accounts):
            groups = sorted({group for entry in entries for group in _split_names(entry.get("admin"))})
            if groups == [_EVERYONE]:
                text = (
                    f"the entry of the ActiveMQ.Advisory topics gives the admin right to *, which release "
                    f"{document.release} treats as the name of a group without accounts: the broker rejects each client"
                )
            elif groups:
                text = (
                    f"only the group {' or '.join(groups)} may create ActiveMQ.Advisory topics, but no account is in "
                    "it: the broker rejects each client"
                )
            else:
                text = "no group has the admin right on the ActiveMQ.Advisory topics: the broker rejects each client"
            why = (
                "the broker sends an advisory for each client that connects, in the name of the client. Because the "
                "client may not create the topic of the advisory, the broker rejects the connection: "
                '"not authorized to create: topic://ActiveMQ.Advisory.Connection"'
            )
            yield node.problem(text, "admin", fix=_remedy_of_advisories(document), why=why)
        elif rejected:
            accounts_text = f"{'account' if len(rejected) == 1 else 'accounts'} {names_to_text(rejected)}"
            text = (
                f"the {accounts_text} may not create ActiveMQ.Advisory topics: the broker rejects clients with such "
                "an account until another account has created each topic"
            )
            fix = _remedy_of_advisories(document)
            yield node.problem(text, "admin", severity="warning", fix=fix)


def _maps_with_known_accounts(document: Document) -> Iterator[tuple[Element, Mapping[str, frozenset[str]]]]:
    """Yield (authorizationMap, groups by account), or nothing if a plugin may add further groups."""
    accounts = _groups_by_account(document)
    if accounts is not None:
        yield from (
            (authorization_map, accounts) for authorization_map in document.elements_with_tag_name("authorizationMap")
        )


def _groups_by_account(document: Document) -> Mapping[str, frozenset[str]] | None:
    """Return the groups of each account; None if they are not known."""
    accounts: dict[str, frozenset[str]] = {}
    plugin_count = 0
    for broker in document.brokers:
        if broker.has_attribute("plugins"):
            return None
        for plugin in plugin_elements_of(broker):
            if plugin.name in ADMITS_ANYONE:
                continue
            by_account = _accounts_of_plugin(plugin)
            if by_account is None:
                return None
            plugin_count += 1
            accounts |= by_account
    return accounts if plugin_count else None


def _accounts_of_plugin(plugin: Element) -> dict[str, frozenset[str]] | None:
    if plugin.name == "simpleAuthenticationPlugin":
        return _accounts_of_simple_login(plugin)
    if plugin.name == "jaasAuthenticationPlugin":
        return _accounts_of_properties_login(plugin.document)
    return None


def _accounts_of_simple_login(plugin: Element) -> dict[str, frozenset[str]] | None:
    container = plugin.first_child("users")
    if (
        container is None
        or plugin.has_attribute("users")
        or plugin.has_attribute("userGroups")
        or plugin.first_child("userGroups")
    ):
        return None
    accounts: dict[str, frozenset[str]] = {}
    for number, account in enumerate(container.children(), 1):
        if account.name != "authenticationUser" or account.has_placeholder_value("groups"):
            return None
        accounts[account.get("username") or f"account {number}"] = _split_names(account.literal_value("groups"))
    if plugin.boolean_attribute("anonymousAccessAllowed", default=False) is not False:
        if plugin.has_placeholder_value("anonymousGroup"):
            return None
        group = plugin.get("anonymousGroup", _DEFAULT_ANONYMOUS_GROUP)
        accounts[plugin.get("anonymousUser", _DEFAULT_ANONYMOUS_GROUP)] = frozenset({group})
    return accounts


def _accounts_of_properties_login(document: Document) -> dict[str, frozenset[str]] | None:
    """Return the accounts of groups.properties next to the file; None if another login module may add groups."""
    modules = set(_LOGIN_MODULE.findall(document.other_files.get("login.config", b"")))
    if _GROUPS_FILE not in document.other_files or modules - {_PROPERTIES_LOGIN}:
        return None
    accounts: dict[str, frozenset[str]] = {}
    for entry in properties_lines(document, _GROUPS_FILE):
        for name in _split_names(entry.value):
            accounts[name] = accounts.get(name, frozenset()) | {entry.name}
    return accounts


def _split_names(text: str | None) -> frozenset[str]:
    return frozenset(name.strip() for name in (text or "").split(",") if name.strip())


def _uses_group_names(*nodes: Element) -> bool:
    """Return whether entries list groups, and not principals of another class."""
    return all(node.get("groupClass", _GROUP_CLASS) == _GROUP_CLASS for node in nodes)


def _is_group_of_account(group: str, known_groups: Iterable[str], document: Document) -> bool:
    return group in known_groups or (group == _EVERYONE and document.release.is_within_span(_EVERYONE_SINCE))


def _remedy_of_group(document: Document) -> str:
    has_everyone = document.release.is_within_span(_EVERYONE_SINCE)
    everyone = "write *" if has_everyone else "list the groups of all accounts"
    return (
        "replace this group with a group that has accounts, or add an account to this group. To give the right to all "
        f"accounts, {everyone}"
    )


def _remedy_of_advisories(document: Document) -> str:
    """Return the fix for the rights on the advisory topics in the release."""
    if document.release.is_within_span(_EVERYONE_SINCE):
        return _ADVISORY_ENTRY
    return (
        'write an <authorizationEntry topic="ActiveMQ.Advisory.&gt;"> whose read, write and admin list the groups of '
        "all accounts, separated by commas"
    )


def _destination_text(entry: Element) -> str:
    if entry.name == "tempDestinationAuthorizationEntry":
        return "temporary destinations"
    return policy_destination_text(entry, "destinations")


def _connection_advisory_entries(authorization_map: Element) -> list[Element] | None:
    """Return the entries that apply to the advisory topic of connections; None if the file may set others."""
    if (
        authorization_map.has_attribute("authorizationEntries")
        or authorization_map.has_attribute("defaultEntry")
        or authorization_map.has_attribute("entries")
    ):
        return None
    containers = authorization_map.children("authorizationEntries", "entries", "defaultEntry")
    entries: list[Element] = []
    for entry in (child for container in containers for child in container.children()):
        is_default = entry.parent is not None and entry.parent.name == "defaultEntry"
        if (
            entry.name != "authorizationEntry"
            or entry.has_attribute("destination")
            or not _uses_group_names(authorization_map, entry)
        ):
            return None
        if entry.has_placeholder_value("topic"):
            return None
        if is_default or wildcard_covers(entry.get("topic"), _CONNECTION_ADVISORY_TOPIC):
            entries.append(entry)
    return entries


def _may_grant_admin(entry: Element, groups: frozenset[str]) -> bool:
    if entry.has_placeholder_value("admin"):
        return True
    return any(_is_group_of_account(group, groups, entry.document) for group in _split_names(entry.get("admin")))
