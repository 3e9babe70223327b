"""A drill of a fleet on loopback: load, faults at whoever is active, and what became of every event."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from activemq_agent.errors import AgentError
from activemq_fleet.drills import Account, Conditions, DrillResult, Fault, Span, What, judge
from activemq_fleet.drills.judging import ATTEMPTS, lowest_rate, why_void
from activemq_fleet.drills.model import State
from activemq_fleet.errors import FleetError, InputError, LabError
from activemq_fleet.lab.drill_files import machine, phases, settle, spans
from activemq_fleet.lab.drill_load import Load, load_for, load_spec, speaks_mqtt
from activemq_fleet.lab.drill_reach import refuse_unreachable
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.startup import Progress
from activemq_fleet.operations.drill import Candidate, refusal, schedule
from activemq_fleet.operations.target import TargetHost, resolve_target
from activemq_fleet.topology import Fleet, Pair

WINDOW = 5.0
"""Seconds before a fault in which the rate is measured."""
HUNG = 30.0
"""Seconds that a node stands still until its watchdog would have it killed: three misses in half a minute."""
_PATIENCE = 120.0
_POLL = 0.2
_UNDER_WAY = 0.03  # seconds after which the first of a burst have gone out


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOptions:
    """``faults``: how many must count. ``target``: a pair, group or host; empty is the whole fleet.

    ``rate``: events a second for each pair. ``hung``: seconds for which a node is frozen.
    ``patience``: seconds to wait for each thing that must happen.
    """

    faults: int = 5
    what: What = "kill"
    target: str = ""
    rate: float = 100.0
    seed: int | None = None
    hung: float = HUNG
    patience: float = _PATIENCE


def drill(lab: Lab, options: DrillOptions, progress: Progress | None = None) -> DrillResult:
    """Drill the lab's fleet, which is started if it does not run, and then ended again.

    Whatever happens, nothing stays frozen and no agent is left. Raises FleetError for what cannot
    be drilled at all; what goes wrong on the way is in the result.
    """
    progress = progress or (lambda _line: None)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1, 1_000_000)
    ran = _runs(lab)
    lab.prepare()
    order = _order(lab.fleet, options, seed, progress)
    try:
        lab.up()
        return _Drill(lab, options, progress).run(order, seed)
    finally:
        if not ran:
            lab.down()


def _runs(lab: Lab) -> bool:
    try:
        return any(host.pid is not None for host in lab.status())
    except LabError:
        return False


def candidates(lab_pairs: Sequence[Pair]) -> list[Candidate]:
    """The pairs as the decisions of ``operations.drill`` see them."""
    return [
        Candidate(
            pair=pair.name,
            group=pair.group,
            ha=pair.preferred_master.settings.ha,
            nodes=tuple(broker.host for broker in pair.in_order),
            rivals=sum(other.group == pair.group for other in lab_pairs) - 1,
        )
        for pair in lab_pairs
    ]


def _order(fleet: Fleet, options: DrillOptions, seed: int, progress: Progress) -> tuple[str, ...]:
    """The pair of each fault; pairs of the target that get none are named. Raises InputError."""
    places = [TargetHost(b.host, b.pair, b.group, b.role) for b in fleet.brokers]
    try:
        target = resolve_target(places, options.target)
    except InputError as error:
        raise InputError(str(error).replace("activemq_target", "--target")) from None
    chosen = [one for one in candidates(list(fleet.pairs.values())) if one.pair in target.pairs]
    order = schedule(chosen, options.faults, seed, options.what)
    for one in chosen:
        if one.pair not in order:
            why = "is pure: drill its group with --target" if one.ha == "pure" else "has no turn: raise --kills"
            progress(f"not drilled: {one.pair}, which {refusal(one, options.what) or why}")
    return order


@dataclass
class _Drill:
    lab: Lab
    options: DrillOptions
    progress: Progress
    _changes: dict[str, list[tuple[float, State]]] = field(default_factory=dict)
    _frozen: set[str] = field(default_factory=set)
    _ended: set[str] = field(default_factory=set)

    def run(self, order: Sequence[str], seed: int) -> DrillResult:
        pairs = {name: self.lab.fleet.pairs[name] for name in dict.fromkeys(order)}
        directory = self._directory()
        first: dict[str, State] = {host.host: host.state for host in self.lab.status()}
        began = time.time()
        with ExitStack() as stack:
            stack.enter_context(self._healing())
            sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drill-")))
            loads = self._start_load(stack, pairs, directory, sockets)
            faults = self._strike_all(order, loads)
            self._finish(loads)
        ended = time.time()
        accounts, faults = self._settle(directory, pairs, faults)
        verdict, reasons = judge(faults, accounts, len(order))
        return DrillResult(
            verdict=verdict,
            reasons=reasons,
            began=began,
            ended=ended,
            faults=tuple(faults),
            accounts=tuple(accounts),
            spans=tuple(self._spans(pairs, first, began, ended)),
            conditions=self._conditions(seed, len(order), pairs),
        )

    # -- before -------------------------------------------------------------------------------

    def _directory(self) -> Path:
        directory = self.lab.directory / "drill"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700)
        return directory

    def _start_load(self, stack: ExitStack, pairs: dict[str, Pair], directory: Path, sockets: Path) -> dict[str, Load]:
        fleet, loads = self.lab.client_fleet, dict[str, Load]()
        agents = [fleet.pairs[name] for name in pairs if speaks_mqtt(fleet.pairs[name])]
        refuse_unreachable([load_spec(fleet, pair, self.options.rate) for pair in agents])
        for name in pairs:
            loads[name] = load_for(fleet, fleet.pairs[name], self.options.rate, directory, sockets)
            stack.callback(loads[name].__exit__)
            self.progress(f"load on {name}: {self.options.rate:g} events a second")
            with _told():
                loads[name].start(self.options.patience)
        return loads

    # -- the faults ----------------------------------------------------------------------------

    def _strike_all(self, order: Sequence[str], loads: dict[str, Load]) -> list[Fault]:
        """One fault after the other; one that proves nothing is repeated, one that goes wrong is the last."""
        faults: list[Fault] = []
        for number, pair in enumerate(order, 1):
            for _ in range(ATTEMPTS):
                fault = self._strike(number, pair, loads[pair])
                faults.append(fault)
                self.progress(_line(fault, len(order)))
                if fault.void is None or self._is_pure(pair):
                    break
            if fault.problem is not None:
                break
        return faults

    def _strike(self, number: int, pair: str, load: Load) -> Fault:
        host = self.lab.wait_active(pair, self.options.patience)
        fault = Fault(number=number, what=self.options.what, pair=pair, host=host, at=time.time())
        try:
            self._settle_down(load)
            before = time.time()
            load.burst()
            time.sleep(_UNDER_WAY)
            with self.lab.recorded("lab drill", host):
                fault = self._follow(replace(fault, at=self._hit(host)))
            self._resume(load, fault)
            accepted, handled = load.rates(before, WINDOW)
            void = why_void(accepted, handled, self.options.rate)
            fault = replace(fault, rate_accepted=accepted, rate_handled=handled, void=void)
        except FleetError as error:
            return replace(fault, problem=str(error))
        except AgentError as error:
            return replace(fault, problem=" ".join(str(error).split()))
        return fault

    def _settle_down(self, load: Load) -> None:
        """Wait until agents have settled and enough flows; after a while the fault falls anyhow, and may be void."""
        deadline = time.monotonic() + self.options.patience
        while time.monotonic() < deadline:
            load.check()
            if load.is_steady() and min(load.rates(time.time() - 0.5, WINDOW)) >= lowest_rate(self.options.rate):
                return
            time.sleep(_POLL)

    def _hit(self, host: str) -> float:
        """The fault; returns when it fell."""
        if self.options.what == "pause":
            self._frozen.add(host)
            at = time.time()
            self.lab.pause(host)
            self._change(host, at, "hung")
            return at
        self._ended.add(host)
        at = time.time()
        if self.options.what == "stop":
            self.lab.stop(host)
        else:
            at = self.lab.kill(host)
        self._change(host, at, "stopped")
        return at

    def _follow(self, fault: Fault) -> Fault:
        """From the fault until the pair is whole again."""
        if fault.what == "pause":
            fault = self._end_of_pause(fault)
            if fault.host not in self._ended:
                return fault
        successor = self.lab.wait_active(fault.pair, self.options.patience)
        since = self.lab.started(successor)
        fault = replace(fault, successor=successor, takeover=since - fault.at if since else None)
        if self._is_pure(fault.pair):
            self._ended.discard(fault.host)
            return replace(fault, note="a pure pair: only a resync brings the dead node back")
        return replace(fault, back=self._bring_back(fault.host) - fault.at)

    def _end_of_pause(self, fault: Fault) -> Fault:
        """After a while the watchdog would act. There is none in a lab, so the drill does what it is set to do."""
        time.sleep(self.options.hung)
        broker = self.lab.fleet.broker(fault.host)
        self._frozen.discard(fault.host)
        if broker.settings.watchdog == "kill":
            self._ended.add(fault.host)
            self._change(fault.host, self.lab.kill(fault.host), "stopped")
            return replace(fault, note=f"killed after {self.options.hung:g} s, as activemq_watchdog kill does")
        self.lab.resume(fault.host)
        self._change(fault.host, time.time(), "active")
        return replace(
            fault,
            note=f"went on after {self.options.hung:g} s; nobody took over, because activemq_watchdog is "
            f"{broker.settings.watchdog} and a frozen broker keeps its lock",
        )

    def _bring_back(self, host: str) -> float:
        self._change(host, time.time(), "starting")
        self.lab.start(host, timeout=self.options.patience)
        self._ended.discard(host)
        return time.time()

    def _resume(self, load: Load, fault: Fault) -> None:
        deadline = time.monotonic() + self.options.patience
        since = fault.at + 0.5 + (self.options.hung if fault.what == "pause" else 0)
        while not load.handled_after(since):
            load.check()
            if time.monotonic() > deadline:
                raise LabError(f"no event was handled in the {self.options.patience:g} s after the fault")
            time.sleep(_POLL)

    # -- after --------------------------------------------------------------------------------

    def _finish(self, loads: dict[str, Load]) -> None:
        for name, load in loads.items():
            self.progress(f"ending the load on {name}")
            try:
                load.finish()
                load.forget()
            except (AgentError, FleetError) as error:  # the journals say what it means
                self.progress(f"{name}: {error}")

    @contextmanager
    def _healing(self) -> Iterator[None]:
        """Whatever happens, nothing stays frozen, and what was ended is started again."""
        try:
            yield
        finally:
            for host in sorted(self._frozen):
                with suppress(LabError):
                    self.lab.resume(host)
            for host in sorted(self._ended):
                with suppress(FleetError):
                    self._bring_back(host)

    def _settle(
        self, directory: Path, pairs: dict[str, Pair], faults: Sequence[Fault]
    ) -> tuple[list[Account], list[Fault]]:
        accounts, settled = [], []
        for name, pair in pairs.items():
            protocol = "MQTT" if speaks_mqtt(pair) else "STOMP"
            account, mine = settle(directory, name, protocol, [fault for fault in faults if fault.pair == name])
            accounts.append(account)
            settled += mine
        return accounts, sorted(settled, key=lambda fault: fault.at)

    def _spans(self, pairs: dict[str, Pair], first: dict[str, State], began: float, ended: float) -> Iterator[Span]:
        for pair in pairs.values():
            for broker in pair.in_order:
                log = self.lab.log(broker.host).read_text(errors="replace")
                changes = [*phases(log, began), *self._changes.get(broker.host, [])]
                yield from spans(pair.name, broker.host, first[broker.host], changes, began, ended)

    def _conditions(self, seed: int, wanted: int, pairs: dict[str, Pair]) -> Conditions:
        masters = {name: pair.preferred_master for name, pair in pairs.items()}
        return Conditions(
            where="lab",
            what=self.options.what,
            wanted=wanted,
            rate=self.options.rate,
            seed=seed,
            target=self.options.target or "the whole fleet",
            releases={name: broker.release.text for name, broker in masters.items()},
            profiles={name: broker.settings.ha for name, broker in masters.items()},
            protocols={name: "MQTT" if speaks_mqtt(pair) else "STOMP" for name, pair in pairs.items()},
            machine=machine(),
        )

    def _change(self, host: str, at: float, state: State) -> None:
        self._changes.setdefault(host, []).append((at, state))

    def _is_pure(self, pair: str) -> bool:
        return self.lab.fleet.pairs[pair].preferred_master.settings.ha == "pure"


def _line(fault: Fault, wanted: int) -> str:
    head = f"fault {fault.number} of {wanted}: {fault.what} {fault.host}"
    if fault.problem:
        return f"{head}: {fault.problem}"
    took = f"{fault.successor} took over" if fault.successor else "nobody took over"
    after = f" after {fault.takeover:.1f} s" if fault.takeover is not None else ""
    return f"{head}: {took}{after}" + (f"; void: {fault.void}" if fault.void else "")


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except AgentError as error:
        raise LabError(f"the load could not be put on: {error}") from None
