"""The way of a message from one host to a consumer at another, and which deaths cut it."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.errors import InputError
from activemq_fleet.explain.hosts import resolve
from activemq_fleet.explain.links import reach
from activemq_fleet.explain.model import Entry, Section, Story
from activemq_fleet.routes import Answer, Hop, Routes
from activemq_fleet.topology import Fleet

_MOST_FAILURES = 20


def way_of(fleet: Fleet, routes: Routes, source: str, target: str, destination: str | None = None) -> Story:
    """The page of a way: its bridges, the way back, and every single failure in which it ends early.

    ``source`` and ``target`` are inventory names or first labels, of brokers or of agents, which
    stand for their home pairs. ``destination`` is a queue, or ``topic://NAME``. Raises InputError
    for a name that nobody has.
    """
    here, there = _place(fleet, source), _place(fleet, target)
    answer = routes.reaches(here, there, destination=destination)
    back = routes.reaches(there, here, destination=destination)
    what = f" for {destination}" if destination else ""
    intro = "A message is sent here while a consumer waits there and nowhere else; bridges have had time to form."
    sections = (
        Section("way", "The way", (_said("outcome", answer), *_hops(fleet, answer)), intro=intro),
        Section("back", "The way back", (_said("outcome", back), *_hops(fleet, back))),
        Section("failures", "When one broker is down", tuple(_failures(fleet, routes, here, there, destination))),
    )
    host, other = resolve(fleet, source), resolve(fleet, target)
    return Story(host, ("way",), f"{host} to {other}{what}: {answer.outcome}", sections)


def _place(fleet: Fleet, name: str) -> str:
    """The broker, or the home pair of the agent, that a name stands for."""
    host = resolve(fleet, name)
    if any(broker.host == host for broker in fleet.brokers):
        return host
    agent = next((agent for agent in fleet.agents if agent.host == host), None)
    if agent is None:
        raise InputError(f"{name} sends and takes no messages: say a broker, or a host that runs an agent")
    pair = fleet.pairs[agent.pair]
    return pair.preferred_master.host


def _said(label: str, answer: Answer) -> Entry:
    return Entry(label, answer.outcome, why=answer.why, data={"outcome": answer.outcome, "arrives": answer.arrives})


def _hops(fleet: Fleet, answer: Answer) -> Iterator[Entry]:
    for number, hop in enumerate(answer.path, 1):
        links = fleet.broker(hop.host).links
        details = tuple(f"{link.kind}, {reach(link)}" for link in links if link.name == hop.link)
        text = f"{hop.source} to {hop.target}"
        yield Entry(f"bridge {number}", text, why=_link(hop), details=details, data=_data(hop))


def _link(hop: Hop) -> str:
    way = "back over the duplex link" if hop.back else "over link"
    return f"{way} {hop.link}, dialled by {hop.host}"


def _data(hop: Hop) -> dict[str, object]:
    return {"source": hop.source, "target": hop.target, "link": hop.link, "host": hop.host, "back": hop.back}


def _failures(fleet: Fleet, routes: Routes, here: str, there: str, destination: str | None) -> Iterator[Entry]:
    """A line for each broker without which it does not arrive for certain."""
    found = []
    for broker in fleet.brokers:
        answer = routes.reaches(here, there, down=broker.host, destination=destination)
        if not answer.arrives:
            data = {"down": broker.host, "outcome": answer.outcome}
            found.append(Entry(broker.identity.host, answer.outcome, why=answer.why, severity="warning", data=data))
    if not found:
        yield Entry("any one", "reaches", why=f"it arrives whichever of the {len(fleet.brokers)} brokers is down")
    yield from found[:_MOST_FAILURES]
    if len(found) > _MOST_FAILURES:
        yield Entry("more", f"and without any one of {len(found) - _MOST_FAILURES} other brokers")
