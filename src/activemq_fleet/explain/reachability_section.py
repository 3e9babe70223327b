"""Explain which pairs a broker's messages reach over bridges, and which routes of other pairs its death cuts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from activemq_fleet.errors import names_to_text
from activemq_fleet.explain.explanation import ExplanationSection, HostStatement, broker_or_pair_noun
from activemq_fleet.routes import MessageReachAnswer, Routes
from activemq_fleet.topology import Broker, Fleet

_MAX_NAMED = 6
_VERBS = {"reaches": "reaches", "may strand": "may get stuck on the way to", "does not reach": "does not reach"}


def reachable_pairs_section(fleet: Fleet, broker: Broker, routes: Routes) -> ExplanationSection | None:
    """Return the section of the output of the command ``explain`` about the pairs that messages of the broker reach.

    The result is None for a fleet of one pair.
    """
    places = {
        other.name_in_links: other.group for other in fleet.brokers if other.name_in_links != broker.name_in_links
    }
    if not places:
        return None
    answers: dict[str, dict[str, MessageReachAnswer]] = defaultdict(dict)
    for unit, group in places.items():
        answers[group][unit] = routes.reaches(broker.host, unit)
    entries = [
        entry
        for group, group_answers in sorted(answers.items())
        for entry in _group_entries(group, group_answers, is_own_group=group == broker.group)
    ]
    intro = (
        f"Shows whether a message that is sent to {broker.name_in_links} arrives if its only consumer is connected "
        f"to the {_unit_nouns(fleet)} in the row. `activemq-fleet explain HOST --to TARGET` shows the route."
    )
    title = "Reachable pairs" if all(other.ha_profile.has_peer for other in fleet.brokers) else "Reachable brokers"
    return ExplanationSection("reach", title, (*entries, *_cut_route_entries(fleet, broker, routes)), intro=intro)


def _unit_nouns(fleet: Fleet) -> str:
    """Return the noun for the ends of routes in a fleet: ``pair``, ``broker``, or both."""
    nouns = sorted({broker_or_pair_noun(broker) for broker in fleet.brokers}, reverse=True)
    return " or ".join(nouns)


def _group_entries(
    group: str, answers: dict[str, MessageReachAnswer], *, is_own_group: bool
) -> Iterator[HostStatement]:
    """Yield an entry for each outcome in a group; the reason shown is that of the first pair with that outcome."""
    by_outcome: dict[str, list[str]] = defaultdict(list)
    for unit, answer in answers.items():
        by_outcome[answer.outcome].append(unit)
    for outcome, units in by_outcome.items():
        is_every_unit = len(units) == len(answers) and len(units) > 1
        all_units_text = f"all {len(units)} {'other ' if is_own_group else ''}members of group {group}"
        units_text = all_units_text if is_every_unit else names_to_text(units, most=_MAX_NAMED)
        reason = "" if outcome == "reaches" else answers[units[0]].why
        severity = None if outcome == "reaches" else "warning"
        data = {"group": group, "outcome": outcome, "units": units}
        yield HostStatement(
            group, f"a message {_VERBS[outcome]} {units_text}", why=reason, severity=severity, data=data
        )


def _cut_route_entries(fleet: Fleet, broker: Broker, routes: Routes) -> Iterator[HostStatement]:
    stranded = routes.source_target_pairs_lost_without(broker.host)
    others = _unit_nouns(fleet).replace("pair", "pairs").replace("broker", "brokers")
    if stranded:
        routes_text = names_to_text([f"{source} to {target}" for source, target in stranded], most=_MAX_NAMED)
        data = {"stranded": [list(pair) for pair in stranded]}
        yield HostStatement(
            "lost routes",
            routes_text,
            why=f"messages cannot take these routes between other {others} while {broker.host} is down",
            severity="warning",
            data=data,
        )
    else:
        yield HostStatement(
            "lost routes",
            f"none: if {broker.host} fails, no route between other {others} is lost",
            data={"stranded": []},
        )
