"""Define what a broker needs of Debian's package ``activemq`` (``activemq_install: package``)."""

from __future__ import annotations

from activemq_fleet.node.protocols import protocol_name_of_scheme
from activemq_fleet.topology import Broker

PACKAGE_HOME = "/usr/share/activemq"
"""The directory of ActiveMQ in the package."""
# Without them a broker has an open MQTT port that never sends CONNACK.
MQTT_JARS = tuple(
    f"/usr/share/java/{name}.jar" for name in ("mqtt-client", "hawtdispatch", "hawtdispatch-transport", "hawtbuf")
)
"""The jars that the package's MQTT transport needs and that it does not contain."""


def apt_packages(broker: Broker) -> tuple[str, ...]:
    """Return the packages that apt installs for a broker.

    There are none unless ``activemq_install`` is ``package``.
    """
    needs = ("libmqtt-client-java",) if has_mqtt_connector(broker) else ()
    # 5.17.2+dfsg-2, never 5.17.20
    return (f"activemq={broker.release.text}[-+]*", *needs) if broker.settings.install == "package" else ()


def has_mqtt_connector(broker: Broker) -> bool:
    """Return whether a broker has a connector for MQTT."""
    return any(protocol_name_of_scheme(connector.scheme) == "mqtt" for connector in broker.connectors)
