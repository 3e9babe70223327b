"""Whether this machine can open the MQTT connectors that the load of a drill dials.

A connection that is taken proves nothing: proxies and firewalls take them for hosts that are not there. So each
connector must answer CONNECT, be it by a refusal, or begin a TLS handshake. Logins and rights are the load's affair.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from activemq_fleet.addresses import Address, join, parse_url
from activemq_fleet.agent.seats import SeatSpec
from activemq_fleet.agent.tls import speaks_tls
from activemq_fleet.errors import InputError
from activemq_fleet.render.checks import mqtt_connect

_PATIENCE = 5.0  # seconds for a name and a connection
_AT_ONCE = 64
_SHOWN = 4
_REFUSED = "connection refused"
_SILENT = "no answer in {:g} s"
_OTHER = "something answers there that is no broker with {}"
_CONNACK = 0x20
_DISCONNECT = b"\xe0\x00"


def refuse_unreachable(specs: Sequence[SeatSpec], timeout: float = _PATIENCE) -> None:
    """Raises InputError, in one line, where the load could not be put on a pair or could not move to its other node.

    Of each pair one connector must answer. The node that stands by listens nowhere, so it may refuse, but
    its name must resolve and its host must answer.
    """
    wanted = {spec.name: _urls(spec) for spec in specs}
    logins = {url: _login(spec) for spec in specs for url in wanted[spec.name]}
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        problems_of_all = pool.map(lambda url: _problem(url[0], url[1], logins[url], timeout), logins)
        answers = dict(zip(logins, problems_of_all, strict=True))
    bad: dict[Address, str] = {}
    for urls in wanted.values():
        problems = {url: answers[url] for url in urls if answers[url]}
        none_open = len(problems) == len(urls)
        bad |= {address: why for (address, _), why in problems.items() if none_open or why != _REFUSED}
    if bad:
        raise InputError(
            f"nothing is struck, because this controller cannot open MQTT at {_listed(bad)}. The load of a drill is "
            "put on from here: let this machine resolve and reach these ports, start what does not serve, or run the "
            "playbook from a machine that agents could run on"
        )


def _urls(spec: SeatSpec) -> list[tuple[Address, bool]]:
    """Address, and whether with TLS."""
    return [parse_url(url) for url in spec.publisher["mb.urls"].split(",")]


def _login(spec: SeatSpec) -> tuple[str | None, str | None]:
    user, password = spec.publisher.get("mb.username"), spec.publisher.get("mb.password")
    return (user, password) if user and password else (None, None)


def _problem(address: Address, tls: bool, login: tuple[str | None, str | None], timeout: float) -> str:
    """Why no broker answers; empty when one does."""
    try:
        with socket.create_connection(address, timeout) as connection:
            if tls:
                return "" if speaks_tls(address, timeout) else _OTHER.format("TLS")
            connection.sendall(mqtt_connect(f"look-{secrets.token_hex(4)}", *login))
            answer = connection.recv(4)
            with suppress(OSError):
                connection.sendall(_DISCONNECT)  # who refused the login is gone already
    except socket.gaierror:
        return "its name does not resolve"
    except TimeoutError:
        return _SILENT.format(timeout)
    except ConnectionRefusedError:
        return _REFUSED
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return "" if answer[:1] == bytes([_CONNACK]) else _OTHER.format("MQTT")


def _listed(bad: dict[Address, str]) -> str:
    """The addresses with their reasons, as far as they fit into a line."""
    shown: Iterable[str] = [f"{join(*address)} ({why})" for address, why in list(bad.items())[:_SHOWN]]
    more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    return f"{', '.join(shown)}{more}"
