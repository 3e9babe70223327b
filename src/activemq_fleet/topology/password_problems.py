"""Find easily guessed passwords in the inventory: of accounts (S050), and of key stores and trust stores (S019).

The rules of ``lint`` with these ids check files, in which placeholders replace the passwords of an inventory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pydantic import SecretStr

from activemq_fleet.findings import Finding, InventoryVariablesOfValue
from activemq_fleet.node.config.probe_account import PROBE_USER
from activemq_fleet.settings.default_credentials import is_guessable_credential
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.topology.model.balancer import Balancer
from activemq_fleet.topology.model.broker import Broker
from activemq_fleet.topology.model.fleet import Agent


class _PasswordKind(NamedTuple):
    """The kind of a password: what it protects, the rule about it, and where else than in the inventory it is set."""

    owner: str
    other_place: str = ""
    rule: str = "S050"
    why: str = "attackers try the name of the account, a few digits, and the passwords of tutorials first"


_ACCOUNT = _PasswordKind("account")
_CLIENT_ACCOUNT = _PasswordKind("account", "the clients")
_JMX_ACCOUNT = _PasswordKind("JMX account", "the JMX clients")
_METRICS_ACCOUNT = _PasswordKind("metrics account", "Prometheus")
_DATABASE_ACCOUNT = _PasswordKind("database account", "the database")
_FENCE_COMMAND = _PasswordKind("fence command", "the service that accepts it")
_KEY_STORE = _PasswordKind(
    "key store",
    "the key store (`keytool -storepasswd`)",
    "S019",
    "an attacker with a copy of the file tries such passwords first, and can then read the private key",
)
_TRUST_STORE = _PasswordKind(
    "trust store",
    "the trust store (`keytool -storepasswd`)",
    "S019",
    "an attacker who can write the file tries such passwords first, and can then add trusted certificates",
)


class _Password(NamedTuple):
    """A password of the inventory: its variable, its kind, its value, and the name of its account.

    The value is never a part of a finding. A key store has no account.
    """

    variable: str
    kind: _PasswordKind
    value: SecretStr | UndecryptedVaultValue | None
    username: str | None = None

    @property
    def is_guessable(self) -> bool:
        """Whether the password is easily guessed; False for a value that is encrypted or not set."""
        return isinstance(self.value, SecretStr) and is_guessable_credential(
            self.username or "", self.value.get_secret_value()
        )


def guessable_broker_password_findings(broker: Broker) -> Iterator[Finding]:
    """Yield a warning for each easily guessed password that a broker uses (S050, S019)."""
    settings = broker.settings
    passwords = [*_account_passwords(settings), *_fence_secrets(settings), *_metrics_passwords(settings)]
    if broker.ha_profile.has_database_lease and settings.jdbc:
        database = settings.jdbc
        passwords.append(_Password("activemq_jdbc.password", _DATABASE_ACCOUNT, database.password, database.username))
    if settings.tls:
        passwords += [
            _Password("activemq_tls.keystore_password", _KEY_STORE, settings.tls.keystore_password),
            _Password("activemq_tls.truststore_password", _TRUST_STORE, settings.tls.truststore_password),
        ]
    yield from _guessable_password_findings(broker.host, passwords)


def guessable_agent_password_findings(agent: Agent) -> Iterator[Finding]:
    """Yield a warning for an easily guessed password of a failover agent (S050)."""
    settings = agent.settings
    password = _Password("activemq_agent_password", _ACCOUNT, settings.agent_password, settings.agent_username)
    yield from _guessable_password_findings(agent.host, [password])


def guessable_balancer_password_findings(balancer: Balancer) -> Iterator[Finding]:
    """Yield a warning for an easily guessed password of a load balancer (S050)."""
    settings = balancer.settings
    password = _Password("activemq_vip_password", _ACCOUNT, settings.vip_password, settings.vip_username)
    yield from _guessable_password_findings(balancer.host, [password])


def _account_passwords(settings: HostSettings) -> Iterator[_Password]:
    """Yield the passwords of a broker's accounts, also of those for JMX; the accounts of agents have other hosts."""
    if settings.authentication != "none":
        name = settings.network_username
        yield _Password("activemq_network_password", _ACCOUNT, settings.network_password, name)
        yield _Password("activemq_probe_password", _ACCOUNT, settings.probe_password, PROBE_USER)
        for position, user in enumerate(settings.users):
            yield _Password(f"activemq_users[{position}].password", _CLIENT_ACCOUNT, user.password, user.name)
    for position, jmx_user in enumerate(settings.jmx.users if settings.jmx else ()):
        yield _Password(f"activemq_jmx.users[{position}].password", _JMX_ACCOUNT, jmx_user.password, jmx_user.name)


def _fence_secrets(settings: HostSettings) -> Iterator[_Password]:
    """Yield the easily guessed passwords of the command that fences the other node.

    Values whose names are not those of passwords, such as ``POWER_USER``, are omitted.
    """
    if settings.fence != "command" or settings.fence_command is None:
        return
    for name, value in settings.fence_command.secrets.items():
        password = _Password(f"activemq_fence_command.secrets.{name}", _FENCE_COMMAND, value)
        if password.is_guessable:
            # The package is large, and only few inventories require it.
            from activemq_fleet.node.masking import is_secret_name

            if is_secret_name(name):
                yield password


def _metrics_passwords(settings: HostSettings) -> Iterator[_Password]:
    """Yield the passwords of a broker's metrics."""
    if not settings.metrics:
        return
    name = settings.metrics_username
    yield _Password("activemq_metrics_password", _METRICS_ACCOUNT, settings.metrics_password, name)
    if settings.metrics_tls:
        yield _Password("activemq_metrics_tls.keystore_password", _KEY_STORE, settings.metrics_tls.keystore_password)


def _guessable_password_findings(host: str, passwords: Iterable[_Password]) -> Iterator[Finding]:
    for variable, kind, _, username in (password for password in passwords if password.is_guessable):
        owner = f"{kind.owner} {username}" if username else kind.owner
        places = f"{variable} and in {kind.other_place}" if kind.other_place else variable
        yield Finding(
            rule=kind.rule,
            severity="warning",
            host=host,
            message=f"{variable} is an easily guessed password of the {owner}",
            fix=f"set a long random password in {places}, and encrypt the variable with ansible-vault",
            why=kind.why,
            origin=_origin_of_password(variable, username),
        )


def _origin_of_password(variable: str, username: str | None) -> InventoryVariablesOfValue:
    """Return the origin of a password, which identifies its line in a variable with several entries."""
    names = (username,) if username else ()
    return InventoryVariablesOfValue(
        parts=(variable.partition(".")[0].partition("[")[0],),
        attributes=((variable.rpartition(".")[2], ""),),
        is_attribute=True,
        reported=names,
        identifying=names,
    )
