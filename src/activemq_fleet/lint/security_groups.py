"""Rules S about the groups of authorization entries, by the accounts that the file and the files next to it define."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.network_demand import covers
from activemq_fleet.lint.security import ADMITS_ANYONE, plugins_of
from activemq_fleet.lint.security_accounts import properties_entries
from activemq_fleet.node.config.probe_account import PROBE_USER

_RIGHTS = ("read", "write", "admin")
_GROUP_CLASS = "org.apache.activemq.jaas.GroupPrincipal"
_DEFAULT_ANONYMOUS_GROUP = "anonymous"
_EVERYONE = "*"
_HAS_EVERYONE = "5.9.0"
"""The release from which "*" is each group."""
_CONNECTIONS = "ActiveMQ.Advisory.Connection"
"""The topic that the broker sends to, in the name of the client, when a client connects."""
_LOGIN_MODULE = re.compile(rb"^[ \t]*([\w.$]+LoginModule)\b", re.MULTILINE)
_PROPERTIES_LOGIN = b"org.apache.activemq.jaas.PropertiesLoginModule"
_GROUPS_FILE = "groups.properties"


@rule("S031", "warning")
def group_without_account(document: Document) -> Iterator[Problem]:
    """An authorization entry gives rights to a group that no account has.

    Why: rights belong to groups, and no client gets the rights of such a group. A group that accounts have with another
        name ("admin" for "admins") has no rights. "all" and "everyone" are names like others: "*" stands for each
        group, from 5.9 on.
    Fix: write a group that accounts have, or give the group to an account. Write * for every account.
    Cannot see: groups that another login (LDAP, a plugin of your own) gives. The rule is silent then, and for JAAS it
        reads groups.properties next to the file.
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
    for rights, known in _maps_with_known_groups(document):
        reported: set[str] = set()
        for entry in rights.all("authorizationEntry", "tempDestinationAuthorizationEntry"):
            if not _uses_group_names(rights, entry):
                continue
            for right in _RIGHTS:
                for group in _names_in(entry.known_value(right)):
                    if group not in reported and not _is_held(group, known, document):
                        reported.add(group)
                        text = f"group {group} has the {right} right on {_subject_of(entry)}, and no account is in it"
                        yield entry.problem(text, right, group)


@rule("S032", "error")
def no_account_may_connect(document: Document) -> Iterator[Problem]:
    """No account has the admin right on the advisory topics, so that the broker rejects each client.

    Why: the broker sends an advisory for each client that connects, in the name of the client. If the client may not
        create the topic, the broker rejects the connection: "not authorized to create:
        topic://ActiveMQ.Advisory.Connection".
    Fix: write <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="*" write="*" admin="*"/>, before 5.9 with the
        groups of all accounts.
    Cannot see: groups that another login (LDAP, a plugin of your own) gives. The rule is silent then, and for JAAS it
        reads groups.properties next to the file.
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
    if any(broker.flag("advisorySupport", default=True) is not True for broker in document.brokers):
        return
    for rights, known in _maps_with_known_groups(document):
        entries = _entries_for_connections(rights)
        if entries is None or any(_may_grant_admin(entry, known) for entry in entries):
            continue
        groups = sorted({group for entry in entries for group in _names_in(entry.get("admin"))})
        if groups:
            text = f"only group {' or '.join(groups)} may create ActiveMQ.Advisory topics, and no account is in it"
        else:
            text = "no group has the admin right on the ActiveMQ.Advisory topics"
        place = entries[0] if entries else rights
        yield place.problem(f"{text}: the broker rejects each client", "admin")


def _maps_with_known_groups(document: Document) -> Iterator[tuple[Element, frozenset[str]]]:
    """Yield (authorizationMap, groups of all accounts); nothing where a login may give further groups."""
    known = _groups_of_accounts(document)
    if known is not None:
        yield from ((rights, known) for rights in document.all("authorizationMap"))


def _groups_of_accounts(document: Document) -> frozenset[str] | None:
    """Return the groups that accounts have; None where they are not known."""
    groups: set[str] = set()
    logins = 0
    for broker in document.brokers:
        if broker.has("plugins"):
            return None
        for plugin in plugins_of(broker):
            if plugin.name in ADMITS_ANYONE:
                continue
            names = _groups_of_plugin(plugin)
            if names is None:
                return None
            logins += 1
            groups |= names
    return frozenset(groups) if logins else None


def _groups_of_plugin(plugin: Element) -> set[str] | None:
    if plugin.name == "simpleAuthenticationPlugin":
        return _groups_of_simple_login(plugin)
    if plugin.name == "jaasAuthenticationPlugin":
        return _groups_of_properties_login(plugin.document)
    return None


def _groups_of_simple_login(plugin: Element) -> set[str] | None:
    holder = plugin.child("users")
    if holder is None or plugin.has("users") or plugin.has("userGroups") or plugin.child("userGroups"):
        return None
    groups: set[str] = set()
    admits_anonymous = plugin.flag("anonymousAccessAllowed", default=False) is not False
    if not admits_anonymous and all(account.get("username") == PROBE_USER for account in holder.children()):
        return None  # No client has an account: another mistake, of which T016 is about rendered files.
    for account in holder.children():
        if account.name != "authenticationUser" or account.is_unknown("groups"):
            return None
        groups |= _names_in(account.known_value("groups"))
    if admits_anonymous:
        if plugin.is_unknown("anonymousGroup"):
            return None
        groups.add(plugin.get("anonymousGroup", _DEFAULT_ANONYMOUS_GROUP))
    return groups


def _groups_of_properties_login(document: Document) -> set[str] | None:
    """Return the groups of groups.properties next to the file; None where another login module may give groups."""
    modules = set(_LOGIN_MODULE.findall(document.other_files.get("login.config", b"")))
    if _GROUPS_FILE not in document.other_files or modules - {_PROPERTIES_LOGIN}:
        return None
    return {entry.name for entry in properties_entries(document, _GROUPS_FILE) if entry.value}


def _names_in(text: str | None) -> set[str]:
    return {name.strip() for name in (text or "").split(",") if name.strip()}


def _uses_group_names(*nodes: Element) -> bool:
    """Return whether entries name groups, and not principals of another class."""
    return all(node.get("groupClass", _GROUP_CLASS) == _GROUP_CLASS for node in nodes)


def _is_held(group: str, known: Iterable[str], document: Document) -> bool:
    return group in known or (group == _EVERYONE and document.release.within(_HAS_EVERYONE))


def _subject_of(entry: Element) -> str:
    if entry.name == "tempDestinationAuthorizationEntry":
        return "temporary destinations"
    for kind in ("queue", "topic"):
        if entry.has(kind):
            return f"{kind} {entry.get(kind)}"
    return "destinations"


def _entries_for_connections(rights: Element) -> list[Element] | None:
    """Return the entries that count for the topic of connections; None where something else may be one."""
    if rights.has("authorizationEntries") or rights.has("defaultEntry") or rights.has("entries"):
        return None
    holders = rights.children("authorizationEntries", "entries", "defaultEntry")
    entries: list[Element] = []
    for entry in (inside for holder in holders for inside in holder.children()):
        is_default = entry.parent is not None and entry.parent.name == "defaultEntry"
        if entry.name != "authorizationEntry" or entry.has("destination") or not _uses_group_names(rights, entry):
            return None
        if entry.is_unknown("topic"):
            return None
        if is_default or covers(entry.get("topic"), _CONNECTIONS):
            entries.append(entry)
    return entries


def _may_grant_admin(entry: Element, known: frozenset[str]) -> bool:
    if entry.is_unknown("admin"):
        return True
    return any(_is_held(group, known, entry.document) for group in _names_in(entry.get("admin")))
