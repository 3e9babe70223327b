"""Run a drill: its load, its faults and the final account. The lab and the playbook ``drill`` both use it.

All state is in one directory, where each task of a playbook reads the files of earlier tasks: ``drill.json`` (the
plan), ``faults.json`` (the faults so far), and the files of the load generators.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from activemq_fleet.audit.scraped_availability import ScrapedAvailability, read_availability
from activemq_fleet.drills.drill_verdict import (
    ATTEMPTS,
    drill_verdict_and_reasons,
    fault_void_reason,
    minimum_event_rate,
)
from activemq_fleet.drills.model import BrokerStateSpan, DrillResult, DrillSettingsAndMachine, Fault, ObservedState
from activemq_fleet.errors import FleetError, LabError
from activemq_fleet.lab.agent_load_generator import TwoAgentLoadSpec
from activemq_fleet.lab.drill_files import (
    broker_state_changes_since,
    describe_machine,
    fault_with_scraped_downtime,
    pair_outcomes_and_faults,
    state_spans,
)
from activemq_fleet.lab.drill_reach import require_nodes_reachable_by_load
from activemq_fleet.lab.load_process import is_load_running, specs_to_json
from activemq_fleet.lab.load_spec import LoadSpec, make_load_spec, supports_mqtt_agents
from activemq_fleet.lab.loopback_overlay import MARK, fleet_for_clients
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.node.host_paths import BROKER_LOG
from activemq_fleet.node.state.fault_kinds import FaultKind
from activemq_fleet.render.broker_paths import paths_of_broker
from activemq_fleet.topology import Broker, Fleet

METRICS = "metrics.json"
"""The file with the Prometheus data of a drill, which ``audit --metrics`` reads."""
_START_TIMEOUT = 600.0
_END_TIMEOUT = 900.0
_SECONDS_PER_FAULT = 600.0
_POLL = 0.2
_STATUS_MAX_AGE = 15.0  # Seconds. The load writes its status twice per second.
_CORRECT_HINT = "Correct the cause, and run the drill again"


class LoadEndedError(LabError):
    """An error for the test load of a drill that ended before the drill: no further fault proves anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillPlan:
    """The plan of a drill (faults injected under load): the pair of each fault, and the event rate.

    ``order`` has the pairs in the order of the faults; ``rate`` is in events per second on each pair.
    ``single_fault_pairs`` are the pairs whose node stays stopped after a fault, so that a pair gets only one fault.
    """

    order: tuple[str, ...]
    what: FaultKind
    rate: float
    seed: int
    target: str
    single_fault_pairs: tuple[str, ...] = ()

    @property
    def drilled_pair_names(self) -> tuple[str, ...]:
        """The names of the pairs into which a drill injects faults, each once, in the order of their first faults."""
        return tuple(dict.fromkeys(self.order))


@dataclass(frozen=True, slots=True)
class NextFaultNumberAndPair:
    """The next fault of a drill: its number, and the name of the pair that gets it (None after the last fault).

    Numbers begin at 1. ``faulted_hosts`` are the hosts that have had a fault in this drill.
    """

    pair: str | None
    number: int
    faulted_hosts: tuple[str, ...]


def is_lab_broker(broker: Broker) -> bool:
    """Return whether a broker belongs to a lab (real brokers on loopback addresses).

    A mark in the broker's JVM options shows it.
    """
    return any(option.startswith(MARK) for option in broker.settings.java_options)


class DrillRun:
    """A running drill (faults injected under load).

    Its files are in ``directory``. It is a context manager that ends the load on exit.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def begin(cls, plan: DrillPlan, fleet: Fleet, directory: Path, parent_pid: int) -> DrillRun:
        """Begin a drill (faults injected under load), and return the running drill.

        The load on the pairs of its plan is started. The load runs on this machine; events flow when this returns. The
        load ends with the process ``parent_pid``. Raises InputError, before anything is written, where this machine
        cannot open the brokers' connectors or log in there, and LabError when the load does not start.
        """
        client_fleet = _with_client_addresses(fleet)
        specs = [
            make_load_spec(client_fleet, client_fleet.pairs_by_name[pair], plan.rate)
            for pair in plan.drilled_pair_names
        ]
        require_nodes_reachable_by_load([spec for spec in specs if isinstance(spec, TwoAgentLoadSpec)])
        run = cls(directory)
        run._write_json("drill.json", asdict(plan))
        try:
            run._launch_load(specs, len(plan.order) * _SECONDS_PER_FAULT, parent_pid)
        except BaseException:
            run.__exit__()
            raise
        return run

    def __enter__(self) -> DrillRun:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        for signal_number in (signal.SIGINT, signal.SIGKILL):  # SIGINT also ends the agents of the load.
            self._process.send_signal(signal_number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(90)
                return

    @property
    def plan(self) -> DrillPlan:
        """The plan of the running drill: the kind of fault, the pair for each fault, and the message rate.

        It is read from ``drill.json``.
        """
        return TypeAdapter(DrillPlan).validate_python(self._read_json("drill.json"))

    @property
    def injected_faults(self) -> list[Fault]:
        """The faults that the drill has injected so far, in order."""
        path = self.directory / "faults.json"
        return TypeAdapter(list[Fault]).validate_json(path.read_bytes()) if path.exists() else []

    def next_fault_number_and_pair(self, broker_states: Mapping[str, str]) -> NextFaultNumberAndPair:
        """Return the number of the next fault to inject in the drill, and its pair (None after the last fault).

        A void fault (too few events flowed) is repeated, at most twice. After a failed fault, no further fault follows.
        The first call stores ``broker_states``, by host, as the initial states of the fleet. Later calls do not use
        them. Raises LoadEndedError when the load has ended.
        """
        drill, plan, faults = self._read_json("drill.json"), self.plan, self.injected_faults
        if "first" not in drill:
            self._write_json("drill.json", drill | {"first": dict(broker_states), "began": time.time()})
        self._raise_if_ended()
        faulted = tuple(sorted({fault.host for fault in faults}))
        if not any(fault.problem for fault in faults):
            for number, pair in enumerate(plan.order, 1):
                tries = [fault for fault in faults if fault.number == number]
                most_tries = 1 if pair in plan.single_fault_pairs else ATTEMPTS
                if not any(fault.void is None for fault in tries) and len(tries) < most_tries:
                    return NextFaultNumberAndPair(pair, number, faulted)
        return NextFaultNumberAndPair(None, len(plan.order), faulted)

    def wait_for_steady_load_rates(self, pair: str, patience: float) -> tuple[float, float]:
        """Wait until the load on a pair is steady, and return its rates of accepted and of handled events per second.

        The load is steady when both rates are high enough for a valid fault. After ``patience`` seconds, the method
        returns the rates of that time, which can be too low. Raises LoadEndedError when the load has ended.
        """
        required_rate = minimum_event_rate(self.plan.rate)

        def is_steady() -> bool:
            self._raise_if_ended()
            status = self._load_status(pair)
            return bool(status.get("steady")) and min(status["accepted"], status["handled"]) >= required_rate

        poll_for_true_result(is_steady, patience, _POLL)
        status = self._load_status(pair)
        return status.get("accepted", 0.0), status.get("handled", 0.0)

    def start_publishing_burst(self, pair: str) -> None:
        """Make a pair's load generator publish a burst of test messages, and wait until the burst has begun.

        The method waits at most 5 s.
        """
        request_file = self.directory / f"burst-{pair}"
        request_file.touch()
        poll_for_true_result(lambda: not request_file.exists(), 5, 0.01)

    def wait_until_subscriber_handles_any_event(self, pair: str, moment: float, timeout: float) -> None:
        """Wait until the subscriber of a pair's test load has handled a message later than ``moment`` (epoch seconds).

        The event may have been published before the moment. Raises LabError if the subscriber handles no event within
        ``timeout`` seconds, and LoadEndedError when the load has ended.
        """

        def is_handled() -> bool:
            self._raise_if_ended()
            return bool(self._load_status(pair).get("last", 0.0) > moment)

        if not poll_for_true_result(is_handled, timeout, _POLL):
            raise LabError(
                f"pair {pair}: the test load handled no event in the {timeout:g} s after the fault: check the logs of "
                "both nodes of the pair"
            )

    def record_fault_and_mark_if_void(self, fault: Fault) -> Fault:
        """Record a fault that the drill has injected, and return the fault.

        The fault is written to ``faults.json``. Its field ``void`` is set if too few events flowed for it to count.
        """
        fault = replace(fault, void=fault_void_reason(fault.rate_accepted, fault.rate_handled, self.plan.rate))
        self._write_json("faults.json", [asdict(stored_fault) for stored_fault in [*self.injected_faults, fault]])
        return fault

    def record_problem_of_last_fault(self, problem: str) -> None:
        """Record in ``faults.json`` an error, such as a broker that did not start, for the last fault of the drill.

        An error that is recorded already stays.
        """
        *others, last = self.injected_faults
        last = replace(last, problem=last.problem or problem)
        self._write_json("faults.json", [asdict(fault) for fault in [*others, last]])

    def finish_and_judge(
        self,
        fleet: Fleet,
        *,
        skew: float = 0.0,
        notes: tuple[str, ...] = (),
        scrapes: Callable[[float, float], bytes] | None = None,
    ) -> DrillResult:
        """Finish and judge the drill, and return its result with the verdict, such as ``clean``.

        The function ends the load, and accounts for every event. ``skew`` is the number of seconds by which the clocks
        of the brokers' hosts and of this machine may differ. ``scrapes`` returns the scrapes of Prometheus between two
        times, in the form that ``read_availability`` accepts. They are stored with the drill's files as
        ``metrics.json``. Without usable scrapes, a note of the result contains the reason.
        """
        (self.directory / "stop").touch()
        poll_for_true_result(lambda: not is_load_running(self.directory), _END_TIMEOUT, _POLL)
        load_problem = None
        if (self.directory / "failed").exists() or not (self.directory / "done").exists():
            load_problem = f"the test load did not end as planned ({self._load_end_reason()})"
        plan, ended = self.plan, time.time()
        accounts, faults = [], list[Fault]()
        for pair in plan.drilled_pair_names:
            pair_faults = [fault for fault in self.injected_faults if fault.pair == pair]
            protocol = "MQTT" if supports_mqtt_agents(fleet.pairs_by_name[pair]) else "STOMP"
            account, measured = pair_outcomes_and_faults(self.directory, pair, protocol, pair_faults, skew=skew)
            accounts.append(account)
            faults += measured
        drill = self._read_json("drill.json")
        began = float(drill.get("began", ended))
        scraped = None
        if scrapes:
            try:
                scraped = self._save_scrapes(scrapes(began, ended))
            except (FleetError, OSError) as error:
                notes += (f"the result does not contain the downtimes according to Prometheus: {error}",)
        if scraped:
            faults = [fault_with_scraped_downtime(fault, scraped, faults) for fault in faults]
        faults.sort(key=lambda fault: fault.at)
        verdict, reasons = drill_verdict_and_reasons(faults, accounts, len(plan.order), load_problem)
        return DrillResult(
            verdict=verdict,
            reasons=reasons,
            began=began,
            ended=ended,
            faults=tuple(faults),
            accounts=tuple(accounts),
            spans=tuple(_broker_state_spans(plan, drill.get("first", {}), fleet, faults, began, ended)),
            conditions=_drill_setup(plan, fleet, notes),
            scraped=scraped,
        )

    def _save_scrapes(self, answer: bytes) -> ScrapedAvailability:
        path = self.directory / METRICS
        path.write_bytes(answer)
        return read_availability(answer, str(path))

    def _launch_load(self, specs: Sequence[LoadSpec], longest: float, parent_pid: int) -> None:
        descriptor = os.open(self.directory / "load.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(specs_to_json(specs))
        command = [sys.executable, "-m", "activemq_fleet.lab.load_process", self.directory, longest, parent_pid]
        with (self.directory / "load.log").open("wb") as output:
            process = self._process = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        ready = self.directory / "ready"
        poll_for_true_result(lambda: ready.exists() or process.poll() is not None, _START_TIMEOUT, _POLL)
        if not ready.exists():
            (self.directory / "stop").touch()
            raise LabError(f"the drill cannot start its test load ({self._load_end_reason()}). {_CORRECT_HINT}")

    def _raise_if_ended(self) -> None:
        if (self.directory / "failed").exists() or not is_load_running(self.directory):
            raise LoadEndedError(f"the test load of the drill stopped ({self._load_end_reason()}). {_CORRECT_HINT}")

    def _load_end_reason(self) -> str:
        for name in ("failed", "load.log"):
            with suppress(FileNotFoundError):
                lines = (self.directory / name).read_text(errors="replace").split("\n")
                if words := [line.strip() for line in lines if line.strip()]:
                    return words[-1].rstrip(".")
        if is_load_running(self.directory):
            return "its process still runs, and printed nothing"
        return "its process ended without a message: the kernel log of this machine shows whether memory was exhausted"

    def _load_status(self, pair: str) -> dict[str, Any]:
        with suppress(OSError, ValueError, KeyError):
            status: dict[str, Any] = self._read_json("status.json")[pair]
            if time.time() - status["at"] <= _STATUS_MAX_AGE:
                return status
        return {}

    def _read_json(self, name: str) -> Any:
        return json.loads((self.directory / name).read_text())

    def _write_json(self, name: str, content: Any) -> None:
        (self.directory / name).write_text(json.dumps(content))


def fault_from_mapping(fields_of_playbook: Mapping[str, Any]) -> Fault:
    """Return a Fault of a drill from a mapping of its field names to the values that a playbook passes.

    Numbers may be text, and empty values count as unknown.
    """
    return TypeAdapter(Fault).validate_python(
        {name: value for name, value in fields_of_playbook.items() if value not in (None, "")}
    )


def _with_client_addresses(fleet: Fleet) -> Fleet:
    """Return the fleet with the addresses to which clients connect: in a lab, those to which the brokers are bound."""
    if all(map(is_lab_broker, fleet.brokers)):
        return fleet_for_clients(fleet, {broker.host: broker.settings.bind for broker in fleet.brokers})
    return fleet


def _drill_setup(plan: DrillPlan, fleet: Fleet, notes: tuple[str, ...]) -> DrillSettingsAndMachine:
    masters = {pair: fleet.pairs_by_name[pair].preferred_master for pair in plan.drilled_pair_names}
    return DrillSettingsAndMachine(
        where="lab" if all(map(is_lab_broker, fleet.brokers)) else "hosts",
        what=plan.what,
        wanted=len(plan.order),
        rate=plan.rate,
        seed=plan.seed,
        target=plan.target or "the whole fleet",
        releases={pair: broker.release.text for pair, broker in masters.items()},
        profiles={pair: broker.settings.ha for pair, broker in masters.items()},
        protocols={pair: "MQTT" if supports_mqtt_agents(fleet.pairs_by_name[pair]) else "STOMP" for pair in masters},
        machine=describe_machine(),
        notes=notes,
    )


def _broker_state_spans(
    plan: DrillPlan,
    first: Mapping[str, ObservedState],
    fleet: Fleet,
    faults: Sequence[Fault],
    began: float,
    ended: float,
) -> Iterator[BrokerStateSpan]:
    """Yield the spans of the brokers' states over time, from faults, and from logs that are on the local machine."""
    changes: dict[str, list[tuple[float, ObservedState]]] = {}
    for fault in faults:
        down: ObservedState = "hung" if fault.what == "pause" else "stopped"
        changes.setdefault(fault.host, []).append((fault.at, down))
        if fault.successor and fault.takeover is not None:
            changes.setdefault(fault.successor, []).append((fault.at + fault.takeover, "active"))
        if fault.back is not None and not (fault.successor and is_lab_broker(fleet.broker(fault.host))):
            changes[fault.host].append((fault.at + fault.back, "standby" if fault.successor else "active"))
    for pair in plan.drilled_pair_names:
        for broker in fleet.pairs_by_name[pair].brokers_in_dialling_order:
            logged = _logged_state_changes(broker, began) if is_lab_broker(broker) else []
            state = first.get(broker.host, "unknown")
            yield from state_spans(pair, broker.host, state, changes.get(broker.host, []) + logged, began, ended)


def _logged_state_changes(broker: Broker, began: float) -> list[tuple[float, ObservedState]]:
    log = Path(paths_of_broker(broker).data, BROKER_LOG)
    return broker_state_changes_since(log.read_text(errors="replace"), began) if log.exists() else []
