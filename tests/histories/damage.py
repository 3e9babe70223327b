"""Damage of journals by their collection and by accidents, and the certain verdict of each event after that.

Disorder (files in any order, repeated lines, lines that are no records) changes no verdict. Missing records remove
evidence. The positions of all records of the world then show the certain verdicts; no journal is read.
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
    """Collected journals, by ``HOST/agent/FILE``, and the true verdicts: by (event, subscriber), and by event.

    ``missing`` contains the positions of missing records, by agent; ``complete_units`` the verdicts without damage.
    """

    files: dict[str, list[str]]
    units: dict[tuple[str, str], str]
    events: dict[str, str]
    missing: dict[str, set[int]] = field(default_factory=dict)
    complete_units: dict[tuple[str, str], str] = field(default_factory=dict)


WORST = ("lost", "stuck", "indeterminate", "duplicate", "delivered")


def history(seed: int, count: int = 40) -> History:
    """Return the history of a seed; names of agents begin with the seed, so that one data frame can hold many."""
    rng = random.Random(seed)
    world = Simulation(f"h{seed}", rng).run(rng.choice((count // 4, count, count)))
    missing, torn = _remove_records(world, rng)
    files = _files(world, missing, torn, rng)
    units, events = Truth(world, missing).verdicts()
    complete_units, _ = Truth(world, {}).verdicts()
    return History(files, units, events, missing, complete_units)


# -- missing records --------------------------------------------------------------------------------


def _remove_records(world: World, rng: random.Random) -> tuple[dict[str, set[int]], dict[str, str]]:
    """Return the positions of missing records, and the torn last lines of truncated journals, by agent."""
    missing: dict[str, set[int]] = {}
    torn: dict[str, str] = {}
    if rng.random() < 0.4:
        return missing, torn
    for name in rng.sample(sorted(world.agents), rng.choice((1, 1, 2)) if len(world.agents) > 1 else 1):
        lines = world.agents[name].lines
        draw = rng.random()
        last = {line.epoch: line.at for line in lines}  # records that are missing at the end of an epoch leave no trace
        if draw < 0.1:
            missing[name] = set(range(len(lines)))
        elif draw < 0.35:  # the journal is truncated, in the middle of a line
            size = min(rng.choice((1, 2, 5, 15)), sum(line.epoch == lines[-1].epoch for line in lines) - 1)
            if size > 0:
                missing[name] = set(range(len(lines) - size, len(lines)))
                torn[name] = _text(world.agents[name], lines[len(lines) - size])
        else:
            begin = 0 if draw < 0.5 else rng.randrange(len(lines))
            end = min(len(lines), begin + rng.choice((1, 2, 4, 12, 40)))
            missing[name] = set(range(begin, end)) - set(last.values())
    return missing, torn


# -- files -------------------------------------------------------------------------------------------


def _text(agent: Agent, line: Line) -> str:
    content = {"v": 1, "agent": agent.name, "epoch": line.epoch, "jseq": line.jseq, "ts": line.ts, "kind": line.kind}
    return json.dumps({**content, **line.fields}, separators=(",", ":"))


def _files(
    world: World, missing: Mapping[str, set[int]], torn: Mapping[str, str], rng: random.Random
) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for name, agent in world.agents.items():
        texts = [_text(agent, line) for line in agent.lines if line.at not in missing.get(name, ())]
        if not texts:
            continue
        size = rng.choice((7, 50, 1000))
        parts = [texts[at : at + size] for at in range(0, len(texts), size)]
        if rng.random() < 0.3:  # exported again after a crash
            parts.insert(0, texts[rng.randrange(len(texts)) :][:20])
        *others, end = parts if name in torn else [*parts, []]
        for part in others:
            if rng.random() < 0.3:
                rng.shuffle(part)
            for _ in range(rng.choice((0, 0, 1, 3))):
                part.insert(rng.randrange(len(part) + 1), rng.choice((*NOISE, rng.choice(texts))))
        if name in torn:
            line = torn[name]
            end.append(line[: rng.choice((4, 30, len(line) - 1))])
        names = [f"{name}/agent/journal-{number:09}.jsonl" for number in range(1, len(parts) + 2)]
        rng.shuffle(names)
        files |= {name: part for name, part in zip(names, [*others, end], strict=False) if part}
    return files


# -- certain verdicts --------------------------------------------------------------------------------


class Truth:
    """The certain verdict of each delivery if the records in ``missing`` cannot be read."""

    def __init__(self, world: World, missing: Mapping[str, set[int]]) -> None:
        self.world, self.missing = world, missing
        self.order = {event.id: number for number, event in enumerate(world.events)}
        self.by_id = {event.id: event for event in world.events}
        self.receipts: dict[str, dict[str, list[tuple[int, str]]]] = {name: {} for name in world.agents}
        for (event_id, name), records in world.receipts.items():
            seen = [(at, kind) for at, kind in records if at not in missing.get(name, ())]
            if seen:
                self.receipts[name][event_id] = seen

    def verdicts(self) -> tuple[dict[tuple[str, str], str], dict[str, str]]:
        """Return the verdicts by (event, subscriber), and by event."""
        units: dict[tuple[str, str], str] = {}
        events: dict[str, str] = {}
        for event in self.world.events:
            if event.is_barrier or not self._is_recorded(event):
                continue
            for name in self.world.agents:
                verdict = self._verdict_of_delivery(event, name)
                if verdict is not None:
                    units[event.id, name] = verdict
            verdicts = [units[event.id, name] for name in self.world.agents if (event.id, name) in units]
            events[event.id] = min(verdicts or ["indeterminate"], key=WORST.index)
        return units, events

    def _has_record(self, event: Event, at: int) -> bool:
        return at not in self.missing.get(event.stream[0], ())

    def _is_recorded(self, event: Event) -> bool:
        """Return whether any remaining record has the id of the event."""
        lines = self.world.agents[event.stream[0]].lines
        return any(event.id in seen for seen in self.receipts.values()) or any(
            line.fields.get("event_id") == event.id and self._has_record(event, line.at) for line in lines
        )

    def _is_missing(self, name: str, after: int, before: int = FAR) -> bool:
        return any(after < at < before for at in self.missing.get(name, ()))

    def _verdict_of_delivery(self, event: Event, name: str) -> str | None:
        seen = self.receipts[name].get(event.id)
        if not seen:
            return self._verdict_without_receipt(event, name) if self._is_expected(event, name) else None
        kinds = [kind for _, kind in seen]
        if kinds.count("handled") > 1:
            return "duplicate"
        if "handled" in kinds or "quarantined" in kinds:
            return "delivered"
        last = max((at for at, kind in seen if kind in ("received", "handling")), default=-1)
        return "indeterminate" if self._is_missing(name, last) else "stuck"

    def _comes_before(self, event: Event, other: Event) -> bool:
        """Return whether both records of acceptance, or both sequence numbers, exist and show this order."""
        if event.stream != other.stream or self.order[event.id] >= self.order[other.id]:
            return False
        has_sequence_numbers = event.has_sequence_number and other.has_sequence_number
        return has_sequence_numbers or (
            self._has_record(event, event.accepted[0]) and self._has_record(other, other.accepted[0])
        )

    def _is_expected(self, event: Event, name: str) -> bool:
        receipts = [(self.by_id[other], seen[0][0]) for other, seen in self.receipts[name].items()]
        for topic_filter, spans in self.world.subscriptions.get(name, {}).items():
            if not matches(topic_filter, event.topic):
                continue
            for begin, end in self._spans(name, topic_filter, spans):
                inside = [other for other, at in receipts if begin < at < end]
                if any(self._comes_before(other, event) for other in inside) and (
                    end == FAR or any(self._comes_before(event, other) for other in inside)
                ):
                    return True
        return False

    def _spans(self, name: str, topic_filter: str, spans: Iterable[tuple[int, int | None]]) -> list[tuple[int, int]]:
        """Return the spans of a subscription according to its remaining records."""
        remaining: list[tuple[int, int]] = []
        for line in self.world.agents[name].lines:
            if line.at in self.missing.get(name, ()) or topic_filter not in line.fields.get("filters", ()):
                continue
            if line.kind == "subscribed" and (not remaining or remaining[-1][1] != FAR):
                remaining.append((line.at, FAR))
            elif line.kind == "unsubscribed" and remaining and remaining[-1][1] == FAR:
                remaining[-1] = (remaining[-1][0], line.at)
        return remaining

    def _verdict_without_receipt(self, event: Event, name: str) -> str:
        publisher = event.stream[0]
        accepted = [at for at in event.accepted if self._has_record(event, at)]
        states = [(at, kind) for at, kind in event.states if self._has_record(event, at)]
        if not accepted:
            return "indeterminate"
        state_at, state = states[-1]
        is_acked = state in ("acknowledged", "unconfirmed")
        if is_acked and self._is_missing(publisher, accepted[-1], state_at):
            return "indeterminate"
        if state not in ("acknowledged", "dropped") and self._is_missing(publisher, state_at):
            return "indeterminate"
        low, high = self._neighbors(event, name, accepted)
        later, is_uncertain = self._later_barrier(event, name, accepted)
        if self._is_missing(name, low, min(high, later)) or (is_acked and later == FAR and self._is_missing(name, low)):
            return "indeterminate"
        if not is_acked:
            return "lost" if state == "dropped" else "stuck"
        return "lost" if later != FAR else "indeterminate" if is_uncertain else "stuck"

    def _neighbors(self, event: Event, name: str, accepted: list[int]) -> tuple[int, int]:
        low, high = -1, FAR
        for other, seen in self.receipts[name].items():
            neighbor = self.by_id[other]
            at = next((at for at, kind in seen if kind == "received"), None)
            positions = [position for position in neighbor.accepted if self._has_record(neighbor, position)]
            if (
                at is None
                or neighbor.topic != event.topic
                or neighbor.stream != event.stream
                or len(positions) != 1
                or len(accepted) != 1
            ):
                continue
            if positions[0] < accepted[0]:
                low = max(low, at)
            elif positions[0] > accepted[0]:
                high = min(high, at)
        return low, high

    def _later_barrier(self, event: Event, name: str, accepted: list[int]) -> tuple[int, bool]:
        later, is_uncertain = FAR, False
        for other, seen in self.receipts[name].items():
            barrier = self.by_id[other]
            if not barrier.is_barrier or barrier.stream != event.stream or barrier.prefix != event.prefix:
                continue
            if event.has_sequence_number and len(accepted) == 1:
                is_later = self.order[barrier.id] > self.order[event.id]
            else:
                is_known = self._has_record(barrier, barrier.accepted[0])
                is_uncertain |= not is_known
                is_later = is_known and barrier.accepted[0] > accepted[-1]
            if is_later:
                later = min(later, seen[0][0])
        return later, is_uncertain
