"""Start a fleet: preferred masters first, so that they become active; different pairs at the same time.

A pure slave is started only when its master listens for it: a slave without a master opens its own connectors, and the
pair has two masters. A standby is started when its master has the store. A broker is ready when it answers and has
loaded its configuration completely; open ports are not enough. A pure pair whose stores may differ is not started: they
are equal only while both nodes run.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from activemq_fleet.errors import LabError
from activemq_fleet.lab.lab_brokers import LabBrokers
from activemq_fleet.node.judge import BrokerState
from activemq_fleet.node.probe.settling import READY_STATES, ReadinessDetector, is_loading_configuration
from activemq_fleet.node.process.proc import Process
from activemq_fleet.topology import Broker, Pair

Progress = Callable[[str], None]

_POLL = 0.1
_SETTLE_POLL = 0.3  # Each check takes a thread dump.
_PROBE_TIMEOUT = 8.0
_ACTIVE: tuple[BrokerState, ...] = ("active",)
_STANDBY: tuple[BrokerState, ...] = ("standby",)
_START_WITH_EMPTY_STORES = (
    "To continue with equal stores, run `lab up --fresh`, which stops the lab and starts all its brokers with empty "
    "stores"
)


class _GivenUpError(Exception):
    """The start of a broker was given up, because another broker failed or the user interrupted it."""


class FleetStartup:
    """A starter of brokers: it starts a lab's stopped brokers in the order that each pair requires, and waits for them.

    ``timeout`` is for each broker, in seconds. ``loading`` returns whether a broker's process is still loading its
    configuration.
    """

    def __init__(
        self,
        hosts: LabBrokers,
        timeout: float,
        progress: Progress,
        loading: Callable[[Process], bool | None] = is_loading_configuration,
    ) -> None:
        self._loading = loading
        self._hosts = hosts
        self._timeout = timeout
        self._progress = progress
        self._given_up = threading.Event()
        # If more JVMs start at once, all of them start more slowly.
        self._start_slots = threading.BoundedSemaphore(2 * (os.cpu_count() or 1))

    def start_all_brokers(self, pairs: Sequence[Pair]) -> None:
        """Start all stopped brokers of the given pairs, and wait until every broker is ready.

        Raises LabError for the first that fails, with its last error and the path of its log.
        """
        with ThreadPoolExecutor(max_workers=max(1, len(pairs)), thread_name_prefix="lab-up") as pool:
            futures = [pool.submit(self._start_pair, pair) for pair in pairs]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                if not all(future.done() and not future.exception() for future in futures):
                    self._given_up.set()
        for future in futures:
            if (error := future.exception()) and not isinstance(error, _GivenUpError):
                raise error

    def start_broker(self, broker: Broker) -> None:
        """Start one broker of a fleet, and wait until it is ready.

        For a pure master with a slave it returns when the slave may attach. Raises LabError when it is not ready in
        time.
        """
        if broker.ha_profile.replicates and broker.role == "master" and broker.peer:
            self._start_pure_master(broker)
        else:
            self._start(broker, READY_STATES)
            self._wait_until_loaded(broker)

    def check_brokers_alive(self, brokers: Iterable[Broker]) -> None:
        """Check that the processes of brokers are alive, and raise LabError if one has ended."""
        for broker in brokers:
            if not self._hosts.is_alive(broker):
                raise self._stopped_error(broker, f"{broker.host}: the broker stopped after its start was complete")

    def _start_pair(self, pair: Pair) -> None:
        ordered = pair.brokers_in_dialling_order
        if not pair.ha_profile.has_peer:
            for broker in ordered:
                self._start(broker, _ACTIVE)
        elif pair.ha_profile.replicates:
            self._start_pure_master(ordered[0])
            for slave in ordered[1:]:
                self._start(slave, _STANDBY)
            self._wait_for_state(ordered[0], _ACTIVE)
        else:
            # A running node has acquired the store, or will acquire it soon.
            for broker in sorted(ordered, key=lambda b: not self._hosts.is_alive(b)):
                self._start(broker, READY_STATES)
            self._wait_for_active_node(ordered)
        for broker in ordered:
            self._wait_until_loaded(broker)

    def _start(self, broker: Broker, accepted_states: Collection[BrokerState]) -> None:
        with self._start_slots:
            self._launch(broker)
            self._wait_for_state(broker, accepted_states)

    def _start_pure_master(self, broker: Broker) -> None:
        with self._start_slots:
            self._launch(broker)
            port = broker.ports["replication"]
            complaint = f"{broker.host}: the master does not listen for its slave"
            self._wait_until(broker, lambda: self._hosts.listens_on_port(broker, port), complaint)

    def _launch(self, broker: Broker) -> None:
        if self._given_up.is_set():
            raise _GivenUpError
        if not self._hosts.is_alive(broker):
            self._hosts.launch_process(broker)

    def _wait_for_state(self, broker: Broker, accepted_states: Collection[BrokerState]) -> None:
        began, state = time.monotonic(), "starting"

        def is_ready() -> bool:
            nonlocal state
            state = self._hosts.observe_broker(broker, timeout=_PROBE_TIMEOUT).state
            return state in accepted_states

        self._wait_until(broker, is_ready, f"{broker.host}: the broker is not {' or '.join(accepted_states)}")
        self._progress(f"{broker.host} is {state} ({time.monotonic() - began:.1f} s)")

    def _wait_for_active_node(self, brokers: Sequence[Broker]) -> None:
        """Wait until one of the nodes of a pair is active.

        It can take as long as a lease of the last run.
        """

        def is_any_active() -> bool:
            return any(
                self._hosts.observe_broker(broker, timeout=_PROBE_TIMEOUT).state == "active" for broker in brokers
            )

        names = " and ".join(broker.host for broker in brokers)
        self._wait_until(
            brokers[0], is_any_active, f"{names}: neither broker has acquired the lock of the shared store"
        )

    def _wait_until_loaded(self, broker: Broker) -> None:
        """Wait until a ready broker has loaded its configuration completely.

        Until then, a bean of the configuration may still stop the broker.
        """
        settling = ReadinessDetector(self._loading)

        def is_settled() -> bool:
            snapshot = self._hosts.observe_broker(broker, timeout=_PROBE_TIMEOUT)
            return settling.is_stably_ready(snapshot.java, snapshot.state)

        complaint = f"{broker.host}: the broker has not loaded its configuration completely"
        self._wait_until(broker, is_settled, complaint, pause=_SETTLE_POLL)

    def _stopped_error(self, broker: Broker, problem: str) -> LabError:
        return LabError(
            f"{problem}. Its last error is: {self._hosts.failure_reason(broker)}. "
            "Correct the cause, and run the command again"
        )

    def _wait_until(self, broker: Broker, condition: Callable[[], bool], complaint: str, pause: float = _POLL) -> None:
        deadline = time.monotonic() + self._timeout
        while not condition():
            if self._given_up.wait(pause):
                raise _GivenUpError
            if not self._hosts.is_alive(broker):
                raise self._stopped_error(broker, f"{broker.host}: the broker stopped while it was starting")
            if time.monotonic() > deadline:
                detail = self._hosts.observe_broker(broker, timeout=_PROBE_TIMEOUT)
                reason_text = f"{detail.reason}; " if detail.reason else ""
                raise LabError(
                    f"{complaint} after {self._timeout:g} s. Its state is {detail.state}, and its last error is: "
                    f"{reason_text}{self._hosts.failure_reason(broker)}. Correct the cause, or run `lab up` with a "
                    "longer --timeout"
                )


def require_equal_stores_of_pure_pair(hosts: LabBrokers, pair: Pair) -> None:
    """Raise LabError if the message stores of a pure pair's master and slave may differ, as after a failover.

    In a pure pair, master and slave have a store each. They may differ if one node ran alone or took over. For a pair
    of another profile, the function does nothing.
    """
    if not pair.ha_profile.replicates:
        return
    alive = [broker for broker in pair.brokers_in_dialling_order if hosts.is_alive(broker)]
    if len(alive) == len(pair.brokers):
        return
    if alive or _ran_alone(hosts, pair.brokers):
        raise LabError(
            f"pair {pair.name} cannot be started, because the stores of its nodes may differ after a failover. "
            f"{_START_WITH_EMPTY_STORES}"
        )


def check_pure_start_order(hosts: LabBrokers, broker: Broker, progress: Progress) -> None:
    """Check that a pure master is started before its slave and with an equal store, and raise LabError if not.

    A pure master must not start while its slave runs, nor a slave without its master. A node must not start if its
    peer runs and has served alone. If a stopped node served alone, ``progress`` gets a warning instead, because the
    stores may have been made equal since then.
    """
    if not broker.ha_profile.replicates or broker.peer is None:
        return
    peer = hosts.fleet.broker(broker.peer)
    alive = hosts.is_alive(peer)
    if alive and _ran_alone(hosts, [peer] if broker.role == "slave" else [broker, peer]):
        raise LabError(
            f"{broker.host}: the broker cannot be started, because its store may differ from the store of {peer.host}, "
            f"which runs, after a failover. {_START_WITH_EMPTY_STORES}"
        )
    if broker.role == "master" and alive:
        raise LabError(
            f"{broker.host}: the slave {peer.host} of this master runs, but a master must start before its slave: stop "
            f"{peer.host}, and start {broker.host} first"
        )
    if broker.role == "slave" and not (alive and hosts.listens_on_port(peer, peer.ports["replication"])):
        raise LabError(
            f"{broker.host}: the master {peer.host} of this slave does not listen, and without its master the slave "
            f"would become a second master: start {peer.host} first"
        )
    if _ran_alone(hosts, [broker, peer]):
        progress(
            f"warning: {broker.host}: the stores of the pair {broker.pair} may differ after a failover, and the "
            f"broker serves only the messages of its own store. {_START_WITH_EMPTY_STORES}"
        )


def _ran_alone(hosts: LabBrokers, brokers: Iterable[Broker]) -> bool:
    """Return whether any of the given pure brokers served clients without its peer, according to its last run."""
    runs = [hosts.state_from_log(broker) for broker in brokers]
    return any(run.promoted or run.lost_slave for run in runs)
