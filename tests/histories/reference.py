"""Verdicts by brute force, from the journals' format and promises alone; shares nothing with the pipeline."""

import json
import re
from collections import defaultdict
from typing import Any

GOT = ("received", "duplicate", "handling", "handled", "quarantined", "barrier")
WORST = ("lost", "stuck", "indeterminate", "duplicate", "delivered")
OWN = re.compile(r"(.+):([^:]+):([1-9]\d*)")
BARRIER = re.compile("(.+)/__barrier__(?:/[^/]*)?")
BEGIN, END = (-1, 0.0), (1 << 30, 0.0)
Place = tuple[int, float]  # number of the agent's epoch, jseq


class Agent:  # its records in their order, and the ranges of places at which records are missing
    def __init__(self, epochs: dict[str, dict[int, Any]], cut: set[str]) -> None:
        self.records, self.missing = list[tuple[Place, Any]](), list[tuple[Place, Place]]()
        for rank, epoch in enumerate(sorted(epochs, key=lambda e: (min(r["ts"] for r in epochs[e].values()), e))):
            there = sorted(epochs[epoch])
            for before, after in zip([0, *there], there, strict=False):
                self.missing += [((rank, before + 1), (rank, after - 1))] if after > before + 1 else []
            self.missing += [((rank, there[-1] + 1), (rank, float("inf")))] if epoch in cut else []
            self.records += [((rank, jseq), epochs[epoch][jseq]) for jseq in there]

    def misses(self, after: Place = BEGIN, before: Place = END) -> bool:
        return any(after < last and first < before for first, last in self.missing)

    def received(self, mine: Any) -> str:
        kinds = [r["kind"] for _, r in mine]
        left = max((at for at, r in mine if r["kind"] in ("received", "handling")), default=BEGIN)
        if "handled" in kinds or "quarantined" in kinds:
            return "duplicate" if kinds.count("handled") > 1 else "delivered"
        return "indeterminate" if self.misses(left) else "stuck"


class Copy:  # an event as one agent took it: where it stands in that agent's order, and what became of it there
    def __init__(self, event: str, name: str, agent: Agent | None, heard_on: set[str]) -> None:
        own, every = OWN.fullmatch(event), agent.records if agent else []
        mine = [(at, r) for at, r in every if r.get("event_id") == event and (r["kind"] not in GOT or is_sent(r))]
        taken = [(at, r) for at, r in mine if r["kind"] == "accepted"]
        told = [(at, r) for at, r in mine if r["kind"] not in ("sent", "barrier")]
        self.name, self.agent, self.seq = name, agent, int(own[3]) if own and own[1] == name else None
        self.epoch = own[2] if own and own[1] == name else (taken or mine)[0][1]["epoch"]
        self.first: Any = taken[0][0] if taken else None
        self.last: Any = taken[-1][0] if taken else None
        self.at: Place = told[-1][0] if told else BEGIN
        self.state: Any = told[-1][1] if told else {}
        self.topic = min([r["topic"] for _, r in taken or mine] or heard_on)

    def is_before(self, other: "Copy", after: Place | None = None) -> bool:
        mine, its = (
            after or self.first,
            other.first,
        )  # after: where it was taken again; SEQ tells only of the first time
        if self.seq is not None and other.seq is not None and after is None:
            mine, its = (0, self.seq), (0, other.seq)
        return bool((self.name, self.epoch) == (other.name, other.epoch) and mine and its and mine < its)


def is_sent(r: Any) -> bool:
    return bool(r["kind"] == "barrier" and "conn" not in r and r["event_id"].startswith(r["agent"] + ":"))


def matches(wanted: str, topic: str) -> bool:
    levels = [".*" if one == "#" else "[^/]*" if one == "+" else re.escape(one) for one in wanted.split("/")]
    return re.fullmatch(re.sub(r"/\.\*$", "(/.*)?", "/".join(levels)), topic) is not None


class Fleet:  # all journals together; units: verdicts by (event, subscriber); events: by event
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
        every = [r for epochs in journals.values() for records in epochs.values() for r in records.values()]
        ids = [(own, r) for r in every if (own := OWN.fullmatch(r.get("event_id", "")))]
        self.agents: dict[str, Agent] = {}
        for name, epochs in journals.items():
            cut = {epoch for epoch in epochs if (name, epoch, max(epochs[epoch])) in torn}
            for epoch in epochs:  # has somebody received what comes behind all that it knows?
                named = [(int(own[3]), r) for own, r in ids if (own[1], own[2]) == (name, epoch)]
                taken = [(s, r["jseq"]) for s, r in named if r["kind"] == "accepted" or is_sent(r)]
                seq, jseq = max(taken, default=(0, 0))
                is_whole = all(j in epochs[epoch] for j in range(jseq + 1, max(epochs[epoch]) + 1))
                more = any(s > seq for s, r in named if r["kind"] in GOT and not is_sent(r))
                cut |= {epoch} if is_whole and more else set()
            self.agents[name] = Agent(epochs, cut)
        barriers = {r["event_id"] for r in every if BARRIER.fullmatch(r.get("topic", ""))}
        self.got: Any = defaultdict(lambda: defaultdict(list))
        named_by: Any = defaultdict(lambda: (set(), set()))
        for name, agent in self.agents.items():
            for at, r in agent.records:
                if "event_id" in r and (r["kind"] not in GOT or is_sent(r)):
                    named_by[r["event_id"]][0].add(name)
                elif "event_id" in r:
                    self.got[name][r["event_id"]].append((at, r))
                    named_by[r["event_id"]][1].add(r["topic"])
        self.copies: dict[str, list[Copy]] = {}
        for event, (names, topics) in named_by.items():
            names |= {own[1]} if (own := OWN.fullmatch(event)) else set()
            self.copies[event] = [Copy(event, name, self.agents.get(name), topics) for name in sorted(names)]
        self.units: dict[tuple[str, str], str] = {}
        self.events = {event: "indeterminate" for event in self.copies if event not in barriers}
        for event in self.events:
            for who in self.agents.items():
                mine, copies = self.got[who[0]].get(event), self.copies[event]
                missed = [] if mine else [self.missed(*who, copy) for copy in copies if self.is_expected(*who, copy)]
                found = [who[1].received(mine)] if mine else missed
                self.units |= {(event, who[0]): min(found, key=WORST.index)} if found else {}
        for (event, _), verdict in sorted(self.units.items(), key=lambda one: WORST.index(one[1]), reverse=True):
            self.events[event] = verdict

    def is_expected(self, name: str, agent: Agent, event: Copy) -> bool:
        told = [(at, r) for at, r in agent.records if r["kind"] in ("subscribed", "unsubscribed")]
        for wanted in {one for _, r in told for one in r["filters"] if matches(one, event.topic)}:
            begin = None
            for at, kind in [*((at, r["kind"]) for at, r in told if wanted in r["filters"]), (END, "unsubscribed")]:
                if kind == "unsubscribed" and begin is not None:
                    came = [c for e, mine in self.got[name].items() if begin < mine[0][0] < at for c in self.copies[e]]
                    if any(c.is_before(event) for c in came) and (at == END or any(event.is_before(c) for c in came)):
                        return True
                begin = begin or at if kind == "subscribed" else None
        return False

    def missed(self, name: str, agent: Agent, event: Copy) -> str:
        kind, publisher, is_plain = event.state.get("kind"), event.agent, event.first == event.last
        is_acked, is_dropped = kind in ("acknowledged", "unconfirmed"), event.state.get("reason") == "dropped"
        asked = {"acknowledged": (event.last, event.at), "unconfirmed": (event.last,)}.get(str(kind), (event.at,))
        if publisher is None or event.first is None or (not is_dropped and publisher.misses(*asked)):
            return "indeterminate"
        low, high, later, is_odd, by_seq = BEGIN, END, END, False, is_plain and event.seq is not None
        for other, mine in self.got[name].items():
            at: Any = min((at for at, r in mine if r["kind"] in ("received", "barrier")), default=None)
            for c in (c for c in self.copies[other] if at and (c.name, c.epoch) == (event.name, event.epoch)):
                closed = BARRIER.fullmatch(c.topic)
                if closed and closed[1] == (event.topic.rpartition("/")[0] or event.topic):
                    is_odd |= c.first is None and not by_seq
                    later = min(later, at) if event.is_before(c, None if by_seq else event.last) else later
                elif c.first and c.first == c.last and c.topic == event.topic and is_plain:
                    low, high = (max(low, at), high) if c.first < event.first else (low, min(high, at))
        if agent.misses(low, min(high, later)) or (is_acked and later == END and agent.misses(low)):
            return "indeterminate"
        if is_acked and later == END:
            return "indeterminate" if is_odd else "stuck"
        return "lost" if is_dropped or is_acked else "stuck"
