"""Explain the route of a message from one host to a consumer at another, and which broker failures cut it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from activemq_fleet.addresses import host_name_without_domain
from activemq_fleet.errors import InputError, names_to_text
from activemq_fleet.explain.explanation import ExplanationSection, HostExplanation, HostStatement
from activemq_fleet.explain.host_pages import inventory_name_of
from activemq_fleet.explain.link_sections import ttl_in_words
from activemq_fleet.routes import MessageReachAnswer, Routes
from activemq_fleet.topology import Fleet

_MAX_NAMED = 20


def explain_route(
    fleet: Fleet, routes: Routes, source: str, target: str, destination: str | None = None
) -> HostExplanation:
    """Return a HostExplanation of the route that messages take over network bridges from one broker to another.

    It contains the bridges, the route in the opposite direction, and the broker failures that interrupt it. ``source``
    and ``target`` are inventory names or first labels of brokers, or of agents, which represent their home pairs.
    ``destination`` is a queue, or ``topic://NAME``. Raises InputError for an unknown name.
    """
    sender, receiver = _broker_host_of(fleet, source), _broker_host_of(fleet, target)
    answer = routes.reaches(sender, receiver, destination=destination)
    return_answer = routes.reaches(receiver, sender, destination=destination)
    destination_text = f" for {destination}" if destination else ""
    intro = (
        f"Shows the route of a message that is sent to {sender}, if its only consumer is connected to {receiver} and "
        "all bridges are up."
    )
    sections = (
        ExplanationSection(
            "way", "Route", (_outcome_entry("outcome", answer), *_hop_entries(fleet, answer)), intro=intro
        ),
        ExplanationSection(
            "back", "Return route", (_outcome_entry("outcome", return_answer), *_hop_entries(fleet, return_answer))
        ),
        ExplanationSection(
            "failures",
            "Failure of one broker",
            tuple(_failure_entries(fleet, routes, sender, receiver, destination, answer)),
        ),
    )
    host, other = inventory_name_of(fleet, source), inventory_name_of(fleet, target)
    return HostExplanation(host, ("way",), f"{host} to {other}{destination_text}: {answer.outcome}", sections)


def _broker_host_of(fleet: Fleet, name: str) -> str:
    """Return the host of the broker with a name; for an agent, the preferred master of its home pair."""
    host = inventory_name_of(fleet, name)
    if any(broker.host == host for broker in fleet.brokers):
        return host
    agent = next((agent for agent in fleet.agents if agent.host == host), None)
    if agent is None:
        raise InputError(
            f"messages have no route to host {name}, because it is a load balancer: name a broker, or a host that "
            "runs an agent"
        )
    pair = fleet.pairs_by_name[agent.pair]
    return pair.preferred_master.host


def _outcome_entry(label: str, answer: MessageReachAnswer) -> HostStatement:
    return HostStatement(
        label,
        answer.outcome,
        why=answer.why,
        data={"outcome": answer.outcome, "arrives": answer.arrives_for_every_bridge_choice},
    )


def _hop_entries(fleet: Fleet, answer: MessageReachAnswer) -> Iterator[HostStatement]:
    for number, hop in enumerate(answer.path, 1):
        links = fleet.broker(hop.host).links
        details = tuple(f"{link.kind}, {ttl_in_words(link)}" for link in links if link.name == hop.link)
        direction_note = " against its direction (duplex)" if hop.back else ""
        reason = f"the message crosses the link {hop.link} of {hop.host}{direction_note}"
        yield HostStatement(
            f"bridge {number}", f"{hop.source} to {hop.target}", why=reason, details=details, data=asdict(hop)
        )


def _failure_entries(
    fleet: Fleet,
    routes: Routes,
    sender: str,
    receiver: str,
    destination: str | None,
    healthy_answer: MessageReachAnswer,
) -> Iterator[HostStatement]:
    """Yield an entry for each outcome other than arrival, with the brokers whose failure causes it.

    ``healthy_answer`` is the answer while all brokers run; failures that change nothing about it share one entry.
    """
    hosts_by_outcome: dict[tuple[str, str], list[str]] = defaultdict(list)
    unchanged: list[str] = []
    for broker in fleet.brokers:
        answer = routes.reaches(sender, receiver, down=broker.host, destination=destination)
        if not answer.arrives_for_every_bridge_choice and (answer.outcome, answer.why) == (
            healthy_answer.outcome,
            healthy_answer.why,
        ):
            unchanged.append(broker.host)
        elif not answer.arrives_for_every_bridge_choice:
            hosts_by_outcome[answer.outcome, answer.why].append(broker.host)
    for (outcome, reason), hosts in hosts_by_outcome.items():
        yield _failure_entry(outcome, reason, hosts)
    if unchanged:
        which = f"any one of {len(unchanged)}" + (" other brokers" if hosts_by_outcome else " brokers")
        data = {"down": unchanged, "outcome": healthy_answer.outcome}
        yield HostStatement(
            which,
            "changes nothing",
            why=f"the result is the same as when all brokers are up: {healthy_answer.outcome}",
            data=data,
        )
    elif not hosts_by_outcome:
        yield HostStatement(
            "any one", "reaches", why=f"the message arrives even if any one of the {len(fleet.brokers)} brokers is down"
        )


def _failure_entry(outcome: str, reason: str, hosts: Sequence[str]) -> HostStatement:
    """Return the entry on what happens when any one of the given brokers is down."""
    names = [host_name_without_domain(host) for host in hosts]
    data = {"down": list(hosts), "outcome": outcome}
    if len(hosts) == 1:
        return HostStatement(names[0], outcome, why=reason, severity="warning", data=data)
    details = (names_to_text(names, most=_MAX_NAMED),)
    return HostStatement(
        f"any one of {len(hosts)} brokers", outcome, why=reason, details=details, severity="warning", data=data
    )
