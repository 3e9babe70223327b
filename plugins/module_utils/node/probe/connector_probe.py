# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Probes whether a broker's connectors serve clients: an open port does not show that a broker works.

Over STOMP and MQTT a probe must complete a round trip: it sends a message to its own topic and receives it. Over
OpenWire the broker's greeting is sufficient. The probe uses STOMP 1.0, which 5.5 and all later releases support.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..config.broker_configuration import DeployedBrokerSettings, Listener
from ..config.probe_account import Login, random_probe_topic
from ..protocols import (
    encode_mqtt_packet,
    encode_mqtt_text,
    protocol_name_of_scheme,
    read_varint_and_next_offset,
    supports_round_trip,
)
from ..timeouts import PROBE
from .broker_connection import BrokerConnection, ExpectedBroker, ListenerOfOtherAccountError, connect_to_broker
from .deadline_socket import DeadlineSocket
from .stomp_client import StompClient, StompFrame, connect_headers

_MAX_BYTES = 1 << 20
"""Maximum bytes that a broker may send during one probe."""
_PREFETCH = "1"
_MAX_LENGTH_BYTES = 9
"""Bytes of the longest number of variable length."""
_LOGIN_ERROR = re.compile(
    r"(?i)\b(?:user ?name|password|credentials?|login|log(?:ged)? in|authenticat\w*)\b|SecurityException"
)
_PERMISSION_ERROR = re.compile(
    r"(?i)\bnot authori[sz]ed\b|\bunauthori[sz]ed\b|\baccess (?:is )?denied\b|SecurityException"
)
"""Errors of authorization. 5.5.1, 5.8.0, 5.18.3 and 6.3.1 answer ``User NAME is not authorized to write to: …``."""


@dataclass(frozen=True)
class ProbeAnswer:
    """The outcome of a probe of one connector of a broker: whether it answered and returned the test message.

    ``answered``: the broker answered in its protocol, and no error shows that it does not serve. ``returned``: the
    message came back; None if that was not tried or the account lacks the permission. ``detail`` is a description.
    ``greeted``: the broker sent CONNECTED, CONNACK or its OpenWire greeting, with or without the message. A broker that
    blocks messages, for instance at its memory limit, still sends a greeting. ``refused_login``: the broker rejected
    the login. ``failed``: the broker closed the connection, or answered with an error other than a missing permission.
    """

    answered: bool
    returned: bool | None
    detail: str
    greeted: bool = False
    refused_login: bool = False
    failed: bool = False


class ProbeAccessDeniedError(Exception):
    """An error for a probe of a connector: the broker rejected the login, or denied a permission to the account."""

    def __init__(self, detail: str, *, is_login: bool) -> None:
        super().__init__(detail)
        self.is_login = is_login


class ProbeFailedError(Exception):
    """An error for a probe of a broker's connector that failed.

    The broker closed the connection, or sent an error. An error about a missing permission does not count.
    """

    def __init__(self, detail: str, *, may_be_login: bool = False) -> None:
        super().__init__(detail)
        self.may_be_login = may_be_login


class ProbeStalledAfterGreetingError(Exception):
    """An error for a stalled probe of a connector: the broker sent its greeting, and then no more data in time."""


# Before Python 3.10, these are two classes.
_TIMEOUT_ERRORS = (TimeoutError, socket.timeout)


def probe_listener(
    deployed: DeployedBrokerSettings, listener: Listener, expected: ExpectedBroker, timeout: float = PROBE
) -> ProbeAnswer:
    """Probe one of a broker's connectors (listeners) with the broker's account for probes, and return the outcome.

    If the broker rejects this account, or does not have it yet, the probe uses
    another account of the broker.
    """
    logins = [deployed.probe_login, deployed.login] if deployed.probe_login.username else [deployed.login]
    for login in logins:
        answer = probe_connector(
            listener.scheme,
            listener.address,
            login,
            timeout,
            requires_client_certificate=listener.requires_client_certificate,
            expected=expected,
            release=deployed.release,
        )
        if not answer.refused_login:
            break
    return answer


def probe_connector(
    scheme: str,
    address: tuple[str, int],
    login: Login,
    timeout: float = PROBE,
    *,
    requires_client_certificate: bool = False,
    expected: ExpectedBroker | None = None,
    release: tuple[int, ...] = (),
) -> ProbeAnswer:
    """Probe one connector of a broker by connecting, logging in and exchanging a message, and return the outcome.

    It raises no errors. ``timeout``: seconds for the whole probe.
    ``requires_client_certificate``: the connector rejects clients without a certificate, and the probe has none, so
    only the TLS handshake is probed. ``expected``: the conditions for sending the login; by default, a listener on this
    machine must belong to the caller's account. ``release``: the broker's release, such as ``(5, 18, 3)``; empty if
    unknown.
    """
    is_connected = False
    probe_protocol = _protocol_probe(scheme, release)
    expected = expected or ExpectedBroker(os.geteuid())
    try:
        connection = connect_to_broker(scheme, address, timeout, _MAX_BYTES, expected)
        is_connected = True
        with contextlib.closing(connection.exchange):
            try:
                detail = probe_protocol(connection, login) if probe_protocol else "the broker accepts connections"
            finally:
                connection.exchange.close(parting=True)
    except ProbeAccessDeniedError as error:
        return ProbeAnswer(True, None, str(error), greeted=True, refused_login=error.is_login)
    except ProbeFailedError as error:
        return ProbeAnswer(False, False, str(error), greeted=True, refused_login=error.may_be_login, failed=True)
    except ProbeStalledAfterGreetingError as error:
        return ProbeAnswer(
            False, False, f"the broker answers {error} and then sends no data for {timeout:g} s", greeted=True
        )
    except ListenerOfOtherAccountError as error:
        return ProbeAnswer(False, None, str(error.strerror))
    except ConnectionRefusedError:
        return ProbeAnswer(False, None, "the port refuses connections, because no process listens on it")
    except _TIMEOUT_ERRORS:
        return ProbeAnswer(False, False, f"the broker accepts connections and sends no data for {timeout:g} s")
    except (ConnectionError, ssl.SSLError) as error:
        # Only a running broker completes a handshake, or rejects it by an alert.
        if requires_client_certificate and (is_connected or "ALERT" in (getattr(error, "reason", None) or "")):
            return ProbeAnswer(
                True, None, "the broker answers over TLS and rejects the probe, which has no client certificate"
            )
        return ProbeAnswer(False, None, f"the connection fails ({type(error).__name__}: {error})", failed=is_connected)
    except (ValueError, struct.error) as error:
        return ProbeAnswer(False, None, f"the broker violates the connector's protocol ({error}): check activemq.log")
    except socket.gaierror as error:
        return ProbeAnswer(
            False,
            None,
            f"the host name {address[0]} cannot be resolved ({error.strerror}): add it to DNS or /etc/hosts",
        )
    except OSError as error:
        return ProbeAnswer(False, None, f"the connection fails ({type(error).__name__}: {error})")
    if probe_protocol is None or detail == _UNVERIFIED_TLS:
        return ProbeAnswer(True, None, detail)
    return ProbeAnswer(True, True if supports_round_trip(scheme) else None, detail, greeted=True)


def _protocol_probe(scheme: str, release: tuple[int, ...]) -> Callable[[BrokerConnection, Login], str] | None:
    """Return the function that probes a connector with this scheme; None where only its port can be probed."""
    protocol = protocol_name_of_scheme(scheme)
    if protocol == "mqtt":
        if release and release < _FIRST_USABLE_MQTT:
            return None
        has_old_codes = bool(release) and release < _FIRST_WITH_CURRENT_CODES
        return functools.partial(
            _probe_mqtt, refused_logins=_OLD_REFUSED_LOGIN_CODES if has_old_codes else _REFUSED_LOGIN_CODES
        )
    return _PROBE_BY_PROTOCOL.get(protocol)


def can_probe_protocol(scheme: str) -> bool:
    """Return whether a probe supports the protocol of a connector's URI scheme; else the probe only checks the port."""
    return protocol_name_of_scheme(scheme) in ("mqtt", *_PROBE_BY_PROTOCOL)


@contextlib.contextmanager
def _report_errors_after_greeting(greeting: str) -> Iterator[None]:
    try:
        yield
    except _TIMEOUT_ERRORS:
        raise ProbeStalledAfterGreetingError(greeting) from None
    except ConnectionError:
        raise ProbeFailedError(
            f"the broker answers the test connection with {greeting}, but then closes the "
            "connection: check activemq.log for the reason"
        ) from None


def _probe_openwire(connection: BrokerConnection, _login: Login) -> str:
    """Read the WireFormatInfo that every OpenWire broker sends as its greeting: length, type 1, the text ActiveMQ."""
    head = connection.exchange.read(13)
    if head[4] != 1 or head[5:] != b"ActiveMQ":
        raise ValueError("the server on this port sent no OpenWire greeting")
    return "the broker answered the test connection with an OpenWire greeting"


_UNVERIFIED_TLS = "the broker answers over TLS, but its certificate cannot be verified, so no login was sent"


def _probe_stomp(connection: BrokerConnection, login: Login) -> str:
    if connection.is_encrypted and not connection.is_verified:
        return _UNVERIFIED_TLS
    login, exchange = connection.credentials_if_broker_verified(login), connection.exchange
    token = os.urandom(8).hex()
    destination = f"/topic/{random_probe_topic()}"
    client = StompClient(exchange)
    client.send_frame("CONNECT", connect_headers(login))
    _check_frame(client.read_frame(), "CONNECTED", "CONNECT")
    with _report_errors_after_greeting("CONNECTED over STOMP"):
        subscription = {"destination": destination, "receipt": "s", "activemq.prefetchSize": _PREFETCH}
        client.send_frame("SUBSCRIBE", subscription)
        _check_frame(client.read_frame(), "RECEIPT", "SUBSCRIBE")
        client.send_frame("SEND", {"destination": destination, "persistent": "false"}, token)
        while token not in _check_frame(client.read_frame(), "MESSAGE", "SEND").body:
            pass
    client.send_frame("DISCONNECT", {})
    return "the broker completed the round trip of a test message over STOMP"


def _check_frame(frame: StompFrame, command: str, step: str) -> StompFrame:
    """Return a frame that must be ``command``, the response to the probe's frame ``step``; raise an error otherwise."""
    if frame.command == "ERROR":
        reason = frame.error_reason or "no reason given"
        kind = _LOGIN_ERROR if step == "CONNECT" else _PERMISSION_ERROR
        if kind.search(reason) or "java.lang.SecurityException" in frame.body:
            rejection = f"the broker rejects the STOMP frame {step} of the test connection: {reason}"
            raise ProbeAccessDeniedError(rejection, is_login=step == "CONNECT")
        raise ProbeFailedError(
            f"the broker answers the STOMP frame {step} of the test connection with an error ({reason}): check "
            "activemq.log"
        )
    if frame.command != command:
        raise ValueError(
            f"the server on this port answered the STOMP frame {step} with the frame {frame.command[:20]!r} instead of "
            f"{command}"
        )
    return frame


_FIRST_USABLE_MQTT = (5, 8)
_FIRST_WITH_CURRENT_CODES = (5, 11)
_REFUSED_LOGIN_CODES = (4, 5)
"""Codes of CONNACK for a wrong password: 5 on 5.18.3 and 6.3.1, 3 on 5.8 to 5.10, as measured."""
_OLD_REFUSED_LOGIN_CODES = (3, *_REFUSED_LOGIN_CODES)


def _probe_mqtt(connection: BrokerConnection, login: Login, refused_logins: tuple[int, ...]) -> str:
    if connection.is_encrypted and not connection.is_verified:
        return _UNVERIFIED_TLS
    login, exchange = connection.credentials_if_broker_verified(login), connection.exchange
    account = f"the account {login.username!r}" if login.username else "a client without a user name"
    token = os.urandom(8).hex().encode()
    topic = random_probe_topic().replace(".", "/")
    flags = 0xC2 if login.username else 0x02
    payload = encode_mqtt_text(f"fleet-{os.urandom(8).hex()}")
    if login.username:
        payload += encode_mqtt_text(login.username) + encode_mqtt_text(login.password)
    exchange.send(encode_mqtt_packet(0x10, b"\0\x04MQTT\x04" + bytes([flags]) + b"\0\x1e" + payload))
    code = _read_mqtt_packet(exchange, 2)[1]
    if code in refused_logins:
        raise ProbeAccessDeniedError(
            f"the broker rejects {account} over MQTT (return code {code} in CONNACK): check the reason in activemq.log",
            is_login=True,
        )
    if code:
        raise ProbeFailedError(
            f"the broker rejects the test connection over MQTT (return code {code} in CONNACK): check activemq.log",
            may_be_login=code == 3,
        )
    with _report_errors_after_greeting("CONNACK 0 over MQTT"):
        exchange.send(encode_mqtt_packet(0x82, b"\0\x01" + encode_mqtt_text(topic) + b"\0"))
        if _read_mqtt_packet(exchange, 9)[2] == 0x80:
            # MQTT has the same code for every reason, and the account of probes has the permission.
            refusal = (
                f"the broker rejects the subscription of {account} to {topic} over MQTT: check the reason in "
                "activemq.log"
            )
            raise (
                ProbeFailedError(refusal) if login.is_probe_account else ProbeAccessDeniedError(refusal, is_login=False)
            )
        exchange.send(encode_mqtt_packet(0x30, encode_mqtt_text(topic) + token))
        while token not in _read_mqtt_packet(exchange, 3):
            pass
    exchange.send(encode_mqtt_packet(0xE0, b""))
    return "the broker completed the round trip of a test message over MQTT"


def _read_mqtt_packet(exchange: DeadlineSocket, kind: int) -> bytes:
    head = exchange.read(1)[0]
    digits = exchange.read(1)
    while digits[-1] & 0x80 and len(digits) <= _MAX_LENGTH_BYTES:
        digits += exchange.read(1)
    length, _unused = read_varint_and_next_offset(digits, 0)
    if head >> 4 != kind or length > _MAX_BYTES:
        raise ValueError(f"the server on this port sent an MQTT packet of type {head >> 4} instead of type {kind}")
    return exchange.read(length)


_PROBE_BY_PROTOCOL: dict[str, Callable[[BrokerConnection, Login], str]] = {
    "openwire": _probe_openwire,
    "stomp": _probe_stomp,
}
