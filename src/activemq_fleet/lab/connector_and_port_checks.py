"""Probe whether a lab's brokers serve clients, and whether ports are free."""

from __future__ import annotations

import errno
import socket

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab.loopback_overlay import LAB_USER
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.lab.stomp import Credentials
from activemq_fleet.node.config.broker_configuration import DeployedBrokerSettings
from activemq_fleet.node.observer import Probe, probe_connectors_together
from activemq_fleet.node.probe.broker_connection import ExpectedBroker
from activemq_fleet.node.probe.connector_probe import ProbeAnswer
from activemq_fleet.node.protocols import is_encrypted, protocol_name_of_scheme, supports_round_trip
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.topology import Broker

_PORT_RELEASE_TIMEOUT = 5.0  # Seconds until a killed process and all its threads have ended.


def make_connector_probe(broker: Broker, timeout: float) -> Probe:
    """Return a function that probes whether one connector of a broker answers.

    The function takes the deployed configuration and the expected broker, and returns the answer by connector name. It
    sends a message over STOMP and receives it; without a STOMP connector it uses MQTT, then any other connector. It
    returns an empty mapping for a broker without connectors, such as a promoted pure slave. ``timeout`` is in seconds.
    """

    def probe(deployed: DeployedBrokerSettings, expected: ExpectedBroker) -> dict[str, ProbeAnswer]:
        can_probe_mqtt = broker.release.has_usable_mqtt
        listeners = [
            listener
            for listener in deployed.listeners
            if can_probe_mqtt or protocol_name_of_scheme(listener.scheme) != "mqtt"
        ]
        listeners.sort(
            key=lambda listener: (
                _lacks_simple_round_trip(listener.scheme),
                protocol_name_of_scheme(listener.scheme) != "stomp",
            )
        )
        return probe_connectors_together(listeners[:1], deployed, expected, timeout)

    return probe


def _lacks_simple_round_trip(scheme: str) -> bool:
    """Return whether a probe of a URI scheme cannot send and receive a message without certificates."""
    return is_encrypted(scheme) or not supports_round_trip(scheme)


def credentials_for_lab_connection(broker: Broker) -> Credentials | None:
    """Return the credentials with which the lab connects to a broker.

    They are those of the lab's own user if the broker has it, else those of the first account. Accounts without a
    readable password are skipped; returns None if none is left.
    """
    accounts = sorted(broker.accounts, key=lambda account: account.name != LAB_USER)
    for account in accounts:
        if account.password is not None and not isinstance(account.password, UndecryptedVaultValue):
            return Credentials(account.name, account.password.get_secret_value())
    return None


def require_free_port(address: Address) -> None:
    """Raise LabError if a program listens on the port of an address."""
    if is_port_taken(address):
        raise LabError(
            f"port {address[1]} on {address[0]} is used by another program: stop the program that listens on this port"
        )


def require_usable_broker_ports(broker: Broker, loopback_address: str) -> None:
    """Raise LabError if a broker of the lab cannot use its ports on a loopback address.

    A port must not be used by another program, and it must be possible to bind it. The function waits some seconds
    for each port, because a broker whose guard was killed ends after the guard.
    """
    for name, port in broker.ports.items():
        port_text = f"port {port} ({name}) on {loopback_address}"
        try:
            is_in_use = _is_port_in_use_after_wait((loopback_address, port))
        except OSError as error:
            raise LabError(
                f"{broker.host}: the broker cannot use {port_text} ({error.strerror}): check that this account may "
                "listen on this address and port"
            ) from None
        if is_in_use:
            raise LabError(
                f"{broker.host}: the broker cannot use {port_text}, because another program uses it: stop that "
                "program, or set activemq_port_offset"
            )


def _is_port_in_use_after_wait(address: Address) -> bool:
    return not poll_for_true_result(lambda: not is_port_taken(address), _PORT_RELEASE_TIMEOUT)


def is_port_taken(address: Address) -> bool:
    """Return whether a program listens on the port of an address.

    Raises OSError for an address that is not of this machine.
    """
    with socket.socket() as probe:
        # The probe binds as the JVM does: a port with connections only in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return True
    return False
