# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Observes a broker's process on its machine: gathers the evidence from which the judge concludes the broker's state.

The modules and ``status``, the watchdog and the lab differ in how they find the process and in how many connectors they
probe; what is observed is the same.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from .config.broker_configuration import DeployedBrokerSettings, Listener
from .judge import Evidence
from .log.broker_run import UNKNOWN, LoggedBrokerPhase
from .probe.broker_connection import ExpectedBroker, expected_broker_of_process
from .probe.connector_probe import ProbeAnswer, probe_listener
from .process import held_by_process
from .process.proc import Process
from .protocols import supports_round_trip

Probe = typing.Callable[[DeployedBrokerSettings, ExpectedBroker], typing.Mapping[str, ProbeAnswer]]
"""A function that probes connectors of a broker and returns their answers by name."""


def observe_broker(
    process: Process | None,
    deployed: DeployedBrokerSettings,
    probe: Probe,
    read_phase: Callable[[Process], LoggedBrokerPhase],
    *,
    briefly: bool = False,
) -> Evidence:
    """Observe a broker, and return the evidence about its state.

    The evidence is what its process, connectors, log, ports and store lock show. ``deployed`` is the configuration
    that the process was started with; ``read_phase`` returns the phase that the log of a process shows. A frozen
    process answers nothing and is not probed. ``briefly``: log and ports are read only where a connector did not
    answer, and the lock never, because the file system of a store may not respond.
    """
    if process is None:
        return Evidence(None, pure=deployed.pure)
    is_frozen = process.state == "T"
    answers = {} if is_frozen else probe(deployed, expected_broker_of_process(process))
    if briefly and not is_frozen and all(answer.returned is not False for answer in answers.values()):
        return Evidence(process, UNKNOWN, answers, deployed.pure)
    addresses = [listener.address for listener in deployed.listeners]
    listens = held_by_process.process_account_listens_on_one_of(process.pid, addresses)
    is_locked = not briefly and deployed.store != ""
    holds_lock = held_by_process.holds_store_lock(process.pid, deployed.store) if is_locked else False
    return Evidence(process, read_phase(process), answers, deployed.pure, listens, holds_lock)


def probe_connectors_until_first_silent(
    deployed: DeployedBrokerSettings, expected: ExpectedBroker
) -> dict[str, ProbeAnswer]:
    """Probe a broker's connectors one by one until one is silent; return a dict of the answers by connector name.

    Those that support a round trip are first. A broker that hangs would take the time of every connector.
    """
    answers: dict[str, ProbeAnswer] = {}
    for listener in sorted(deployed.listeners, key=lambda listener: not supports_round_trip(listener.scheme)):
        answer = answers[listener.name] = probe_listener(deployed, listener, expected)
        if answer.returned is False and not answer.failed:
            break
    return answers


def probe_connectors_together(
    listeners: Sequence[Listener], deployed: DeployedBrokerSettings, expected: ExpectedBroker, timeout: float
) -> dict[str, ProbeAnswer]:
    """Probe several connectors of a broker in parallel, and return a dict of the answers by connector name.

    A broker that hangs takes the time of one.
    """
    if not listeners:
        return {}
    with ThreadPoolExecutor(len(listeners)) as pool:
        pending = {
            listener.name: pool.submit(probe_listener, deployed, listener, expected, timeout) for listener in listeners
        }
    return {name: answer.result() for name, answer in pending.items()}
