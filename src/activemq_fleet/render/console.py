"""Render the files of the web console: the address on which it listens, and the accounts that may log in.

There is one set of beans for each family of Jetty. The console's webapps ``admin`` and, if the release has it, ``api``
(Jolokia) are served, and no other pages: no demo, no file server, no page without a login. Only the role of the group
``admins`` may use the webapps, because the console shows and moves every message, regardless of the ACLs of queues.
From 5.19.7 and 6.2.6 on the releases themselves require this role.

A standby has no console unless the broker starts asynchronously: beans after ``<broker>`` wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from pydantic import SecretStr

from activemq_fleet.errors import SettingsError
from activemq_fleet.releases import Release
from activemq_fleet.render.broker_paths import paths_of_broker
from activemq_fleet.render.engine import render_template
from activemq_fleet.render.secrets import SecretRenderer
from activemq_fleet.topology import Account, Broker

ADMINS = "admins"
_TEMPLATES = {"jetty6": "jetty6", "jetty7": "jetty7", "jetty8": "jetty7", "jetty9": "jetty9", "jetty11": "jetty9"}
# Jetty moved the class between 7.1 and 7.6; both names were looked up in the jars.
_CONSTRAINT_TO_7_1 = "org.eclipse.jetty.http.security.Constraint"
_CONSTRAINT = "org.eclipse.jetty.util.security.Constraint"
# As the release loads them (6.3.0 and 6.3.1 agree), before the connector and the webapps.
_JETTY12_FILES = (
    "jetty-bytebufferpool.xml",
    "jetty-threadpool.xml",
    "jetty-scheduler.xml",
    "jetty-http-config.xml",
    "jetty.xml",
    "jetty-connection-limit.xml",
    "jetty-network-connection-limit.xml",
    "jetty-security.xml",
    "jetty-min-data-rate.xml",
    "jetty-thread-limit.xml",
    "jetty-size-limit.xml",
    "jetty-dos.xml",
)
_POLICY = "default-src 'none'; script-src 'self'; {}; frame-ancestors 'none'; base-uri 'none'"
_PAGES = _POLICY.format("style-src 'self'; img-src 'self'")
# A browser draws the console's XML views with built-in styles.
_XML_VIEWS = _POLICY.format("style-src 'self' 'unsafe-inline'; img-src 'self' data:")
_GROUPS = ((ADMINS, "admin"), ("users", "user"))
_ENCODED_PREFIXES = ("OBF:", "MD5:", "CRYPT:")
_ADMINS_LOG_IN = "Users of the group admins may log in to the web console."
_NO_USER_LOGS_IN = "No user can log in to the web console: activemq_users has no user in the group admins."
# Only the account of the broker can read these files.
SECRET_FILES = frozenset({"conf/jetty-realm.properties", "conf/users.properties"})


class _AccessRule(NamedTuple):
    """One path of the server and the roles that may use it."""

    id: str
    path: str
    roles: tuple[str, ...]


class _Header(NamedTuple):
    pattern: str
    name: str
    value: str


class _Login(NamedTuple):
    name: str
    password: str
    role: str


def console_files(broker: Broker, secrets: SecretRenderer) -> dict[str, bytes]:
    """Return the configuration files of a broker's web console, by path.

    There are none with ``activemq_console: false``. ``conf/jetty.xml`` to 6.2, ``conf/jetty-spring.xml``,
    ``conf/jetty-spring.properties`` and ``conf/jetty/jetty-security.xml`` from 6.3; with them the accounts,
    ``conf/jetty-realm.properties`` to 5.19 and the JAAS files from 6.0. The directory of the released configuration
    must be next to them from 6.3 on. ``activemq.xml`` imports ``release.console_file`` after ``<broker>`` and holds the
    PropertyPlaceholderConfigurer that resolves ``${activemq.conf}`` here.

    Measured, 401 without and 200 with a login of ``admins``, on the configured port and address, and with links for
    home and conf: the distributions 5.14.5, 5.15.16, 5.16.7, 5.17.6 and 5.18.3 with console and Jolokia; 6.2.7 with the
    console of 6.1.8 (Jetty 11.0). With a page in place of the console, which Maven does not provide: 5.5.1
    (Jetty 7.1), 5.7.0 (7.6), 5.11.4 (8.1), 6.3.1 (12.1) and, without a broker, the beans of 5.3 (6.1). Other releases
    were read, not run. Raises SettingsError for a password that the release's accounts file cannot hold.
    """
    if not broker.settings.console:
        return {}
    if broker.release.console_family == "jetty12":
        server = {
            "conf/jetty-spring.xml": "jetty-spring.xml",
            "conf/jetty-spring.properties": "jetty-spring.properties",
            "conf/jetty/jetty-security.xml": "jetty-security.xml",
        }
    else:
        server = {"conf/jetty.xml": _TEMPLATES[broker.release.console_family] + ".xml"}
    bind, port, temporary = broker.settings.console_bind, broker.ports["console"], paths_of_broker(broker).data
    login_comment = _ADMINS_LOG_IN if broker_account_of_console(broker) else _NO_USER_LOGS_IN
    files = {
        path: _server_file(name, broker.release, bind, port, login_comment, temporary) for path, name in server.items()
    }
    return files | _account_files(broker, secrets)


def broker_account_of_console(broker: Broker) -> Account | None:
    """Return the account with which the web console logs in to the broker, or None.

    It is the first user of group ``admins``. The webapp reads it as ``activemq.username`` and ``activemq.password``
    from credentials.properties, and answers 503 where one of them is missing (measured on 5.18.3;
    webconsole-embedded.xml is alike from 5.3 to 6.3).
    """
    user_names = {user.name for user in broker.settings.users}
    return next((a for a in broker.accounts if a.name in user_names and ADMINS in a.groups), None)


@lru_cache(maxsize=1024)
def _server_file(name: str, release: Release, bind: str, port: int, login_comment: str, temporary: str) -> bytes:
    """Return a file of the console's server; brokers with the same values have the same file."""
    jaas = release.console_accounts == "jaas"
    return render_template(
        f"broker/console/{name}.j2",
        bind=bind,
        port=port,
        who=login_comment,
        jaas=jaas,
        rules=_access_rules(jaas),
        headers=_response_headers(release.console_allows_csp),
        webapps=("admin", "api") if release.jolokia_policy_file else ("admin",),
        constraint_class=_CONSTRAINT_TO_7_1 if release.jetty in ("7.0", "7.1") else _CONSTRAINT,
        files=_JETTY12_FILES,
        temporary=temporary,
    )


def _access_rules(jaas: bool) -> tuple[_AccessRule, ...]:
    """Return the rules of the console's paths. Jetty applies only the longest path that matches, so each has roles."""
    admin, user = ("admins", "users") if jaas else ("admin", "user")
    return (
        _AccessRule("consoleRuleAdmin", "/admin/*", (admin,)),
        _AccessRule("consoleRuleApi", "/api/*", (admin,)),
        _AccessRule("consoleRuleRest", "/*", (admin, user)),
    )


def _response_headers(csp: bool) -> tuple[_Header, ...]:
    headers = [
        _Header("*", "X-Frame-Options", "SAMEORIGIN"),
        _Header("*", "X-Content-Type-Options", "nosniff"),
        _Header("*", "Referrer-Policy", "no-referrer"),
        _Header("*", "Cache-Control", "no-store"),
    ]
    if csp:
        headers.append(_Header("*", "Content-Security-Policy", _PAGES))
        headers.append(_Header("/admin/xml/*", "Content-Security-Policy", _XML_VIEWS))
    return tuple(headers)


def _account_files(broker: Broker, secrets: SecretRenderer) -> dict[str, bytes]:
    realm = broker.release.console_accounts == "realm"
    logins = tuple(_console_logins(broker, secrets, realm=realm))
    if realm:
        return {
            "conf/jetty-realm.properties": render_template("broker/console/jetty-realm.properties.j2", accounts=logins)
        }
    members = [(name, ",".join(login.name for login in logins if login.role == role)) for name, role in _GROUPS]
    return {
        "conf/users.properties": render_template("broker/console/users.properties.j2", accounts=logins),
        "conf/groups.properties": render_template(
            "broker/console/groups.properties.j2", groups=[(name, names) for name, names in members if names]
        ),
        "conf/login.config": render_template("broker/console/login.config.j2"),
    }


def _console_logins(broker: Broker, secrets: SecretRenderer, *, realm: bool) -> Iterator[_Login]:
    """Yield the console logins of ``activemq_users``, except those of the network user and agents."""
    user_names = {user.name for user in broker.settings.users}
    for account in broker.accounts:
        if account.name not in user_names:
            continue
        password = secrets.secret_text(account.variable, account.password)
        if realm and isinstance(account.password, SecretStr):
            # Also required while secrets are hidden: a check must not accept what the deployment then rejects.
            realm_password = _realm_password(account.password.get_secret_value(), broker.host, account.variable)
            password = realm_password if secrets.reveal else password
        yield _Login(account.name, password, "admin" if ADMINS in account.groups else "user")


def _realm_password(password: str, host: str, variable: str) -> str:
    """Return the password as jetty-realm.properties can hold it: as ``OBF:`` where it is cut or read as code.

    Jetty splits the line at the first comma and strips the rest, and reads a password that begins
    with OBF:, MD5: or CRYPT: as an encoded one (Jetty's HashLoginService and Credential, 7 to 9).
    """
    if password.startswith("OBF:"):
        raise SettingsError.of_host(
            host, f"{variable} begins with OBF:, so Jetty would decode it: choose another password for the web console"
        )
    if "," not in password and password == password.strip() and not password.startswith(_ENCODED_PREFIXES):
        return password
    if not password.isascii():
        raise SettingsError.of_host(
            host,
            f"{variable} has non-ASCII characters, and also a comma, a leading or trailing space or a prefix such as "
            "MD5:. The account file of the web console cannot hold such a password: choose another password",
        )
    return "OBF:" + _obfuscate(password)


def _obfuscate(text: str) -> str:
    """Return an ASCII text in Jetty's reversible ``OBF:`` encoding, which has no commas and protects no secret.

    Each byte and the one as far from the end make one number of four base-36 digits.
    """
    codes = text.encode("ascii")
    pairs = zip(codes, reversed(codes), strict=True)
    return "".join(_base36((127 + forward + backward) * 256 + 127 + forward - backward) for forward, backward in pairs)


def _base36(number: int) -> str:
    digits = ""
    for _ in range(4):
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits
