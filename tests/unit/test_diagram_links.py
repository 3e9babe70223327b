"""Links as lines: their kind, their direction, the destinations that they carry, and a readable course."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from activemq_fleet.diagram import to_mermaid, to_svg
from activemq_fleet.topology import Fleet
from tests.unit.drawn import FLEETS, linked_groups, links_between_all, pairs, shop, star
from tests.unit.fleets import fleet
from tests.unit.pictures import Picture


@pytest.mark.parametrize("discovery", ["masterslave", "failover", "static"])
def test_diagram_draws_link_by_its_discovery_and_explains_it(discovery: str) -> None:
    picture = Picture(to_svg(shop(discovery=discovery)))

    assert {link.kind for link in picture.links} == {discovery}
    assert f"{discovery}: a link to" in picture.texts


@pytest.mark.parametrize(("count", "release", "ha"), [(2, "5.5.1", "pure"), (9, "6.3.1", "shared-file")])
def test_multicast_group_is_drawn_as_bus(count: int, release: str, ha: str) -> None:
    multicast_fleet = fleet(*pairs("orders", count), release=release, ha=ha, discovery="multicast")
    picture = Picture(to_svg(multicast_fleet))

    links_per_pair = 1 if ha == "pure" else 2
    assert {link.kind for link in picture.links} == {"multicast"}
    assert len(picture.links) == count * links_per_pair
    assert "multicast://224.1.2.3:6255?group=orders" in picture.texts


@pytest.mark.parametrize(
    ("topology", "lines", "heads"),
    [("mesh", 12, 12), ("hub", 3, 6), ("ring", 4, 8), ("chain", 3, 6), ("none", 0, 0)],
)
def test_lines_and_arrowheads_of_diagram_follow_topology(topology: str, lines: int, heads: int) -> None:
    picture = Picture(to_svg(fleet(*pairs("orders", 4), topology=topology)))

    assert len(picture.links) == lines
    assert sum(link.heads for link in picture.links) == heads


def test_mesh_of_many_pairs_is_drawn_as_labeled_frame() -> None:
    picture = Picture(to_svg(fleet(*pairs("orders", 8))))

    assert picture.links == []
    assert "full mesh of 8 pairs: 56 links, from each pair to every other pair" in picture.texts
    assert "A full mesh: each pair inside" in picture.texts
    assert "One way" not in picture.texts


@pytest.mark.parametrize(
    ("link", "captions"),
    [
        ({"from": "orders", "to": "billing"}, ["each pair → each pair", "4 × masterslave"]),
        ({"from": "orders-mq01", "to": "billing-mq02", "duplex": True}, ["orders-mq01 ↔ billing-mq02"]),
        ({"from": "orders-mq01", "to": "billing", "include": ["a.>"]}, ["orders-mq01 → each pair", "only a.>"]),
    ],
)
def test_caption_of_link_between_groups_shows_pairs_and_destinations(link: dict[str, Any], captions: list[str]) -> None:
    linked_fleet = linked_groups({"orders": 2, "billing": 2}, link)
    texts, chart = Picture(to_svg(linked_fleet)).texts, to_mermaid(linked_fleet)

    for caption in captions:
        assert caption in re.sub(r"\s+", " ", texts)
        assert caption.replace(">", "#62;") in chart


def test_asymmetric_links_between_groups_are_listed_by_direction() -> None:
    linked_fleet = linked_groups(
        {"billing": 3, "orders": 3}, {"from": "orders", "to": "billing"}, {"from": "billing-mq01", "to": "orders-mq01"}
    )
    shown = Picture(to_svg(linked_fleet)).shown

    assert "billing-mq01 → orders-mq01 · each pair → each pair · 10 × masterslave" in shown


def test_long_caption_above_group_is_wrapped_and_not_truncated() -> None:
    picture = Picture(to_svg(star(6, include=["queue://a.rather.long.name.>", "topic://another.>"])))

    assert "only a.rather.long.name.> and another.>" in picture.shown
    assert "…" not in picture.shown


def test_link_that_only_pure_master_has_duplex_is_shown_as_duplex() -> None:
    link = {"from": "orders", "to": "billing", "duplex": True}
    linked_fleet = linked_groups({"orders": 1, "billing": 1}, link, ha="pure", release="5.5.1", master_node="b")

    assert [line.heads for line in Picture(to_svg(linked_fleet)).links if line.kind == "failover"] == []
    assert [line.heads for line in Picture(to_svg(linked_fleet)).links if line.kind == "static"] == [2]


def test_links_between_groups_are_listed_when_too_many_to_draw() -> None:
    picture = Picture(to_svg(FLEETS["more links between than lines"]))

    assert picture.links == []
    assert "Links between groups (28)" in picture.texts
    assert "a → h (masterslave)" in picture.texts


def test_many_groups_around_hub_share_trunk_and_each_link_is_listed() -> None:
    picture = Picture(to_svg(star(30)))
    hub = next(box for box in picture.boxes("group-box") if box.title == "group hub")
    ends = {link.points[-1] for link in picture.links}

    assert len(picture.links) == 30
    assert len(ends) == 1
    assert next(iter(ends))[0] == pytest.approx(hub.right, abs=10)
    assert all(f"shop{number:02}-mq01 ↔ hub-mq01" in picture.shown for number in range(30))


@pytest.mark.parametrize(
    "links",
    [
        [{"from": "a", "to": "hub"}, {"from": "a", "to": "hub", "duplex": True, "name": "again"}],
        [{"from": "hub", "to": "a"}],
    ],
)
def test_groups_around_hub_with_different_links_have_separate_lines(links: list[dict[str, Any]]) -> None:
    equal_links = [{"from": name, "to": "hub"} for name in "bcdef"]
    picture = Picture(to_svg(linked_groups(dict.fromkeys(["hub", *"abcdef"], 1), *equal_links, *links)))

    assert len({link.points[0] for link in picture.links}) == len(picture.links) == len(equal_links) + len(links)


def test_lines_of_different_links_do_not_overlap() -> None:
    links = [link for link in Picture(to_svg(FLEETS["links between seven groups"])).links if link.group is None]
    segments = [
        (number, (x1, sorted((y1, y2))))
        for number, link in enumerate(links)
        for (x1, y1), (x2, y2) in pairwise(link.points)
        if abs(x1 - x2) < 0.5
    ]
    shared = [
        (a, b)
        for position, (a, (x, (top, bottom))) in enumerate(segments)
        for b, (other, (start, end)) in segments[:position]
        if a != b and abs(x - other) < 3 and min(bottom, end) - max(top, start) > 10
    ]

    assert shared == []


def test_diagram_orders_groups_by_direction_of_messages() -> None:
    links = [{"from": "orders", "to": "billing"}, {"from": "billing", "to": "audit"}]
    picture = Picture(to_svg(linked_groups({"audit": 1, "billing": 1, "orders": 1}, *links)))
    tops = [box.title for box in sorted(picture.boxes("group-box"), key=lambda box: (box.y, box.x))]

    assert tops == ["group orders", "group billing", "group audit"]


SPARSE = [("payments", "b"), ("eu-west", "hr"), ("x", "telemetry"), ("hr", "x"), ("a", "eu-west"), ("b", "x")]
FAR = ("links to groups far away", "links between seven groups", "groups around hub", "sixty pairs with findings")
CAPTIONED = {name: FLEETS[name] for name in FAR} | {
    "eight groups and six links": linked_groups(
        dict.fromkeys(["payments", "eu-west", "x", "logistics-warehouse", "hr", "telemetry", "a", "b"], 2),
        *({"from": f"{source}-mq01", "to": f"{target}-mq02"} for source, target in SPARSE),
    ),
}


@pytest.mark.parametrize("drawn_fleet", CAPTIONED.values(), ids=CAPTIONED)
def test_no_caption_in_diagram_covers_line_or_arrowhead(drawn_fleet: Fleet) -> None:
    picture = Picture(to_svg(drawn_fleet))
    patches = [box for box in picture.boxes("paper") if box.x > 0]
    lines = [link for link in picture.links if link.group is None]

    assert lines != []
    assert picture.heads != []
    assert [(box, link.points) for box in patches for link in lines if link.crosses(box)] == []
    assert [(box, head) for box in patches for head in picture.heads if box.overlaps(head)] == []


def test_caption_that_would_cover_lines_is_shortened() -> None:
    picture = Picture(to_svg(linked_groups(dict.fromkeys("abcdefg", 3), *links_between_all("abcdefg"))))
    patches = [box for box in picture.boxes("paper") if box.x > 0]
    hidden = [box for box in patches for link in picture.links if link.group is None and link.crosses(box)]

    assert "9 × masterslave" in picture.shown.splitlines()
    assert len(hidden) <= 1
