"""Decide how activemq.xml opens JMX, and render the files that list its users.

The broker's own connector listens on all interfaces, regardless of connectorHost (ManagementContext of the release
tags). It reads jmx.password and jmx.access as the JVM's connector does. The stub that a client receives has the TLS
settings for the client.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import SecretStr

from activemq_fleet.errors import SettingsError
from activemq_fleet.render.engine import escape_properties_key
from activemq_fleet.render.secrets import SecretRenderer
from activemq_fleet.topology import Broker

PASSWORDS, ACCESS = "conf/jmx.password", "conf/jmx.access"
# Java 8 reads the file as java.util.Properties, and later releases as words separated by spaces (measured on 17).
_PASSWORD = re.compile(r"(?![#!=:])[!-\[\]-~]+")
_FILE_HEADER = "# Made by activemq.fleet from activemq_jmx: change it in the inventory.\n"


def management_context_values(broker: Broker) -> dict[str, Any]:
    """Return the template values of a broker's managementContext element (JMX): attributes, login and TLS.

    The keys ``asks`` and ``tls`` are whether JMX requires a login and TLS.
    """
    jmx, offset = broker.settings.jmx, broker.settings.port_offset
    if jmx is None:
        return {"attributes": (("createConnector", "false"),), "asks": False, "tls": False}
    attributes: dict[str, object] = {"createConnector": "true", "connectorPort": jmx.port + offset}
    if jmx.rmi_port:
        attributes["rmiServerPort"] = jmx.rmi_port + offset
    if jmx.path:
        attributes["connectorPath"] = jmx.path
    return {"attributes": tuple(attributes.items()), "asks": bool(jmx.users), "tls": jmx.tls}


def jmx_files(broker: Broker, secrets: SecretRenderer) -> dict[str, bytes]:
    """Return the files jmx.password and jmx.access of a broker, by path.

    There are none where ``activemq_jmx`` has no users.

    Raises SettingsError for a password that the file cannot hold.
    """
    users = broker.settings.jmx.users if broker.settings.jmx else ()
    if not users:
        return {}
    for position, user in enumerate(users):
        text = user.password.get_secret_value() if isinstance(user.password, SecretStr) else ""
        if text and not _PASSWORD.fullmatch(text):
            raise SettingsError.of_host(
                broker.host,
                f"activemq_jmx.users[{position}].password has a space, a backslash or a non-ASCII "
                "letter, or begins with one of # ! = :. The JVM's password file cannot hold such a password: choose "
                "another password",
            )
    user_passwords = [
        (user, secrets.secret_text(f"activemq_jmx.users[{position}].password", user.password))
        for position, user in enumerate(users)
    ]
    passwords = "".join(f"{escape_properties_key(user.name)} {text}\n" for user, text in user_passwords)
    access = "".join(f"{escape_properties_key(user.name)} {user.access}\n" for user in users)
    return {PASSWORDS: (_FILE_HEADER + passwords).encode(), ACCESS: (_FILE_HEADER + access).encode()}
