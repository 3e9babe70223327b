"""Load balancers in the pictures: their hosts, the addresses that they hold, and what they lead to."""

from __future__ import annotations

import re

import pytest

from activemq_fleet.diagram import to_mermaid, to_svg
from activemq_fleet.topology import BALANCERS, Fleet, build_fleet
from tests.situations import some_situations
from tests.unit.drawn import balanced, pairs, with_findings
from tests.unit.fleets import fleet, hosts
from tests.unit.pictures import Box, Picture

HOSTS = ("lb1", "load-balancer-2.frankfurt.internal.example.com")


def holds(outer: Box, inner: Box) -> bool:
    return (
        outer.x <= inner.x and outer.y <= inner.y and inner.right <= outer.right + 0.1 and inner.bottom <= outer.bottom
    )


@some_situations(1)
@pytest.mark.parametrize("count", [4, 60, 100])
def test_each_balancer_of_a_group_is_a_box_with_its_address_and_a_line_to_the_pairs(count: int) -> None:
    picture = Picture(to_svg(balanced(count)))
    frames, cards = picture.boxes("balanced"), picture.boxes("card")
    boxes = picture.boxes("balancer")
    lines = [title for title in picture.titles_of("balances") if title]

    assert len(frames) == 2
    assert all(any(holds(frame, card) for frame in frames) for card in cards)
    assert len(boxes) == len(lines) == 4
    assert {box.title for box in boxes} == set(lines)
    assert all(any(host in line and "192.0.2.10" in line for line in lines) for host in HOSTS)
    assert "192.0.2.11 · openwire 61616" in picture.shown
    assert not any(box.overlaps(other) for box in boxes for other in [*frames, *cards])
    assert all(any(holds(group, box) for group in picture.boxes("group-box")) for box in boxes)


def test_a_line_of_a_balancer_ends_at_the_frame_around_its_pairs() -> None:
    root = Picture(to_svg(balanced(4))).root
    heads = [e.get("d", "") for e in root.iterfind(".//{*}path") if e.get("class") == "head-balances"]
    frame = next(e for e in root.iterfind(".//{*}rect") if e.get("class") == "balanced")

    tips = [float(re.findall(r"[\d.]+", head)[1]) for head in heads[:2]]
    assert tips == [float(frame.get("y", ""))] * 2


@pytest.mark.parametrize("count", [4, 100])
def test_mermaid_and_the_description_name_balancers_and_their_addresses(count: int) -> None:
    found = balanced(count)
    chart, described = to_mermaid(found), Picture(to_svg(found)).root.findtext("{*}desc") or ""

    assert 'b0["lb1<br/>load balancer"]' in chart
    assert chart.count("192.0.2.10") == chart.count("192.0.2.11") == 2
    assert re.search(r'b1 -->\|"192\.0\.2\.11<br/>openwire 61616[^"]*"\| g1', chart)
    assert "Load balancer lb1: 192.0.2.10 (openwire 61616" in described


def test_a_large_fleet_drawn_by_its_groups_keeps_its_balancers() -> None:
    found: dict[str, dict[str, object]] = {}
    for number in range(60):
        found |= hosts(*pairs(f"group{number:02}", 10), vip=f"192.0.2.{number + 1}", vip_interface="eth0")
    chart = to_mermaid(build_fleet(found | {"lb1": {}}, {BALANCERS: ["lb1"]}))

    assert len(chart) < 50_000
    assert "192.0.2.60" in chart
    assert 'b0["lb1' in chart


def test_a_balancer_without_an_address_is_a_box_of_its_own() -> None:
    found = build_fleet(hosts("orders-mq01") | {"lb1": {}}, {BALANCERS: ["lb1"]})
    picture = Picture(to_svg(found))

    assert [box.title for box in picture.boxes("balancer")] == ["load balancer lb1 has no virtual address"]
    assert "no address" in picture.shown
    assert 'b0["lb1<br/>load balancer<br/>no address"]' in to_mermaid(found)


@pytest.mark.parametrize(
    "found",
    [with_findings(balanced(60)), with_findings(balanced(4)), with_findings(fleet(*pairs("orders", 60)))],
    ids=["sixty pairs in two groups", "four pairs", "sixty pairs in a group"],
)
def test_every_badge_of_a_finding_stays_on_its_card(found: Fleet) -> None:
    picture = Picture(to_svg(found))
    cards = picture.boxes("card")
    lowest = max(card.bottom for card in cards)
    badges = [b for css in ("error", "warning", "info") for b in picture.boxes(f"badge-{css}") if b.y < lowest]

    assert len(badges) > 3
    assert [badge for badge in badges if not any(holds(card, badge) for card in cards)] == []


def test_a_name_that_is_cut_keeps_its_number_and_letter() -> None:
    """Else all brokers of a group with a long name would read alike."""
    found = with_findings(fleet(*pairs("logistics-warehouse-automation", 40)))
    shown = Picture(to_svg(found)).shown.splitlines()
    cut = [text for text in shown if text.startswith("logistics") and "…" in text]

    assert cut != []
    assert all(re.search(r"…\d\d-[ab]$", text) for text in cut)
