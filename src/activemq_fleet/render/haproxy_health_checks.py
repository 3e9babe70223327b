"""The health checks with which HAProxy examines brokers: an exchange in the protocol of the connector.

A broker that hangs accepts connections and never answers, so an open port proves nothing. An answer to CONNECT proves
that it serves. So does a refusal: a temporarily wrong password must not remove every broker. Measured on 5.5.1, 5.7.0,
5.11.4, 5.18.3 and 6.3.1: a login with a disconnect writes no line to the broker's log, a refusal 3 to 34 lines,
OpenWire's greeting none.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from activemq_fleet.node.protocols import encode_mqtt_packet, encode_mqtt_text
from activemq_fleet.render.secrets import SecretRenderer
from activemq_fleet.topology import Balancer, VirtualAddressPort

_CLEAN_SESSION, _WITH_LOGIN = 0x02, 0xC0
_KEEP_ALIVE_SECONDS = 30  # s
_DISCONNECT = "e000"
# CONNACK with code 0, or with a code for a rejected login: 4 or 5, in 5.7 also 3 (measured).
_CONNACK = "^20020[01]0[0345]"
_BROKER_GREETING = "01" + b"ActiveMQ".hex()  # a WireFormatInfo, after its length
# The greeting of a client, version 1 without options, for a connector that detects the protocol.
_CLIENT_GREETING = "0000000e" + _BROKER_GREETING + "0000000100"


class HealthCheckStep(NamedTuple):
    """A step of a HAProxy health check.

    It has bytes to send, or a pattern to expect. ``what`` is the ``tcp-check`` keyword, ``value`` the bytes or pattern.
    """

    what: str
    value: str


def health_check_steps(
    balancer: Balancer, virtual_port: VirtualAddressPort, secrets: SecretRenderer
) -> tuple[HealthCheckStep, ...]:
    """Return the steps of a HAProxy health check of a broker, in order.

    They are bytes to send and patterns to expect. Bytes that hold a password are ``@activemq_vip_password@`` unless
    revealed.
    """
    if virtual_port.protocol == "openwire":
        greeting = () if virtual_port.greets else (HealthCheckStep("send-binary", _CLIENT_GREETING),)
        return (*greeting, HealthCheckStep("expect binary", _BROKER_GREETING))
    if virtual_port.protocol == "mqtt":
        return (
            HealthCheckStep("send-binary", _login_packet(balancer, virtual_port, secrets)),
            HealthCheckStep("expect rbinary", _CONNACK),
            HealthCheckStep("send-binary", _DISCONNECT),
        )
    return (
        HealthCheckStep("send-binary", _login_packet(balancer, virtual_port, secrets)),
        HealthCheckStep("expect rstring", "^(CONNECTED|ERROR)"),
        HealthCheckStep("send-binary", b"DISCONNECT\n\n\0".hex()),
    )


def _may_health_check_send_password(balancer: Balancer, virtual_port: VirtualAddressPort) -> bool:
    """Return whether a HAProxy health check may send its password to a broker.

    It may without TLS, or to a broker whose certificate is verified.
    """
    return not virtual_port.tls or balancer.settings.vip_broker_ca is not None


def _login_packet(balancer: Balancer, virtual_port: VirtualAddressPort, secrets: SecretRenderer) -> str:
    settings = balancer.settings
    packet = mqtt_connect_packet if virtual_port.protocol == "mqtt" else _stomp_connect
    if settings.vip_username is None or not _may_health_check_send_password(balancer, virtual_port):
        return packet(_client_id(balancer, virtual_port), None, None).hex()
    password = secrets.secret_text("activemq_vip_password", settings.vip_password)
    if not secrets.reveal:
        return password
    return packet(_client_id(balancer, virtual_port), settings.vip_username, password).hex()


def _client_id(balancer: Balancer, virtual_port: VirtualAddressPort) -> str:
    """Return a client id that only one balancer and connector use: a broker drops one of two clients with one id."""
    return "check-" + hashlib.sha256(f"{balancer.host}\0{virtual_port.connector}".encode()).hexdigest()[:12]


def mqtt_connect_packet(client_id: str, username: str | None, password: str | None) -> bytes:
    """Return an MQTT CONNECT packet as bytes, of MQTT 3.1, which every release accepts.

    ``client_id`` may have 23 characters at most. Without a user name the packet has no login.
    """
    flags = _CLEAN_SESSION | (_WITH_LOGIN if username else 0)
    body = encode_mqtt_text("MQIsdp") + struct.pack(">BBH", 3, flags, _KEEP_ALIVE_SECONDS) + encode_mqtt_text(client_id)
    if username is not None and password is not None:
        body += encode_mqtt_text(username) + encode_mqtt_text(password)
    return encode_mqtt_packet(0x10, body)


def _stomp_connect(_client_id: str, username: str | None, password: str | None) -> bytes:
    """Return a CONNECT frame of STOMP 1.0, in which no header is escaped."""
    login = f"login:{username}\npasscode:{password}\n" if username is not None else ""
    return f"CONNECT\n{login}\n\0".encode()
