"""How a broker stands: what its process, its log and its answer say together.

An open port is not ready. An active broker has given a message back; a standby lives and its log
says that it waits for the lock, or that it is attached to its master.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import Literal

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab.clients import stomp_round_trip
from activemq_fleet.lab.loopback_overlay import LAB_USER, PROBE
from activemq_fleet.lab.mqtt import mqtt_round_trip
from activemq_fleet.lab.stomp import Credentials, StompSilence
from activemq_fleet.logs import Phase
from activemq_fleet.settings.encrypted import EncryptedValue
from activemq_fleet.topology import Broker

State = Literal["active", "standby", "starting", "stopped", "hung"]
STATES: tuple[State, ...] = ("active", "standby", "starting", "stopped", "hung")
Answer = Literal["answered", "silent", "refused"]
PROBE_TIMEOUT = 10.0
"""Seconds after which a broker that says nothing counts as hung: one of a busy machine may need several."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of asking a broker; ``detail`` says why it did not answer."""

    answer: Answer
    detail: str = ""


def judge(
    *,
    alive: bool,
    frozen: bool,
    phase: Phase,
    probe: Probe | None,
    listens: bool = False,
    is_complete: bool = True,
) -> State:
    """The state of a broker. Pure. ``probe`` is needed where it listens, or its log calls it started.

    ``listens``: its process has ports of its connectors open, which no standby has. ``is_complete``: it
    needs no slave, or its log has told of one: a pure master answers before. A log only distinguishes
    what ports and answers leave open, because clients can write into it (log4j 1 writes their line ends).

    A broker that its log calls started and whose connectors refuse is starting: the first
    connector opens before the last.
    """
    if not alive:
        return "stopped"
    if frozen:
        return "hung"
    if probe is not None and probe.answer == "answered":
        return "active" if is_complete else "starting"
    if probe is not None and probe.answer == "silent" and (listens or phase == "started"):
        return "hung"
    return "standby" if phase in ("waiting", "attached") and not listens else "starting"


def ask(broker: Broker, address: str, *, timeout: float = PROBE_TIMEOUT) -> Probe:
    """Let a broker give one message back, over STOMP, else MQTT, within ``timeout`` seconds.

    One that has neither is asked for a connection only; one without connectors, a promoted pure
    slave, has nothing to be asked for.
    """
    topic = f"{PROBE}.{broker.identity.host.replace('.', '-')}"
    stomp, mqtt = broker.connector("stomp"), broker.connector("mqtt")
    credentials = credentials_of(broker)
    try:
        if stomp and "ssl" not in stomp.scheme:
            stomp_round_trip((address, stomp.port), credentials, topic, timeout=timeout)
        elif mqtt and "ssl" not in mqtt.scheme and broker.release.has_usable_mqtt:
            mqtt_round_trip((address, mqtt.port), credentials, topic.replace(".", "/"), timeout=timeout)
        elif broker.openwire:
            socket.create_connection((address, broker.openwire.port), timeout).close()
    except (StompSilence, TimeoutError) as error:
        return Probe("silent", str(error))
    except (LabError, OSError) as error:
        return Probe("refused", str(error))
    return Probe("answered")


def credentials_of(broker: Broker) -> Credentials | None:
    """Who may log in here: the lab's own user where there are ACLs, else the first account.

    None for a broker that lets everybody in.
    """
    accounts = sorted(broker.accounts, key=lambda account: account.name != LAB_USER)
    for account in accounts:
        if account.password is not None and not isinstance(account.password, EncryptedValue):
            return Credentials(account.name, account.password.get_secret_value())
    return None


def listening_on(listening: tuple[str, ...], port: int) -> bool:
    """Whether a log's ``Listening for connections at`` lines name a port."""
    return any(uri.partition("?")[0].endswith(f":{port}") for uri in listening)


def taken_port(address: Address) -> bool:
    """Whether somebody listens there already. Raises OSError for an address that is not ours."""
    with socket.socket() as mine:
        # As the JVM binds: a port whose last connections are only fading is free.
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            mine.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return True
    return False
