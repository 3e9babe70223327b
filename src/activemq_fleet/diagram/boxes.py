"""Draw a group as a box: a heading with what its pairs have in common, and the pairs inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from activemq_fleet.diagram.balancers import PAD, BalancerBoxes
from activemq_fleet.diagram.canvas import Canvas
from activemq_fleet.diagram.cards import FullCard, SmallCard, inner_line, ports_of
from activemq_fleet.diagram.lines import Stroke
from activemq_fleet.diagram.pair_layout import place_pairs
from activemq_fleet.diagram.placement import Box
from activemq_fleet.diagram.scene import BrokerView, GroupView
from activemq_fleet.diagram.text import join_words, shorten, width_of, wrap
from activemq_fleet.node.printable import counted

_PAD = 16.0
_MOST_NOTES = 8
_Answer = TypeVar("_Answer")


class GroupBox:
    """The drawing of one group as a box with a heading and the cards of its pairs, measured when it is created.

    ``width`` and ``height`` are in pixels; both may grow before the box is drawn. ``known`` are facts that the picture
    states elsewhere, which the heading leaves out.
    """

    hanging = 0.0

    def __init__(self, view: GroupView, *, small: bool, card_width: float, known: Sequence[str] = ()) -> None:
        self.view = view
        self.name = view.name
        self.small = small
        usual, domain = usual_release(view), common_answer(view, domain_of)
        cards: list[Box] = [
            SmallCard(pair, card_width, usual) if small else FullCard(pair, card_width, domain) for pair in view.pairs
        ]
        # Equally high, so that lines between cards side by side are straight.
        height = max(card.height for card in cards)
        for card in cards:
            card.height = height
        self.inside = place_pairs(view, cards, small=small)
        name = width_of(view.name, "group-name")
        self._balancers = BalancerBoxes(view.balancers)
        framed = self.inside.width + (2 * PAD if view.balancers else 0.0)
        self._framed_width = max(framed, self._balancers.width)
        self.width = max(self._framed_width, min(name, 420.0), 190.0 if small else 250.0) + 2 * _PAD
        facts = [fact for fact in heading_facts(view, small=small) if fact not in known]
        self._facts = wrap(facts, "facts", self.width - 2 * _PAD, " · ")
        notes = wrap(self.inside.notes, "small", self.width - 2 * _PAD, ", ")
        hidden = len(notes) - _MOST_NOTES
        self._notes = notes if hidden <= 0 else [*notes[:_MOST_NOTES], f"and {counted(hidden, 'line')} more"]
        self._top = 38 + 17 * len(self._facts) + 10.0
        self._inside_top = self._top + self._balancers.extra
        self._notes_top = self._inside_top + self.inside.height + self._balancers.foot
        self.height = self._notes_top + (16 * len(self._notes) + 12 if self._notes else 0.0) + _PAD

    @property
    def connection_lines(self) -> list[Stroke]:
        """All connection lines that are drawn inside the box, lines within the cards of pairs included."""
        inner = [] if self.small else [pair for pair in self.view.pairs if pair.inner_edges]
        return [*self.inside.strokes, *(Stroke((), *inner_line(pair)) for pair in inner)]

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw the group with its upper left corner at (x, y), in pixels."""
        with canvas.group(f"group {self.name}", at=(x, y)):
            canvas.rect(0, 0, self.width, self.height, "group-box", 12)
            canvas.text(_PAD, 28, shorten(self.name, "group-name", self.width - 2 * _PAD), "group-name ink")
            for row, line in enumerate(self._facts):
                canvas.text(_PAD, 48 + 17 * row, line, "facts muted")
            if self.view.balancers:
                with canvas.group(at=((self.width - self._framed_width) / 2, self._top)):
                    self._balancers.draw(canvas, self._framed_width, self.inside.height)
            with canvas.group(at=((self.width - self.inside.width) / 2, self._inside_top)):
                self.inside.draw(canvas)
            for row, line in enumerate(self._notes):
                canvas.text(_PAD, self._notes_top + 22 + 16 * row, line, "small muted")


def common_answer(
    view: GroupView, question: Callable[[BrokerView], _Answer], asked: Callable[[BrokerView], bool] = lambda node: True
) -> _Answer | None:
    """Return the result of ``question`` for a group's brokers that satisfy ``asked``, if it is equal for all; else
    None.
    """
    answers = [question(node) for pair in view.pairs for node in pair.nodes if asked(node)]
    return answers[0] if answers and all(answer == answers[0] for answer in answers) else None


def domain_of(node: BrokerView) -> str:
    """Return the DNS domain of a broker's host name."""
    return node.broker.identity.domain


def usual_release(view: GroupView) -> str:
    """Return the release that most brokers of a group run, as text; of equally frequent releases, the newer."""
    found = Counter(node.broker.release for pair in view.pairs for node in pair.nodes)
    return max(found, key=lambda release: (found[release], release.version)).text


def heading_facts(view: GroupView, *, small: bool) -> list[str]:
    """Return short texts for a group's heading: number of pairs, releases, profiles, shape; with
    small cards also the ports.
    """
    brokers = [node.broker for pair in view.pairs for node in pair.nodes]
    releases = {broker.release.text: broker.release.version for broker in brokers}
    kinds = dict.fromkeys(broker.profile.plural for broker in brokers)
    facts = [
        counted(len(view.pairs), "pair"),
        join_words(sorted(releases, key=lambda text: releases[text])),
        join_words(kinds),
    ]
    facts += [shape] if (shape := network_shape_phrase(view)) else []
    if any(pair.inner_edges and pair.profile.has_peer for pair in view.pairs):
        facts.append("nodes of a pair linked")
    domain = common_answer(view, domain_of)
    facts += [f"in {domain}"] if domain else []
    if small:
        ports = common_answer(view, lambda node: tuple(ports_of(node)), lambda node: bool(node.broker.connectors))
        facts += list(ports) if ports else ["ports differ"]
    return facts


def shared_facts(views: Sequence[GroupView]) -> list[str]:
    """Return the heading texts that all groups have in common, so that the picture shows them once."""
    if len(views) < 2:
        return []
    each = [heading_facts(view, small=True) for view in views]
    # How many pairs a group has belongs to its name.
    return [fact for fact in each[0][1:] if all(fact in facts[1:] for facts in each)]


def network_shape_phrase(view: GroupView) -> str:
    """Return the shape of a group's network in words, such as ``full mesh``; empty for a single pair."""
    if view.multicast is not None:
        return "multicast network"
    if view.shape.name == "none":
        return "no links inside" if len(view.pairs) > 1 else ""
    if view.shape.name == "hub":
        return f"hub {view.shape.order[0]}"
    if len(view.pairs) == 2:
        return "linked to each other"
    if view.shape.name == "other":
        return f"{counted(len(view.connections), 'connection')} inside"
    return "full mesh" if view.shape.name == "mesh" else view.shape.name
