"""Gather the evidence for the status of a lab's brokers, with the same code that runs on managed hosts."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Collection
from typing import Any

from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.lab_state_file import require_lab_state
from activemq_fleet.node.process.proc import activemq_bases_in_command, process_ids
from activemq_fleet.node.state.broker_status import gather_broker_status
from activemq_fleet.render.broker_paths import paths_of_broker
from activemq_fleet.status import FleetStatus, fleet_status
from activemq_fleet.topology import Fleet

_PROCESSES = 16
_SECONDS_PER_BROKER = 0.1
"""Maximum number of seconds that a healthy broker takes to answer; the deadline grows by it for each broker."""


def lab_fleet(lab_paths: LabPaths) -> Fleet:
    """Return the fleet of a lab (real brokers on loopback addresses).

    The brokers have their own host names. Raises InputError where there is no lab.
    """
    return require_lab_state(lab_paths).fleet()


def lab_status(fleet: Fleet, hosts: Collection[str], chosen: Collection[str], timeout: float) -> FleetStatus:
    """Query the brokers of a lab, and return their status.

    The brokers in ``hosts`` are queried; the status is about the hosts in ``chosen``. A broker that does not answer
    within ``timeout`` seconds is unreachable. It delays no other broker.
    """
    began = time.monotonic()
    bases = {broker.host: paths_of_broker(broker).base for broker in fleet.brokers if broker.host in hosts}
    deadline = began + timeout + _SECONDS_PER_BROKER * len(bases)
    evidence: dict[str, dict[str, Any]] = {}
    # Each broker is inspected in a separate process, because reading a store may hang in the kernel.
    pool = multiprocessing.get_context("fork").Pool(min(_PROCESSES, max(1, len(bases))), _ignore_sigint)
    try:
        pids = _pids_by_base()
        pending_answers = {
            host: pool.apply_async(gather_broker_status, (base, None, pids.get(base, ())))
            for host, base in bases.items()
        }
        for host, answer in pending_answers.items():
            try:
                evidence[host] = {"broker": answer.get(max(0.0, deadline - time.monotonic()))}
            except multiprocessing.TimeoutError:
                evidence[host] = {"unreachable": f"the broker did not answer within {timeout:g} s"}
    finally:
        pool.terminate()
    return fleet_status(fleet, evidence, chosen=chosen, seconds=time.monotonic() - began)


def _pids_by_base() -> dict[str, list[int]]:
    """Return the ids of all processes that name a broker's directory, by directory.

    A machine with forty brokers has hundreds of processes, and a separate search per broker would read all of them.
    """
    pids: dict[str, list[int]] = {}
    for pid in process_ids():
        for directory in activemq_bases_in_command(pid):
            pids.setdefault(directory, []).append(pid)
    return pids


def _ignore_sigint() -> None:
    """Ignore SIGINT (Ctrl-C) in the current child process, because only the parent handles it."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgrp()
