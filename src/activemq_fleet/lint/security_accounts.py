"""Rules S about default accounts, in activemq.xml and in the files next to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from activemq_fleet.lint.document import Document, Element, Problem, once_per_document
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.security_console import (
    find_web_console_imports,
    open_constraint_authenticate_properties,
    possible_console_documents,
)
from activemq_fleet.settings.default_credentials import (
    is_default_credential,
    is_guessable_credential,
    is_shipped_credential,
)

_PROPERTIES_LINE = re.compile(r"[ \t]*([^#!\s=:][^\s=:]*)[ \t]*(?:[=:][ \t]*|[ \t])(.*?)[ \t\r]*")
_PLACEHOLDER = re.compile(r"\$\{([^}:]+)\}")
_CREDENTIALS_FILES = ("credentials.properties", "credentials-enc.properties")
# The plain text of the values in credentials-enc.properties, which is the same file in every release.
_SHIPPED_TEXTS = {
    "ENC(mYRkg+4Q4hua1kvpCCI2hg==)": "manager",
    "ENC(Cf3Jf3tM+UrSOoaKU50od5CuBa8rxjoL)": "password",
}
_ACCOUNT_ATTRIBUTES = {
    "authenticationUser": (("username", "password"),),
    "networkConnector": (("userName", "password"), ("remoteUserName", "remotePassword")),
    "masterConnector": (("userName", "password"),),
}
_CONSOLE_ACCOUNT = ("activemq.username", "activemq.password")


class PropertiesLine(NamedTuple):
    """One ``name=value`` line of a properties file next to activemq.xml, such as users.properties.

    It has the position of its name, and its value in clear text.
    """

    file: str
    line: int
    column: int
    name: str
    value: str

    def properties_line_problem(self, message: str, *, used: bool = True) -> Problem:
        """Return a lint problem whose position is the property name in its line of a properties file.

        Its severity is info for a line that is not ``used``, else that of the rule.
        """
        return Problem(message, file=self.file, line=self.line, column=self.column, severity=None if used else "info")


def properties_lines(document: Document, file: str) -> list[PropertiesLine]:
    """Return the ``name=value`` lines of a properties file next to activemq.xml.

    The separator may also be ``:`` or a space. The result is [] without the file.
    """
    entries = []
    for number, line in enumerate(document.other_files.get(file, b"").decode(errors="replace").split("\n"), 1):
        match = _PROPERTIES_LINE.fullmatch(line)
        if match:
            entries.append(
                PropertiesLine(file, number, match.start(1) + 1, match[1], _SHIPPED_TEXTS.get(match[2], match[2]))
            )
    return entries


@rule("S004", "error")
def account_with_a_default_password(document: Document) -> Iterator[Problem]:
    """An account has a default password of ActiveMQ or of another product.

    Why: attackers try admin/admin, user/user, system/manager and guest/password first, and these accounts open the
        console, Jolokia or the broker itself.
    Fix: set new passwords, and remove unused accounts.
    Cannot see: files outside the directory of activemq.xml. For an account that this configuration does not use, the
        finding is an info.
    Source: the shipped files of the release tags, 5.3.2 to 6.3.1

    Fires on 5.18.3, as jetty-realm.properties::

        admin: admin, admin

    Fires on 5.18.3::

        <simpleAuthenticationPlugin>
          <users><authenticationUser username="system" password="manager" groups="users,admins"/></users>
        </simpleAuthenticationPlugin>

    Fires on 6.1.8, as users.properties::

        admin=admin

    Silent on 5.18.3, as jetty-realm.properties::

        admin: correct-horse-battery, admin

    Silent on 5.18.3::

        <simpleAuthenticationPlugin>
          <users><authenticationUser username="system" password="${system.password}" groups="users,admins"/></users>
        </simpleAuthenticationPlugin>
    """
    for account in configured_accounts(document):
        if is_default_credential(account.username, account.password):
            shipped = is_shipped_credential(account.username, account.password)
            yield account.clear_text_password_problem(
                "ActiveMQ's default password" if shipped else "a well-known default password"
            )


@rule("S050", "warning")
def account_with_a_guessable_password(document: Document) -> Iterator[Problem]:
    """An account has an easily guessed password.

    Why: attackers try the name of the account, a few digits, and the passwords of tutorials first. The broker neither
        delays nor locks an account after failed attempts.
    Fix: set a long random password, and keep it in a properties file that only the broker can read.
    Cannot see: passwords that a placeholder or an encrypted value hides. `check -i` also checks the values of the
        inventory's password variables, except those that Ansible Vault cannot decrypt. S004 reports default passwords
        in files, and S019 the passwords of key stores.
    Source: accounts in files of public repositories; the documentation of MCollective

    Fires on 5.18.3::

        <simpleAuthenticationPlugin>
          <users><authenticationUser username="bob" password="bob" groups="users"/></users>
        </simpleAuthenticationPlugin>

    Fires on 5.18.3::

        <simpleAuthenticationPlugin>
          <users><authenticationUser username="mcollective" password="marionette" groups="mcollective"/></users>
        </simpleAuthenticationPlugin>

    Silent on 5.18.3::

        <simpleAuthenticationPlugin>
          <users><authenticationUser username="bob" password="${bob.password}" groups="users"/></users>
        </simpleAuthenticationPlugin>
    """
    for account in configured_accounts(document):
        user, password = account.username, account.password
        if is_guessable_credential(user, password) and not is_default_credential(user, password):
            yield account.clear_text_password_problem("an easily guessed password")


class ClearTextAccount(NamedTuple):
    """An account with a password in clear text, in activemq.xml or in a file of its directory.

    ``subject`` names the account in a message, and ``note`` follows the words about its password. ``used`` is False
    where nothing here uses the account. The position is ``entry``, or ``attribute`` of ``node``.
    """

    username: str
    password: str
    subject: str
    note: str = ""
    used: bool = True
    entry: PropertiesLine | None = None
    node: Element | None = None
    attribute: str = ""

    def clear_text_password_problem(self, password_description: str) -> Problem:
        """Return the lint problem that reports the clear-text password of an account.

        An example of ``password_description`` is ``a well-known default password``.
        """
        message = f"{self.subject} has {password_description}{self.note}"
        if self.entry is not None:
            return self.entry.properties_line_problem(message, used=self.used)
        return Problem(message, node=self.node, attribute=self.attribute)


@once_per_document
def configured_accounts(document: Document) -> Iterator[ClearTextAccount]:
    """Yield the accounts that activemq.xml and the files of its directory configure.

    They are those of the broker, its links and its console.
    """
    yield from _broker_accounts(document)
    if document.other_files:
        yield from _console_accounts(document)
        yield from _jaas_accounts(document)
        yield from _jmx_accounts(document)


def is_weak_account(element: Element, password_attribute: str) -> bool:
    """Return whether an account in activemq.xml has a weak (default or guessable) password.

    ``element`` is the XML element of the account, and ``password_attribute`` is the attribute with its password. Rules
    S004 (default) and S050 (guessable) report such accounts.
    """
    for user_attribute, attribute in _ACCOUNT_ATTRIBUTES.get(element.name, ()):
        if attribute == password_attribute:
            user, password = element.get(user_attribute), element.get(attribute)
            return is_default_credential(user, password) or is_guessable_credential(user, password)
    return False


def _broker_accounts(document: Document) -> Iterator[ClearTextAccount]:
    """Yield the accounts in activemq.xml, including those from the credentials files that it loads."""
    properties = {
        entry.name: entry
        for file in _CREDENTIALS_FILES
        if file in document.other_files and _refers_to_file(document, file)
        for entry in properties_lines(document, file)
    }
    used = set()
    for node in document.elements_with_tag_name(*_ACCOUNT_ATTRIBUTES):
        for user_attribute, password_attribute in _ACCOUNT_ATTRIBUTES[node.name]:
            if not node.has_attribute(password_attribute):
                continue
            user, _ = _resolve_reference(node, user_attribute, properties)
            password, entry = _resolve_reference(node, password_attribute, properties)
            owner = "the broker" if node.name == "authenticationUser" else f"{node.name} {node.get('name')}".strip()
            subject, note = f"the account {user} of {owner}", f" (property {entry.name})" if entry else ""
            used.add(entry)
            yield ClearTextAccount(user, password, subject, note, entry=entry, node=node, attribute=password_attribute)
    username_entry, password_entry = (properties.get(key) for key in _CONSOLE_ACCOUNT)
    if username_entry and password_entry and password_entry not in used and find_web_console_imports(document):
        name, password = username_entry.value, password_entry.value
        subject = f"the account {name}, which the web console uses to connect to the broker,"
        yield ClearTextAccount(name, password, subject, used=False, entry=password_entry)


def _resolve_reference(
    node: Element, attribute: str, properties: dict[str, PropertiesLine]
) -> tuple[str, PropertiesLine | None]:
    """Return the value of an XML attribute, with its placeholder resolved from properties files.

    The properties line that the value comes from is also returned, or None.
    """
    text = node.get(attribute)
    match = _PLACEHOLDER.fullmatch(text.strip())
    entry = properties.get(match[1]) if match else None
    return (entry.value, entry) if entry else (text, None)


def _console_accounts(document: Document) -> Iterator[ClearTextAccount]:
    if not find_web_console_imports(document):
        return
    console_documents = [
        console_document for console_document in possible_console_documents(document) if console_document.file
    ]
    uses_realm = any(b"jetty-realm.properties" in console_document.data for console_document in console_documents)
    if not (uses_realm if console_documents else document.release.console_accounts == "realm"):
        return
    login_is_required = not any(map(open_constraint_authenticate_properties, console_documents))
    note = "" if login_is_required else " (without effect until the console requires authentication)"
    for entry in properties_lines(document, "jetty-realm.properties"):
        password = entry.value.partition(",")[0].strip()
        subject = f"the console's account {entry.name}"
        yield ClearTextAccount(entry.name, password, subject, note, login_is_required, entry)


def _jaas_accounts(document: Document) -> Iterator[ClearTextAccount]:
    """Yield the accounts of users.properties if the broker or its console authenticates by JAAS.

    The console does so from 6.0 on.
    """
    is_used_by_broker = bool(
        document.elements_with_tag_name("jaasAuthenticationPlugin", "jaasDualAuthenticationPlugin")
    )
    is_used_by_console = document.release.console_accounts == "jaas" and bool(find_web_console_imports(document))
    login = document.other_files.get("login.config")
    if not (is_used_by_broker or is_used_by_console) or (login is not None and b"users.properties" not in login):
        return
    users_text = " and ".join(
        name for name, is_user in (("the broker", is_used_by_broker), ("the console", is_used_by_console)) if is_user
    )
    for entry in properties_lines(document, "users.properties"):
        yield ClearTextAccount(entry.name, entry.value, f"the account {entry.name} of {users_text}", entry=entry)


def _jmx_accounts(document: Document) -> Iterator[ClearTextAccount]:
    used = _refers_to_file(document, "jmx.password")
    note = "" if used else " (without effect until ACTIVEMQ_SUNJMX_START enables JMX)"
    for entry in properties_lines(document, "jmx.password"):
        yield ClearTextAccount(entry.name, entry.value, f"the JMX account {entry.name}", note, used, entry)


def _refers_to_file(document: Document, file: str) -> bool:
    """Return whether an attribute or text of activemq.xml ends in a given file name.

    Comments do not count.
    """
    if not document.contains_text(file):
        return False
    ending = re.compile(rf"(?:^|[/:]){re.escape(file)}$")
    return any(
        ending.search(text.strip())
        for node in document.elements_with_tag_name("value", "property", "entry", "property-placeholder")
        for text in (node.leading_text, node.get("value"), node.get("location"))
    )
