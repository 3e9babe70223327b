"""What collecting and accidents do to journals, and what can be told of each event after that.

Disorder (files in any order, lines twice, lines that are no records) changes nothing. Evidence is taken away by
leaving records out; then what stays certain is told from where the world's records stand, not by reading journals.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.histories.world import Agent, Event, Line, Simulation, World, matches

NOISE = ("", "Traceback (most recent call last):", '{"level":"info","event":"started"}', "[1, 2", "\u2028}", "{}")
FAR = 1 << 60


@dataclass(slots=True)
class History:
    """Journals as they were collected, by ``HOST/agent/FILE``, and the truth: by (event, subscriber), and by event."""

    files: dict[str, list[str]]
    units: dict[tuple[str, str], str]
    events: dict[str, str]
    gone: dict[str, set[int]] = field(default_factory=dict)
    planted: dict[tuple[str, str], str] = field(default_factory=dict)


WORST = ("lost", "stuck", "indeterminate", "duplicate", "delivered")


def history(seed: int, count: int = 40) -> History:
    """The history of a seed; its agents' names begin with the seed, so that many fit into one frame."""
    rng = random.Random(seed)
    world = Simulation(f"h{seed}", rng).run(rng.choice((count // 4, count, count)))
    gone, torn = _taken_away(world, rng)
    files = _files(world, gone, torn, rng)
    units, events = Truth(world, gone).told()
    planted, _ = Truth(world, {}).told()
    return History(files, units, events, gone, planted)


# -- evidence that is taken away --------------------------------------------------------------------


def _taken_away(world: World, rng: random.Random) -> tuple[dict[str, set[int]], dict[str, str]]:
    """Places of records that are not there, by agent; and what stands at the end of journals that were cut."""
    gone: dict[str, set[int]] = {}
    torn: dict[str, str] = {}
    if rng.random() < 0.4:
        return gone, torn
    for name in rng.sample(sorted(world.agents), rng.choice((1, 1, 2)) if len(world.agents) > 1 else 1):
        lines = world.agents[name].lines
        how = rng.random()
        last = {line.epoch: line.at for line in lines}  # what is missing at an epoch's end cannot be seen
        if how < 0.1:
            gone[name] = set(range(len(lines)))
        elif how < 0.35:  # the journal was cut, in the middle of a line
            size = min(rng.choice((1, 2, 5, 15)), sum(line.epoch == lines[-1].epoch for line in lines) - 1)
            if size > 0:
                gone[name] = set(range(len(lines) - size, len(lines)))
                torn[name] = _text(world.agents[name], lines[len(lines) - size])
        else:
            begin = 0 if how < 0.5 else rng.randrange(len(lines))
            end = min(len(lines), begin + rng.choice((1, 2, 4, 12, 40)))
            gone[name] = set(range(begin, end)) - set(last.values())
    return gone, torn


# -- files -------------------------------------------------------------------------------------------


def _text(agent: Agent, line: Line) -> str:
    content = {"v": 1, "agent": agent.name, "epoch": line.epoch, "jseq": line.jseq, "ts": line.ts, "kind": line.kind}
    return json.dumps({**content, **line.fields}, separators=(",", ":"))


def _files(
    world: World, gone: Mapping[str, set[int]], torn: Mapping[str, str], rng: random.Random
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, agent in world.agents.items():
        texts = [_text(agent, line) for line in agent.lines if line.at not in gone.get(name, ())]
        if not texts:
            continue
        size = rng.choice((7, 50, 1000))
        parts = [texts[at : at + size] for at in range(0, len(texts), size)]
        if rng.random() < 0.3:  # exported once more after a crash
            parts.insert(0, texts[rng.randrange(len(texts)) :][:20])
        *others, end = parts if name in torn else [*parts, []]
        for part in others:
            if rng.random() < 0.3:
                rng.shuffle(part)
            for _ in range(rng.choice((0, 0, 1, 3))):
                part.insert(rng.randrange(len(part) + 1), rng.choice((*NOISE, rng.choice(texts))))
        if name in torn:
            begins = torn[name]
            end.append(begins[: rng.choice((4, 30, len(begins) - 1))])
        names = [f"{name}/agent/journal-{number:09}.jsonl" for number in range(1, len(parts) + 2)]
        rng.shuffle(names)
        found |= {one: part for one, part in zip(names, [*others, end], strict=False) if part}
    return found


# -- what can be told --------------------------------------------------------------------------------


class Truth:
    """What is certain about each unit once the records in ``gone`` cannot be read."""

    def __init__(self, world: World, gone: Mapping[str, set[int]]) -> None:
        self.world, self.gone = world, gone
        self.order = {event.id: number for number, event in enumerate(world.events)}
        self.by_id = {event.id: event for event in world.events}
        self.got: dict[str, dict[str, list[tuple[int, str]]]] = {name: {} for name in world.agents}
        for (event_id, name), mine in world.got.items():
            seen = [(at, kind) for at, kind in mine if at not in gone.get(name, ())]
            if seen:
                self.got[name][event_id] = seen

    def told(self) -> tuple[dict[tuple[str, str], str], dict[str, str]]:
        units: dict[tuple[str, str], str] = {}
        events: dict[str, str] = {}
        for event in self.world.events:
            if event.barrier or not self._is_told(event):
                continue
            for name in self.world.agents:
                verdict = self._unit(event, name)
                if verdict is not None:
                    units[event.id, name] = verdict
            mine = [units[event.id, name] for name in self.world.agents if (event.id, name) in units]
            events[event.id] = min(mine or ["indeterminate"], key=WORST.index)
        return units, events

    def _sees(self, event: Event, at: int) -> bool:
        return at not in self.gone.get(event.stream[0], ())

    def _is_told(self, event: Event) -> bool:
        """Whether any record is left that names it."""
        lines = self.world.agents[event.stream[0]].lines
        return any(event.id in seen for seen in self.got.values()) or any(
            line.fields.get("event_id") == event.id and self._sees(event, line.at) for line in lines
        )

    def _is_missing(self, name: str, after: int, before: int = FAR) -> bool:
        return any(after < at < before for at in self.gone.get(name, ()))

    def _unit(self, event: Event, name: str) -> str | None:
        seen = self.got[name].get(event.id)
        if not seen:
            return self._missed(event, name) if self._is_expected(event, name) else None
        kinds = [kind for _, kind in seen]
        if kinds.count("handled") > 1:
            return "duplicate"
        if "handled" in kinds or "quarantined" in kinds:
            return "delivered"
        left = max((at for at, kind in seen if kind in ("received", "handling")), default=-1)
        return "indeterminate" if self._is_missing(name, left) else "stuck"

    def _comes_before(self, one: Event, other: Event) -> bool:
        """Whether both records of acceptance, or both SEQs, are there and say so."""
        if one.stream != other.stream or self.order[one.id] >= self.order[other.id]:
            return False
        return (one.own and other.own) or (self._sees(one, one.taken[0]) and self._sees(other, other.taken[0]))

    def _is_expected(self, event: Event, name: str) -> bool:
        came = [(self.by_id[other], seen[0][0]) for other, seen in self.got[name].items()]
        for wanted, spans in self.world.subscriptions.get(name, {}).items():
            if not matches(wanted, event.topic):
                continue
            for begin, end in self._spans(name, wanted, spans):
                inside = [other for other, at in came if begin < at < end]
                if any(self._comes_before(other, event) for other in inside) and (
                    end == FAR or any(self._comes_before(event, other) for other in inside)
                ):
                    return True
        return False

    def _spans(self, name: str, wanted: str, spans: Iterable[tuple[int, int | None]]) -> list[tuple[int, int]]:
        """When a subscription lasted, by its records that are there."""
        found: list[tuple[int, int]] = []
        for line in self.world.agents[name].lines:
            if line.at in self.gone.get(name, ()) or wanted not in line.fields.get("filters", ()):
                continue
            if line.kind == "subscribed" and (not found or found[-1][1] != FAR):
                found.append((line.at, FAR))
            elif line.kind == "unsubscribed" and found and found[-1][1] == FAR:
                found[-1] = (found[-1][0], line.at)
        return found

    def _missed(self, event: Event, name: str) -> str:
        publisher = event.stream[0]
        taken = [at for at in event.taken if self._sees(event, at)]
        told = [(at, kind) for at, kind in event.told if self._sees(event, at)]
        if not taken:
            return "indeterminate"
        state_at, state = told[-1]
        is_acked = state in ("acknowledged", "unconfirmed")
        if is_acked and self._is_missing(publisher, taken[-1], state_at):
            return "indeterminate"
        if state not in ("acknowledged", "dropped") and self._is_missing(publisher, state_at):
            return "indeterminate"
        low, high = self._neighbours(event, name, taken)
        later, is_odd = self._later_barrier(event, name, taken)
        if self._is_missing(name, low, min(high, later)) or (is_acked and later == FAR and self._is_missing(name, low)):
            return "indeterminate"
        if not is_acked:
            return "lost" if state == "dropped" else "stuck"
        return "lost" if later != FAR else "indeterminate" if is_odd else "stuck"

    def _neighbours(self, event: Event, name: str, taken: list[int]) -> tuple[int, int]:
        low, high = -1, FAR
        for other, seen in self.got[name].items():
            one = self.by_id[other]
            at = next((at for at, kind in seen if kind == "received"), None)
            known = [place for place in one.taken if self._sees(one, place)]
            if (
                at is None
                or one.topic != event.topic
                or one.stream != event.stream
                or len(known) != 1
                or len(taken) != 1
            ):
                continue
            if known[0] < taken[0]:
                low = max(low, at)
            elif known[0] > taken[0]:
                high = min(high, at)
        return low, high

    def _later_barrier(self, event: Event, name: str, taken: list[int]) -> tuple[int, bool]:
        later, is_odd = FAR, False
        for other, seen in self.got[name].items():
            one = self.by_id[other]
            if not one.barrier or one.stream != event.stream or one.prefix != event.prefix:
                continue
            if event.own and len(taken) == 1:
                is_later = self.order[one.id] > self.order[event.id]
            else:
                known = self._sees(one, one.taken[0])
                is_odd |= not known
                is_later = known and one.taken[0] > taken[-1]
            if is_later:
                later = min(later, seen[0][0])
        return later, is_odd
