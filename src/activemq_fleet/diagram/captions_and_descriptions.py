"""Describe a fleet in words: facts in headings, captions of links between groups, and the text for screen readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from activemq_fleet.diagram.scene import (
    BrokerView,
    DrawnConnection,
    Ends,
    GroupView,
    PairCountAndNoun,
    PairView,
    PictureContent,
    severity_or_waived,
)
from activemq_fleet.findings import SEVERITIES, Finding
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.topology import Broker, pair_and_single_broker_count_texts

MAX_FULL = 12
"""Pairs of a picture with detailed cards; with more pairs, cards show only what differs within a group."""
_MAX_NAMED, _MAX_BALANCERS, _MAX_TOOLTIP_FINDINGS = 3, 4, 10
_Result = TypeVar("_Result")


def join_words(words: Iterable[str]) -> str:
    """Join words to a phrase, such as ``a, b and c``.

    One word is returned as it is, and two as ``a and b``.
    """
    *others, last = [*words] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def port_texts(node: BrokerView) -> list[str]:
    """Return texts about the ports of a broker, such as ``openwire 61616``.

    The texts are in the order of the broker's connectors.
    """
    return [f"{name} {port}" for name, port in node.broker.ports.items()]


def _releases_phrase(brokers: Iterable[Broker]) -> str:
    """Return a phrase with the different releases of brokers.

    The oldest release is first.
    """
    releases = {broker.release.text: broker.release.version for broker in brokers}
    return join_words(sorted(releases, key=lambda text: releases[text]))


def usual_release(view: GroupView) -> str:
    """Return the usual ActiveMQ release in a group: the release that most of its brokers run.

    Of equally frequent releases the newer one is returned.
    """
    counts = Counter(node.broker.release for node in view.nodes_of_all_pairs)
    return max(counts, key=lambda release: (counts[release], release.version)).text


def common_result(nodes: Iterable[BrokerView], function: Callable[[BrokerView], _Result]) -> _Result | None:
    """Return the result of a function if it is the same for all given brokers (``nodes``), else None."""
    results = [function(node) for node in nodes]
    return results[0] if results and all(result == results[0] for result in results) else None


def dns_domain_of_broker(broker_view: BrokerView) -> str:
    """Return the DNS domain of a broker's host; it is empty for a host name without a domain."""
    return broker_view.broker.identity.domain


def group_heading_texts(group: GroupView, *, with_ports: bool = False) -> list[str]:
    """Return the texts of a group's heading in a picture, such as its number of pairs and its releases.

    The other texts are about brokers, profiles, shape, domain and ports.
    """
    kinds = dict.fromkeys(node.broker.ha_profile.plural for node in group.nodes_of_all_pairs)
    brokers = [node.broker for node in group.nodes_of_all_pairs]
    facts = [join_words(pair_and_single_broker_count_texts(brokers)), _releases_phrase(brokers), join_words(kinds)]
    if shape := _network_shape_phrase(group):
        facts.append(shape)
    if any(pair.links and pair.high_availability_profile.has_peer for pair in group.pairs):
        facts.append("nodes of each pair linked to each other")
    if domain := common_result(group.nodes_of_all_pairs, dns_domain_of_broker):
        facts.append(f"in {domain}")
    if with_ports:
        ports = common_result([node for node in group.nodes_of_all_pairs if node.broker.connectors], port_texts)
        facts += ports or ["ports differ"]
    return facts


def shared_heading_texts(views: Sequence[GroupView]) -> list[str]:
    """Return the texts, such as the release, that the headings of all groups in a picture share.

    The picture shows these texts once.
    """
    if len(views) < 2:
        return []
    # The number of pairs of a group belongs to its name.
    first, *others = [group_heading_texts(view, with_ports=True)[1:] for view in views]
    return [fact for fact in first if all(fact in facts for facts in others)]


def _network_shape_phrase(view: GroupView) -> str:
    """Return a phrase that describes the shape of a group's network, such as ``full mesh``.

    It is empty for a single pair.
    """
    if view.multicast is not None:
        return "multicast network"
    if view.shape.name == "none":
        return "no links inside the group" if len(view.pairs) > 1 else ""
    if view.shape.name == "hub":
        return f"hub {view.shape.order[0]}"
    if len(view.pairs) == 2:
        return f"both {view.pair_count_and_noun.noun}s linked to each other"
    if view.shape.name == "other":
        return f"{count_with_noun(len(view.connections), 'connection')} inside the group"
    return "full mesh" if view.shape.name == "mesh" else view.shape.name


def connection_caption_lines(
    connection: DrawnConnection, sizes: Mapping[str, PairCountAndNoun], *, with_kind: bool = False
) -> list[str]:
    """Return the lines of the caption next to a connection between two groups of a picture.

    The lines contain numbers of pairs and links, and destinations. ``sizes`` are the groups' sizes; between groups of
    one pair each no pairs are named. The kind of a single link shows in its line, and is written only with
    ``with_kind``.
    """
    is_small = sizes[connection.a].number == sizes[connection.b].number == 1
    lines = [] if is_small else _ends_phrases(connection, sizes)
    if connection.represented_link_count > (2 if connection.flow == "each way" else 1):
        lines.append(f"{connection.represented_link_count} × {connection.kind}")
    elif with_kind:
        lines.append(connection.kind)
    if connection.destinations:
        lines.append(f"only {join_words(name.partition('://')[2] for name in connection.destinations)}")
    return lines


def connection_description(connection: DrawnConnection, sizes: Mapping[str, PairCountAndNoun]) -> str:
    """Return one line that describes a connection between two groups of a picture.

    The line names the groups, the direction, and the connection's caption. It is for a list below the picture.
    """
    source, target, arrow = connection.a, connection.b, connection.direction_arrow
    if connection.flow == "backward":
        source, target, arrow = target, source, "→"
    return f"{source} {arrow} {target} ({', '.join(connection_caption_lines(connection, sizes, with_kind=True))})"


def _ends_phrases(connection: DrawnConnection, sizes: Mapping[str, PairCountAndNoun]) -> list[str]:
    """Return phrases about the pairs between which the links of a connection run.

    Both directions are described unless one mirrors the other.
    """
    forward, backward = connection.forward, connection.backward
    forward_sizes, backward_sizes = (
        (sizes[connection.a], sizes[connection.b]),
        (sizes[connection.b], sizes[connection.a]),
    )
    mirrored = tuple((target, source) for source, target in backward)
    if connection.flow == "duplex":
        return _ends_phrase(tuple(dict.fromkeys(forward + mirrored)), forward_sizes, "↔")
    if set(forward) == set(mirrored):
        return _ends_phrase(forward, forward_sizes, "⇄")
    return _ends_phrase(forward, forward_sizes, "→") + _ends_phrase(backward, backward_sizes, "→")


def _ends_phrase(ends: Sequence[Ends], sizes: tuple[PairCountAndNoun, PairCountAndNoun], arrow: str) -> list[str]:
    """Return the phrase about the pairs that links connect.

    The phrase has their names or "each pair"; the result is [] where no short form exists.
    """
    sides = [{source for source, _ in ends}, {target for _, target in ends}]
    is_complete = len(ends) == len(sides[0]) * len(sides[1])
    if len(ends) == 1 or (len(ends) <= _MAX_NAMED and not is_complete):
        return [f"{source} {arrow} {target}" for source, target in ends]
    if not is_complete or not ends:
        return []
    return [f" {arrow} ".join(_side_phrase(names, size) for names, size in zip(sides, sizes, strict=True))]


def _side_phrase(names: set[str], size: PairCountAndNoun) -> str:
    if len(names) == 1:
        return min(names)
    return f"each {size.noun}" if len(names) == size.number else count_with_noun(len(names), size.noun)


def fleet_summary_texts(scene: PictureContent) -> list[str]:
    """Return texts that summarize the fleet in its picture, such as the numbers of groups, pairs and brokers.

    The texts are also about agents, releases and load balancers.
    """
    brokers = [node.broker for group in scene.groups for node in group.nodes_of_all_pairs]
    agents = sum(len(pair.agents) for pair in scene.pairs)
    parts = [count_with_noun(len(scene.groups), "group"), *pair_and_single_broker_count_texts(brokers)]
    if any(broker.ha_profile.has_peer for broker in brokers):
        parts.append(count_with_noun(len(brokers), "broker"))
    if agents:
        parts.append(count_with_noun(agents, "agent"))
    if brokers:
        parts.append(f"ActiveMQ {_releases_phrase(brokers)}")
    if scene.balancers:
        named_balancers = ", ".join(scene.balancers[:_MAX_BALANCERS])
        parts.append(f"{count_with_noun(len(scene.balancers), 'load balancer')} {named_balancers}")
    return parts


def finding_counts_text_and_worst_severity(findings: Iterable[Finding]) -> tuple[str, str]:
    """Return a text with the counts of findings by severity, such as ``2 errors, 1 waived``, and the worst severity.

    Without findings the text is ``no findings``, and the severity is ``good``.
    """
    counts = Counter(map(severity_or_waived, findings))
    words = [
        count_with_noun(counts[name], name, "info" if name == "info" else None) for name in SEVERITIES if counts[name]
    ]
    if counts["waived"]:
        words.append(f"{counts['waived']} waived")
    worst = [severity for severity in (*SEVERITIES, "waived") if counts[severity]]
    return (", ".join(words), worst[0]) if worst else ("no findings", "good")


def worst_rule_and_others_text(findings: Sequence[Finding]) -> str:
    """Return the rule of the worst finding and the number of the others as text, such as ``T006 +2``.

    The text is that of the badge which marks a broker's findings in a picture; empty without findings.
    """
    if len(findings) < 2:
        return "".join(finding.rule for finding in findings)
    return f"{findings[0].rule} +{len(findings) - 1}"


def badge_tooltip(findings: Sequence[Finding]) -> str:
    """Return the tooltip of the badge that marks a broker's findings in a picture.

    The tooltip lists the findings: a line for each finding, at most ten.
    """
    lines = [
        f"{severity_or_waived(finding)} {finding.rule}: {finding.message}"
        for finding in findings[:_MAX_TOOLTIP_FINDINGS]
    ]
    if len(findings) > _MAX_TOOLTIP_FINDINGS:
        lines.append(f"and {len(findings) - _MAX_TOOLTIP_FINDINGS} more findings")
    return "\n".join(lines)


def describe_fleet(scene: PictureContent, findings: Sequence[Finding], connections: Iterable[DrawnConnection]) -> str:
    """Return a description of a fleet's picture in words.

    The description is for people who do not see the picture. Pairs are named where they are few.
    """
    sentences = [", ".join(fleet_summary_texts(scene)) + "."]
    has_few_pairs = len(scene.pairs) <= MAX_FULL
    for group in scene.groups:
        sentences.append(f"Group {group.name}: {', '.join(group_heading_texts(group))}.")
        sentences += map(_describe_pair, group.pairs if has_few_pairs else ())
        sentences += [f"{view.tooltip[0].upper()}{view.tooltip[1:]}." for view in group.balancers]
    sentences += [
        f"Link between groups: {connection_description(connection, scene.pair_count_and_noun_by_group)}."
        for connection in connections
    ]
    sentences += [f"Load balancer {host} has no virtual address." for host in scene.idle_balancers]
    sentences.append(
        f"Findings: {finding_counts_text_and_worst_severity(findings)[0]}." if findings else "No findings."
    )
    return " ".join(sentences)


def _describe_pair(pair: PairView) -> str:
    noun = (
        "Pair"
        if pair.high_availability_profile.has_peer
        else "Single broker"
        if len(pair.nodes) == 1
        else "Single brokers"
    )
    agents = f", home of {count_with_noun(len(pair.agents), 'agent')}" if pair.agents else ""
    return f"{noun} {pair.name}: {join_words(map(_describe_node, pair.nodes))}{agents}."


def _describe_node(node: BrokerView) -> str:
    facts = [f"preferred {node.preferred_role}"] if node.preferred_role else []
    facts += [node.state] if node.state else []
    return f"{node.short_host_name} ({', '.join(facts)})" if facts else node.short_host_name
