"""Check that this machine can connect and log in to the MQTT connectors that the load of a drill uses.

An accepted TCP connection proves nothing: proxies and firewalls accept connections for hosts that are absent. So each
connector must answer CONNECT, over TLS if the load uses TLS, and accept the login. Permissions are not checked.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from activemq_agent.agent_errors import ConfigError
from activemq_agent.config import AgentTlsSettings, parse_tls
from activemq_agent.config_values import Endpoint
from activemq_agent.tls import explain_connection_failure, tls_context
from activemq_fleet.addresses import Address, join_host_port, parse_address_and_tls
from activemq_fleet.errors import InputError
from activemq_fleet.lab.agent_load_generator import TwoAgentLoadSpec
from activemq_fleet.render.haproxy_health_checks import mqtt_connect_packet

_CONNECT_TIMEOUT = 5.0  # Seconds to resolve the name and to connect.
_MAX_CONCURRENT = 64
_MAX_SHOWN = 4
_REFUSED = "connection refused"
_CLOSED_WITHOUT_ANSWER = "the server closes the connection without an answer, as a proxy does for a broker that is down"
_RETRY_PAUSE = 0.5
_CONNACK = 0x20
_UNAVAILABLE = 3
_REJECTED_LOGIN_CODES = (_UNAVAILABLE, 4, 5)
"""Codes of CONNACK. A wrong password is 3 on 5.8 to 5.10 and 5 on 5.18 and 6.3, as measured."""
_ACCEPTED_CONNACK = b"\x20\x02\x00\x00"
_DISCONNECT = b"\xe0\x00"


@dataclass(frozen=True, slots=True)
class _LoadConnector:
    """A connector as the load of a drill connects to it.

    ``login`` is None for a client without one; ``tls`` is None for a connection without TLS.
    """

    address: Address
    login: tuple[str, str] | None
    tls: AgentTlsSettings | None


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer of a connector to the load's login.

    ``problem`` is empty if a broker accepted the login. ``is_denied``: a broker rejected the login.
    """

    problem: str = ""
    is_denied: bool = False


def require_nodes_reachable_by_load(specs: Sequence[TwoAgentLoadSpec], timeout: float = _CONNECT_TIMEOUT) -> None:
    """Raise InputError if load generators cannot reach the nodes (brokers) of each pair.

    The active node must accept a connection; the other node must be able to accept one after a takeover. One connector
    of each pair must answer within ``timeout`` seconds. A standby node does not listen, so it may refuse the
    connection, but its name must resolve and its host must answer. No broker may refuse the login.
    """
    connectors_by_pair = {spec.name: _connectors_of_load(spec) for spec in specs}
    connectors = list(dict.fromkeys(connector for pair in connectors_by_pair.values() for connector in pair))
    with ThreadPoolExecutor(max_workers=_MAX_CONCURRENT) as pool:
        answers = dict(
            zip(connectors, pool.map(lambda connector: _connect_answer(connector, timeout), connectors), strict=True)
        )
    unreachable: dict[Address, str] = {}
    for pair in connectors_by_pair.values():
        none_open = all(answers[connector].problem and not answers[connector].is_denied for connector in pair)
        for connector in pair:
            problem = answers[connector].problem
            if problem and not answers[connector].is_denied and (none_open or problem != _REFUSED):
                unreachable[connector.address] = problem
    if unreachable:
        raise InputError(
            "the drill injects no fault, because the test load on this controller cannot open MQTT at "
            f"{_addresses_with_reasons(unreachable)}. Check that these brokers run, and that the controller can "
            "resolve their names and connect to these ports. You can also run the playbook on another machine"
        )
    denied = {connector.address: answers[connector].problem for connector in connectors if answers[connector].is_denied}
    if denied:
        raise InputError(
            "the drill injects no fault, because brokers reject the login of its test load: "
            f"{_addresses_with_reasons(denied)}. Set activemq_agent_username and activemq_agent_password of the agents "
            "of the pair to an account that activemq_users contains, and run the playbook site"
        )


def _connectors_of_load(spec: TwoAgentLoadSpec) -> list[_LoadConnector]:
    keys = spec.publisher
    user, password = keys.get("mb.username"), keys.get("mb.password")
    login = (user, password) if user and password else None
    urls = map(parse_address_and_tls, keys["mb.urls"].split(","))
    return [_LoadConnector(address, login, parse_tls(keys) if tls else None) for address, tls in urls]


def _connect_answer(connector: _LoadConnector, timeout: float) -> _Answer:
    """Return the answer of a connector to the load's CONNECT.

    A connector that closes the connection gets another CONNECT until ``timeout``, because a busy 6.3.1 broker refused
    a login and closed the connection before it had sent its CONNACK.
    """
    deadline = time.monotonic() + timeout
    while (
        answer := _single_connect_answer(connector, timeout)
    ).problem == _CLOSED_WITHOUT_ANSWER and time.monotonic() < deadline:
        time.sleep(_RETRY_PAUSE)
    return answer


def _single_connect_answer(connector: _LoadConnector, timeout: float) -> _Answer:
    try:
        with _open_connection(connector, timeout) as connection, connection.makefile("rb") as stream:
            connection.sendall(mqtt_connect_packet(f"look-{secrets.token_hex(4)}", *(connector.login or (None, None))))
            answer = stream.read(len(_ACCEPTED_CONNACK))
            with suppress(OSError):
                connection.sendall(_DISCONNECT)  # A broker that rejected the login may have closed the connection.
    except ConfigError as error:
        return _Answer(str(error))
    except ssl.SSLError as error:
        broker = Endpoint(*connector.address, tls=True)
        reason = explain_connection_failure(error, broker, seconds=timeout)
        return _Answer(reason.removeprefix(f"the broker {broker.host_port_text} "))
    except socket.gaierror:
        return _Answer("the host name cannot be resolved")
    except TimeoutError:
        return _Answer(f"the broker sent no answer within {timeout:g} s")
    except ConnectionRefusedError:
        return _Answer(_REFUSED)
    except ConnectionResetError:
        return _Answer(_CLOSED_WITHOUT_ANSWER)
    except OSError as error:
        return _Answer((error.strerror or str(error)).lower())
    if not answer:
        return _Answer(_CLOSED_WITHOUT_ANSWER)
    if len(answer) < len(_ACCEPTED_CONNACK) or answer[0] != _CONNACK:
        return _Answer("the server at this address is not a broker with MQTT")
    if answer[3] in _REJECTED_LOGIN_CODES:
        client = f"the user {connector.login[0]!r} or its password" if connector.login else "a client without a login"
        start_note = ", or is still starting" if answer[3] == _UNAVAILABLE else ""
        return _Answer(f"the broker rejects {client}{start_note}", is_denied=True)
    return _Answer(f"the broker rejects the MQTT packet CONNECT with code {answer[3]}" if answer[3] else "")


def _open_connection(connector: _LoadConnector, timeout: float) -> socket.socket:
    """Return a connection to the connector, with TLS if the load uses TLS. Raises OSError, ConfigError."""
    context = tls_context(connector.tls) if connector.tls else None
    connection = socket.create_connection(connector.address, timeout)
    if context is None:
        return connection
    try:
        return context.wrap_socket(connection, server_hostname=connector.address[0])
    except BaseException:
        connection.close()
        raise


def _addresses_with_reasons(unreachable: dict[Address, str]) -> str:
    """Return the addresses of unreachable connectors with their reasons, as far as they fit into a line."""
    named_addresses: Iterable[str] = [
        f"{join_host_port(*address)} ({reason})" for address, reason in list(unreachable.items())[:_MAX_SHOWN]
    ]
    rest = f" and {len(unreachable) - _MAX_SHOWN} more addresses" if len(unreachable) > _MAX_SHOWN else ""
    return f"{', '.join(named_addresses)}{rest}"
