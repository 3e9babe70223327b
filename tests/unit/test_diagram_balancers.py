"""Load balancers in the pictures: their hosts, their addresses, and the pairs that they balance."""

from __future__ import annotations

import re

import pytest

from activemq_fleet.diagram import to_mermaid, to_svg
from activemq_fleet.topology import BALANCERS, Fleet, build_fleet
from tests.situations import some_situations
from tests.unit.drawn import add_findings, balanced_groups, pairs
from tests.unit.fleets import fleet, hosts
from tests.unit.pictures import Box, Picture

HOSTS = ("lb1", "load-balancer-2.frankfurt.internal.example.com")


def contains_box(outer: Box, inner: Box) -> bool:
    return (
        outer.x <= inner.x and outer.y <= inner.y and inner.right <= outer.right + 0.1 and inner.bottom <= outer.bottom
    )


@some_situations(1)
@pytest.mark.parametrize("count", [4, 60, 100])
def test_balancer_is_drawn_as_box_with_address_and_line_to_pairs(count: int) -> None:
    picture = Picture(to_svg(balanced_groups(count)))
    frames, cards = picture.boxes("balanced"), picture.boxes("card")
    boxes = picture.boxes("balancer")
    lines = [title for title in picture.titles_of("balances") if title]

    assert len(frames) == 2
    assert all(any(contains_box(frame, card) for frame in frames) for card in cards)
    assert len(boxes) == len(lines) == 4
    assert {box.title for box in boxes} == set(lines)
    assert all(any(host in line and "192.0.2.10" in line for line in lines) for host in HOSTS)
    assert "192.0.2.11 · openwire 61616" in picture.shown
    assert not any(box.overlaps(other) for box in boxes for other in [*frames, *cards])
    assert all(any(contains_box(group, box) for group in picture.boxes("group-box")) for box in boxes)


def test_line_of_balancer_ends_at_frame_around_its_pairs() -> None:
    root = Picture(to_svg(balanced_groups(4))).root
    heads = [e.get("d", "") for e in root.iterfind(".//{*}path") if e.get("class") == "head-balances"]
    frame = next(e for e in root.iterfind(".//{*}rect") if e.get("class") == "balanced")

    tips = [float(re.findall(r"[\d.]+", head)[1]) for head in heads[:2]]
    assert tips == [float(frame.get("y", ""))] * 2


@pytest.mark.parametrize("count", [4, 100])
def test_mermaid_and_description_name_balancers_and_addresses(count: int) -> None:
    balanced_fleet = balanced_groups(count)
    chart, description = to_mermaid(balanced_fleet), Picture(to_svg(balanced_fleet)).root.findtext("{*}desc") or ""

    assert 'b0["lb1<br/>load balancer"]' in chart
    assert chart.count("192.0.2.10") == chart.count("192.0.2.11") == 2
    assert re.search(r'b1 -->\|"192\.0\.2\.11<br/>openwire 61616[^"]*"\| g1', chart)
    assert "Load balancer lb1: 192.0.2.10 (openwire 61616" in description


def test_large_fleet_drawn_by_groups_keeps_balancers() -> None:
    variables_by_host: dict[str, dict[str, object]] = {}
    for number in range(60):
        variables_by_host |= hosts(*pairs(f"group{number:02}", 10), vip=f"192.0.2.{number + 1}", vip_interface="eth0")
    chart = to_mermaid(build_fleet(variables_by_host | {"lb1": {}}, {BALANCERS: ["lb1"]}))

    assert len(chart) < 50_000
    assert "192.0.2.60" in chart
    assert 'b0["lb1' in chart


def test_balancer_without_address_is_separate_box() -> None:
    balanced_fleet = build_fleet(hosts("orders-mq01") | {"lb1": {}}, {BALANCERS: ["lb1"]})
    picture = Picture(to_svg(balanced_fleet))

    assert [box.title for box in picture.boxes("balancer")] == ["load balancer lb1 has no virtual address"]
    assert "no address" in picture.shown
    assert 'b0["lb1<br/>load balancer<br/>no address"]' in to_mermaid(balanced_fleet)


@pytest.mark.parametrize(
    "drawn_fleet",
    [add_findings(balanced_groups(60)), add_findings(balanced_groups(4)), add_findings(fleet(*pairs("orders", 60)))],
    ids=["sixty pairs in two groups", "four pairs", "sixty pairs in a group"],
)
def test_badges_of_findings_are_on_their_cards(drawn_fleet: Fleet) -> None:
    picture = Picture(to_svg(drawn_fleet))
    cards = picture.boxes("card")
    lowest = max(card.bottom for card in cards)
    badges = [b for css in ("error", "warning", "info") for b in picture.boxes(f"badge-{css}") if b.y < lowest]

    assert len(badges) > 3
    assert [badge for badge in badges if not any(contains_box(card, badge) for card in cards)] == []


def test_shortened_host_name_in_diagram_keeps_number_and_node_letter() -> None:
    """Without number and letter, all brokers of a group with a long name would have the same label."""
    drawn_fleet = add_findings(fleet(*pairs("logistics-warehouse-automation", 40)))
    shown = Picture(to_svg(drawn_fleet)).shown.splitlines()
    shortened_names = [text for text in shown if text.startswith("logistics") and "…" in text]

    assert shortened_names != []
    assert all(re.search(r"…\d\d-[ab]$", text) for text in shortened_names)
