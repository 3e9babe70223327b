"""Run a drill of a lab: put load on pairs, inject faults into active nodes, and account for every event."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from activemq_fleet.audit.scraped_availability import QUERY
from activemq_fleet.drills.model import DrillResult, Fault
from activemq_fleet.errors import FleetError, InputError, LabError
from activemq_fleet.lab.drill_run import DrillPlan, DrillRun, LoadEndedError
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.lab_paths import LabPaths
from activemq_fleet.lab.polling import poll_for_true_result
from activemq_fleet.lab.startup import Progress
from activemq_fleet.node.state.fault_kinds import FaultKind
from activemq_fleet.node.timeouts import HUNG, SETTLE
from activemq_fleet.operations.drill_steps import choose_pair_names_for_faults, drill_refusal_reason, next_drill_step
from activemq_fleet.operations.target import PossibleTargetHost, resolve_target

_BURST_HEAD_START = 0.03  # Seconds until the first events of a burst are sent.


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOptions:
    """The options of a drill (faults injected under load) in a lab.

    Times are in seconds. ``faults`` is the number of faults that must count. ``target`` is a pair, group or host; empty
    means the whole fleet. ``rate`` is events per second for each pair. ``seed`` decides the order of the pairs.
    ``hung`` is how long a node is frozen, ``patience`` how long each awaited change may take. With ``prometheus`` the
    lab's Prometheus is started, and its scrapes become part of the result. A Prometheus that already runs is always
    used. ``resync`` repairs the pure pair of the given name after a fault, as the playbook ``resync`` does. Without it
    a pure pair gets at most one fault.
    """

    faults: int = 5
    what: FaultKind = "kill"
    target: str = ""
    rate: float = 100.0
    seed: int | None = None
    hung: float = HUNG
    patience: float = SETTLE
    prometheus: bool = False
    resync: Callable[[str], None] | None = None


def run_drill(lab: Lab, options: DrillOptions, progress: Progress | None = None) -> DrillResult:
    """Run a drill (faults injected under load) in a lab, and return its result.

    A lab that was not running is started for the drill, and stopped. Afterwards no broker is frozen and no agent of the
    drill runs, even after an error. Raises FleetError for a fleet that cannot be drilled, and LabError while another
    drill runs in the lab; errors after the first fault are in the result.
    """
    if not lab.exists:
        lab.read_usable_inventory()  # before the lock, which creates the directory
    with LabPaths(lab.directory).hold_drill_lock():
        return _run_locked_drill(lab, options, progress or (lambda _line: None))


def _run_locked_drill(lab: Lab, options: DrillOptions, progress: Progress) -> DrillResult:
    ran = _is_running(lab)
    options = replace(options, prometheus=options.prometheus or (ran and bool(lab.monitoring.running_pids())))
    lab.prepare(prometheus=options.prometheus)
    plan = _make_plan(lab, options, progress)
    try:
        lab.up(prometheus=options.prometheus)
        return _LabDrill(lab, options, progress).run(plan)
    finally:
        if not ran:
            lab.down()


def _is_running(lab: Lab) -> bool:
    try:
        return any(host.pid is not None for host in lab.status())
    except (InputError, LabError):
        return False


def _make_plan(lab: Lab, options: DrillOptions, progress: Progress) -> DrillPlan:
    """Return the plan of a drill: the pair of each fault.

    Pairs of the target that get no fault are reported. Raises InputError.
    """
    fleet = lab.fleet
    hosts = [PossibleTargetHost(b.host, b.pair, b.group, b.role) for b in fleet.brokers]
    target = resolve_target(hosts, options.target, option="--target")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1, 1_000_000)
    chosen = [pair for pair in fleet.pairs_by_name.values() if pair.name in target.pairs]
    order = choose_pair_names_for_faults(
        fleet, chosen, options.faults, seed, options.what, resync=options.resync is not None
    )
    refused = {pair.name: drill_refusal_reason(fleet, pair, options.what) for pair in chosen}
    are_all_pure = all(pair.ha_profile.needs_resync for pair in chosen if refused[pair.name] is None)
    for pair in chosen:
        if pair.name in order:
            continue
        if refused[pair.name] is None and pair.ha_profile.needs_resync and options.resync is None:
            reason = (
                "the drill injects at most one fault into each pair with activemq_ha: pure, and leaves one pair of "
                f"each group without a fault (--kills {options.faults})"
                if are_all_pure
                else "the target also contains pairs without activemq_ha: pure"
            )
            progress(
                f"pair {pair.name} gets no fault, because {reason}. To inject a fault into this pair, set --target "
                f"{pair.name} --kills 1"
            )
        else:
            progress(
                refused[pair.name]
                or f"pair {pair.name} gets no fault, because --kills is {options.faults}. Set a higher --kills"
            )
    return DrillPlan(
        order=order,
        what=options.what,
        rate=options.rate,
        seed=seed,
        target=options.target,
        single_fault_pairs=tuple(
            sorted(pair.name for pair in chosen if pair.ha_profile.needs_resync and options.resync is None)
        ),
    )


@dataclass
class _LabDrill:
    lab: Lab
    options: DrillOptions
    progress: Progress
    _faulted_hosts: set[str] = field(default_factory=set)

    def run(self, plan: DrillPlan) -> DrillResult:
        directory = self.lab.directory / "drill"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700)
        for pair in plan.drilled_pair_names:
            self.progress(f"the test load on pair {pair} is {plan.rate:g} events per second")
        with DrillRun.begin(plan, self.lab.fleet, directory, os.getpid()) as run:
            with self._restore_brokers_at_exit():
                try:
                    self._inject_all_faults(plan, run)
                except FleetError as error:
                    if not run.injected_faults:
                        raise
                    if not isinstance(error, LoadEndedError):  # An end of the load is no failure of the last fault.
                        run.record_problem_of_last_fault(str(error))
            self.progress("stopping the load")
            scrapes = (
                partial(self.lab.monitoring.query_prometheus_range_json, QUERY) if self.options.prometheus else None
            )
            return run.finish_and_judge(self.lab.fleet, scrapes=scrapes)

    def _inject_all_faults(self, plan: DrillPlan, run: DrillRun) -> None:
        """Inject all faults of the drill, one after the other.

        The states of the brokers at each step decide the next fault.
        """
        last_act_time = time.monotonic()
        while True:
            states = {status.host: str(status.state) for status in self.lab.status()}
            by_pair = {
                pair: {b.host: states[b.host] for b in self.lab.fleet.pairs_by_name[pair].brokers}
                for pair in plan.drilled_pair_names
            }
            for pair in plan.drilled_pair_names:
                if two_masters := self.lab.describe_two_masters(pair):
                    raise LabError(
                        f"the drill stops, because pair {pair} has two masters: {two_masters}. Stop the lab (`lab "
                        "down`), and read the logs of both nodes"
                    )
            next_fault = run.next_fault_number_and_pair(states)
            drilled_states = {
                pair: nodes
                for pair, nodes in by_pair.items()
                if pair not in plan.single_fault_pairs or nodes.keys().isdisjoint(next_fault.faulted_hosts)
            }
            waited = time.monotonic() - last_act_time
            step = next_drill_step(
                drilled_states, next_fault.pair, next_fault.faulted_hosts, waited=waited, settle=self.options.patience
            )
            match step.act:
                case "done":
                    return
                case "wait":
                    time.sleep(1)
                    continue
                case "start":
                    self.lab.start(*step.hosts, timeout=self.options.patience)
                case "resume":
                    self.lab.resume(*step.hosts)
                case "inject":
                    prefix = f"fault {next_fault.number} of {len(plan.order)}: {plan.what} {step.hosts[0]}"
                    fault = run.record_fault_and_mark_if_void(
                        self._inject_fault(run, next_fault.number, str(step.pair), step.hosts[0], prefix)
                    )
                    if problem := fault.problem or (f"the fault does not count: {fault.void}" if fault.void else ""):
                        self.progress(f"{prefix}: {problem}")
            last_act_time = time.monotonic()

    def _inject_fault(self, run: DrillRun, number: int, pair: str, host: str, prefix: str) -> Fault:
        """Inject one fault, and wait until the pair has an active and a standby node again.

        The returned fault describes what went wrong. The takeover is printed, after ``prefix``, before the failed node
        returns. Raises LoadEndedError, without a fault, if the load has ended.
        """
        accepted, handled = run.wait_for_steady_load_rates(pair, self.options.patience)
        fault = Fault(
            number=number,
            what=self.options.what,
            pair=pair,
            host=host,
            at=time.time(),
            rate_accepted=accepted,
            rate_handled=handled,
        )
        run.start_publishing_burst(pair)
        time.sleep(_BURST_HEAD_START)
        try:
            with self.lab.record_operation_begin_and_end("lab drill", host):
                fault = replace(fault, at=self._disrupt_broker(host))
                fault = self._wait_for_recovery(fault, prefix)
            since = fault.at + 0.5 + (self.options.hung if fault.what == "pause" else 0)
            run.wait_until_subscriber_handles_any_event(pair, since, self.options.patience)
        except LoadEndedError:
            return fault  # The fault did not fail, and the next step ends the drill.
        except FleetError as error:
            return replace(fault, problem=str(error))
        return fault

    def _disrupt_broker(self, host: str) -> float:
        """Kill, stop or freeze a broker, and return the time of the fault in seconds since the epoch."""
        self._faulted_hosts.add(host)
        at = time.time()
        act: Callable[[str], float | None] = getattr(self.lab, self.options.what)
        return act(host) or at

    def _wait_for_recovery(self, fault: Fault, prefix: str) -> Fault:
        """Wait until a pair has recovered from a fault; return the fault with its measured effects."""
        if fault.what == "pause":
            fault = self._kill_or_resume_frozen_broker(fault)
            if fault.back is not None:
                self.progress(f"{prefix}: {_describe_takeover(fault)}")
                return fault
        if fault.successor is None:
            fault = self._wait_for_takeover(fault)
        successor = str(fault.successor)
        since = self.lab.started_at(successor)
        fault = replace(fault, takeover=since - fault.at if since else None)
        self.progress(f"{prefix}: {_describe_takeover(fault)}")
        if self.lab.fleet.broker(fault.host).ha_profile.needs_resync:
            return self._resync(fault)
        self._wait_until_standby(fault.host)
        return replace(fault, back=time.time() - fault.at)

    def _wait_for_takeover(self, fault: Fault) -> Fault:
        """Wait until a node of the pair is active, and return the fault with its successor.

        A lab has no systemd, so the drill starts another node that stops in this time, as its service unit does. The
        note of the fault then contains the reason of the stop. The unit of a pure broker does not start it again.
        """
        try:
            return replace(fault, successor=self.lab.wait_active(fault.pair, self.options.patience))
        except LabError as error:
            brokers = self.lab.fleet.pairs_by_name[fault.pair].brokers
            stopped_hosts = [b.host for b in brokers if b.host != fault.host and not self.lab.is_alive(b.host)]
            if not stopped_hosts or brokers[0].ha_profile.needs_resync:
                raise
            note = f"the drill started {' and '.join(stopped_hosts)} again, as systemd does on a managed host: {error}"
            self.progress(note)
            self.lab.start(*stopped_hosts, timeout=self.options.patience)
            return replace(fault, successor=self.lab.wait_active(fault.pair, self.options.patience), note=note)

    def _resync(self, fault: Fault) -> Fault:
        """Repair a pure pair after a fault if the drill can, and return the fault.

        The field ``back`` of the returned fault is known if the pair was repaired.
        """
        self._faulted_hosts.discard(fault.host)
        if self.options.resync is None:
            return replace(
                fault,
                note="the failed node stays stopped: only the playbook resync restores a pair with activemq_ha: pure",
            )
        began = time.time()
        self.options.resync(fault.pair)
        ended = time.time()
        return replace(fault, back=ended - fault.at, note=f"the resync of pair {fault.pair} took {ended - began:.1f} s")

    def _wait_until_standby(self, host: str) -> None:
        """Wait until a broker is standby again; start it unless its process restarts it."""

        def is_stopped_or_standby() -> bool:
            return not self.lab.is_alive(host) or self.lab.state(host) == "standby"

        poll_for_true_result(is_stopped_or_standby, self.options.patience)
        if not self.lab.is_alive(host):
            self.lab.start(host, timeout=self.options.patience)

    def _kill_or_resume_frozen_broker(self, fault: Fault) -> Fault:
        """Kill or resume a frozen broker, as the watchdog of its host would; return the fault.

        A lab has no watchdog, so the drill does what the variable ``activemq_watchdog`` requires.
        """
        time.sleep(self.options.hung)
        broker = self.lab.fleet.broker(fault.host)
        if broker.settings.watchdog == "kill":
            self.lab.kill(fault.host)
            note = f"the drill killed the frozen broker after {self.options.hung:g} s, as activemq_watchdog: kill does"
            return replace(fault, note=note)
        successor = self.lab.active(fault.pair)
        self.lab.resume(fault.host)
        if successor:
            note = f"the drill resumed the frozen broker after {self.options.hung:g} s, when {successor} was active"
            return replace(fault, successor=successor, note=note)
        return replace(
            fault,
            back=time.time() - fault.at,
            note=f"the drill resumed the frozen broker after {self.options.hung:g} s. No node took over, because a "
            f"frozen broker keeps its lock and activemq_watchdog is {broker.settings.watchdog}",
        )

    @contextmanager
    def _restore_brokers_at_exit(self) -> Iterator[None]:
        """Resume frozen brokers and start stopped brokers when the ``with`` block ends, also after an error."""
        try:
            yield
        finally:
            for host in sorted(self._faulted_hosts):
                with suppress(FleetError):
                    if self.lab.is_alive(host):
                        self.lab.resume(host)
                    else:
                        self.lab.start(host, timeout=self.options.patience)


def _describe_takeover(fault: Fault) -> str:
    if fault.successor is None:
        return f"no node of pair {fault.pair} took over"
    after = f" after {fault.takeover:.1f} s" if fault.takeover is not None else ""
    return f"{fault.successor} took over{after}"
