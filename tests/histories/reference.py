"""Verdicts by brute force, from the documented format and guarantees of journals; shares no code with the pipeline."""

import json
import re
from collections import defaultdict
from typing import Any

RECEIPTS = ("received", "duplicate", "handling", "handled", "quarantined", "barrier")
WORST = ("lost", "stuck", "indeterminate", "duplicate", "delivered")
EVENT_ID = re.compile(r"(.+):([^:]+):([1-9]\d*)")
BARRIER = re.compile("(.+)/__barrier__(?:/[^/]*)?")
START, END = (-1, 0.0), (1 << 30, 0.0)
Position = tuple[int, float]  # number of the epoch of the agent, jseq


class Agent:  # an agent's records in order, and the ranges of positions of missing records
    def __init__(self, epochs: dict[str, dict[int, Any]], cut: set[str]) -> None:
        self.records, self.missing = list[tuple[Position, Any]](), list[tuple[Position, Position]]()
        for rank, epoch in enumerate(sorted(epochs, key=lambda e: (min(r["ts"] for r in epochs[e].values()), e))):
            present = sorted(epochs[epoch])
            for before, after in zip([0, *present], present, strict=False):
                self.missing += [((rank, before + 1), (rank, after - 1))] if after > before + 1 else []
            self.missing += [((rank, present[-1] + 1), (rank, float("inf")))] if epoch in cut else []
            self.records += [((rank, jseq), epochs[epoch][jseq]) for jseq in present]

    def has_missing(self, after: Position = START, before: Position = END) -> bool:
        return any(after < last and first < before for first, last in self.missing)

    def verdict_of_receipts(self, receipts: Any) -> str:
        kinds = [r["kind"] for _, r in receipts]
        last = max((at for at, r in receipts if r["kind"] in ("received", "handling")), default=START)
        if "handled" in kinds or "quarantined" in kinds:
            return "duplicate" if kinds.count("handled") > 1 else "delivered"
        return "indeterminate" if self.has_missing(last) else "stuck"


class Copy:  # an event in the journal of one publisher: its position in that order, and its last state there
    def __init__(self, event: str, name: str, agent: Agent | None, topics: set[str]) -> None:
        parts, records = EVENT_ID.fullmatch(event), agent.records if agent else []
        event_records = [(at, r) for at, r in records if r.get("event_id") == event and is_of_publisher(r)]
        accepted = [(at, r) for at, r in event_records if r["kind"] == "accepted"]
        states = [(at, r) for at, r in event_records if r["kind"] not in ("sent", "barrier")]
        self.name, self.agent, self.seq = name, agent, int(parts[3]) if parts and parts[1] == name else None
        self.epoch = parts[2] if parts and parts[1] == name else (accepted or event_records)[0][1]["epoch"]
        self.first: Any = accepted[0][0] if accepted else None
        self.last: Any = accepted[-1][0] if accepted else None
        self.at: Position = states[-1][0] if states else START
        self.state: Any = states[-1][1] if states else {}
        self.topic = min([r["topic"] for _, r in accepted or event_records] or topics)

    def is_before(self, other: "Copy", after: Position | None = None) -> bool:
        # ``after``: the position at which it was accepted again; the sequence number only covers the first time.
        position, other_position = after or self.first, other.first
        if self.seq is not None and other.seq is not None and after is None:
            position, other_position = (0, self.seq), (0, other.seq)
        is_same_journal = (self.name, self.epoch) == (other.name, other.epoch)
        return bool(is_same_journal and position and other_position and position < other_position)


def is_sent(r: Any) -> bool:
    return bool(r["kind"] == "barrier" and "conn" not in r and r["event_id"].startswith(r["agent"] + ":"))


def is_of_publisher(r: Any) -> bool:
    return r["kind"] not in RECEIPTS or is_sent(r)


def matches(topic_filter: str, topic: str) -> bool:
    patterns = {"#": ".*", "+": "[^/]*"}
    levels = [patterns.get(level, re.escape(level)) for level in topic_filter.split("/")]
    return re.fullmatch(re.sub(r"/\.\*$", "(/.*)?", "/".join(levels)), topic) is not None


class Fleet:  # all journals; units: verdicts by (event, subscriber); events: by event
    def __init__(self, files: dict[str, list[str]]) -> None:
        journals: Any = defaultdict(lambda: defaultdict(dict))
        torn, last = list[Any](), None
        for number, line in ((number, line) for lines in files.values() for number, line in enumerate(lines)):
            last = last if number else None
            try:
                r = json.loads(line)
                journals[r["agent"]][r["epoch"]][r["jseq"]] = r
                last = (r["agent"], r["epoch"], r["jseq"])
            except (KeyError, TypeError, ValueError) as error:
                torn += [last] if isinstance(error, ValueError) and last and line.startswith("{") else []
        all_records = [r for epochs in journals.values() for records in epochs.values() for r in records.values()]
        ids = [(parts, r) for r in all_records if (parts := EVENT_ID.fullmatch(r.get("event_id", "")))]
        self.agents: dict[str, Agent] = {}
        for name, epochs in journals.items():
            cut = {epoch for epoch in epochs if (name, epoch, max(epochs[epoch])) in torn}
            for epoch in epochs:  # does a receipt prove that the end of the epoch is missing?
                named = [(int(parts[3]), r) for parts, r in ids if (parts[1], parts[2]) == (name, epoch)]
                published = [(s, r["jseq"]) for s, r in named if r["kind"] == "accepted" or is_sent(r)]
                seq, jseq = max(published, default=(0, 0))
                is_complete = all(j in epochs[epoch] for j in range(jseq + 1, max(epochs[epoch]) + 1))
                is_later_received = any(s > seq for s, r in named if not is_of_publisher(r))
                cut |= {epoch} if is_complete and is_later_received else set()
            self.agents[name] = Agent(epochs, cut)
        barriers = {r["event_id"] for r in all_records if BARRIER.fullmatch(r.get("topic", ""))}
        self.receipts: Any = defaultdict(lambda: defaultdict(list))
        named_by: Any = defaultdict(lambda: (set(), set()))
        for name, agent in self.agents.items():
            for at, r in agent.records:
                if "event_id" in r and is_of_publisher(r):
                    named_by[r["event_id"]][0].add(name)
                elif "event_id" in r:
                    self.receipts[name][r["event_id"]].append((at, r))
                    named_by[r["event_id"]][1].add(r["topic"])
        self.copies: dict[str, list[Copy]] = {}
        for event, (names, topics) in named_by.items():
            names |= {parts[1]} if (parts := EVENT_ID.fullmatch(event)) else set()
            self.copies[event] = [Copy(event, name, self.agents.get(name), topics) for name in sorted(names)]
        self.units: dict[tuple[str, str], str] = {}
        self.events = {event: "indeterminate" for event in self.copies if event not in barriers}
        for event in self.events:
            for name, agent in self.agents.items():
                if receipts := self.receipts[name].get(event):
                    verdicts = [agent.verdict_of_receipts(receipts)]
                else:
                    expected = [copy for copy in self.copies[event] if self.is_expected(name, agent, copy)]
                    verdicts = [self.verdict_without_receipt(name, agent, copy) for copy in expected]
                self.units |= {(event, name): min(verdicts, key=WORST.index)} if verdicts else {}
        for (event, _), verdict in sorted(self.units.items(), key=lambda unit: WORST.index(unit[1]), reverse=True):
            self.events[event] = verdict

    def is_expected(self, name: str, agent: Agent, event: Copy) -> bool:
        changes = [(at, r) for at, r in agent.records if r["kind"] in ("subscribed", "unsubscribed")]
        filters = {topic_filter for _, r in changes for topic_filter in r["filters"]}
        for topic_filter in (topic_filter for topic_filter in filters if matches(topic_filter, event.topic)):
            begin = None
            filter_changes = [(at, r["kind"]) for at, r in changes if topic_filter in r["filters"]]
            for at, kind in [*filter_changes, (END, "unsubscribed")]:
                if kind == "unsubscribed" and begin is not None:
                    events = [e for e, receipts in self.receipts[name].items() if begin < receipts[0][0] < at]
                    copies = [c for e in events for c in self.copies[e]]
                    is_after = any(c.is_before(event) for c in copies)
                    if is_after and (at == END or any(event.is_before(c) for c in copies)):
                        return True
                begin = begin or at if kind == "subscribed" else None
        return False

    def verdict_without_receipt(self, name: str, agent: Agent, event: Copy) -> str:
        kind, publisher, is_plain = event.state.get("kind"), event.agent, event.first == event.last
        is_acked, is_dropped = kind in ("acknowledged", "unconfirmed"), event.state.get("reason") == "dropped"
        bounds = {"acknowledged": (event.last, event.at), "unconfirmed": (event.last,)}.get(str(kind), (event.at,))
        if publisher is None or event.first is None or (not is_dropped and publisher.has_missing(*bounds)):
            return "indeterminate"
        low, high, later, is_uncertain, by_seq = START, END, END, False, is_plain and event.seq is not None
        for other, receipts in self.receipts[name].items():
            at: Any = min((at for at, r in receipts if r["kind"] in ("received", "barrier")), default=None)
            for c in (c for c in self.copies[other] if at and (c.name, c.epoch) == (event.name, event.epoch)):
                barrier = BARRIER.fullmatch(c.topic)
                if barrier and barrier[1] == (event.topic.rpartition("/")[0] or event.topic):
                    is_uncertain |= c.first is None and not by_seq
                    later = min(later, at) if event.is_before(c, None if by_seq else event.last) else later
                elif c.first and c.first == c.last and c.topic == event.topic and is_plain:
                    low, high = (max(low, at), high) if c.first < event.first else (low, min(high, at))
        if agent.has_missing(low, min(high, later)) or (is_acked and later == END and agent.has_missing(low)):
            return "indeterminate"
        if is_acked and later == END:
            return "indeterminate" if is_uncertain else "stuck"
        return "lost" if is_dropped or is_acked else "stuck"
