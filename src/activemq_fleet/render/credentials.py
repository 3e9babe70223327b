"""Render conf/credentials.properties: the secrets of a broker, which activemq.xml reads through placeholders."""

from __future__ import annotations

from pydantic import SecretStr

from activemq_fleet.render import console
from activemq_fleet.render.engine import escape_properties_key, escape_properties_value
from activemq_fleet.render.secrets import SecretRenderer
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.topology import Broker

PATH = "conf/credentials.properties"


def credentials_file_content(broker: Broker, secrets: SecretRenderer) -> bytes:
    """Return the content of a broker's file credentials.properties as bytes.

    It has the passwords that activemq.xml refers to, and the console's login.
    """
    settings = broker.settings
    entries: dict[str, tuple[str, SecretStr | UndecryptedVaultValue | None]] = {}
    if settings.network_password is not None and settings.authentication != "none":
        entries["activemq.network.password"] = ("activemq_network_password", settings.network_password)
    entries |= {account.key: (account.variable, account.password) for account in broker.accounts}
    if broker.ha_profile.has_database_lease and settings.jdbc:
        entries["activemq.jdbc.password"] = ("activemq_jdbc.password", settings.jdbc.password)
    if settings.tls:
        entries["activemq.tls.keystore.password"] = ("activemq_tls.keystore_password", settings.tls.keystore_password)
        entries["activemq.tls.truststore.password"] = (
            "activemq_tls.truststore_password",
            settings.tls.truststore_password,
        )
    lines = ["# Passwords of activemq.xml. Made by activemq.fleet: change them in the inventory."]
    lines += [
        f"{escape_properties_key(key)}={escape_properties_value(secrets.secret_text(variable, value))}"
        for key, (variable, value) in entries.items()
    ]
    if settings.console:
        console_account = console.broker_account_of_console(broker)
        username = password = ""
        if console_account:
            username = escape_properties_value(console_account.name)
            password = escape_properties_value(secrets.secret_text(console_account.variable, console_account.password))
        lines.append(f"activemq.username={username}")
        lines.append(f"activemq.password={password}")
    return ("\n".join(lines) + "\n").encode()
