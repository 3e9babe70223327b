"""The fleet as a picture: everybody is in it, nobody's name breaks it, and no line crosses a box."""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from activemq_fleet.diagram import to_mermaid, to_svg
from activemq_fleet.findings import Finding
from activemq_fleet.inventory import load_fleet
from activemq_fleet.topology import AGENTS, BROKERS, Fleet, build_fleet
from tests.golden_files import Golden
from tests.unit.fleets import fleet, hosts
from tests.unit.pictures import Picture

REPOSITORY = Path(__file__).resolve().parents[2]
AGENT = {"activemq_agent_username": "agent", "activemq_agent_password": "a password"}
TOPOLOGIES = ("mesh", "hub", "ring", "chain", "none")


def pairs(group: str, count: int) -> list[str]:
    return [f"{group}-mq{number:02}" for number in range(1, count + 1)]


def shop(**variables: Any) -> Fleet:
    return fleet(*pairs("orders", 2), **variables)


def jdbc(url: str) -> dict[str, Any]:
    return {"url": url, "driver": "org.example.Driver", "username": "mq", "password": "a password"}


def with_agents(count: int) -> Fleet:
    agents = {f"agent-{i}.example.com": AGENT | {"activemq_agent_pair": "orders-mq01"} for i in range(count)}
    return build_fleet(hosts(*pairs("orders", 2)) | agents, {AGENTS: list(agents)})


def linked(counts: dict[str, int], *links: dict[str, Any], **variables: Any) -> Fleet:
    names = [name for group, count in counts.items() for name in pairs(group, count)]
    return fleet(*names, links=list(links), **variables)


def between(groups: str) -> list[dict[str, Any]]:
    return [{"from": a, "to": b} for a in groups for b in groups if a < b]


def star(count: int, **link: Any) -> Fleet:
    """Groups that are linked to the group ``hub`` and to nothing else."""
    names = [f"shop{number:02}" for number in range(count)]
    links = [{"from": f"{name}-mq01", "to": "hub-mq01", "duplex": True} | link for name in names]
    return linked(dict.fromkeys(["hub", *names], 4), *links)


FLEETS = {
    "one single broker": fleet("orders-mq01", nodes="a", ha="none"),
    "single brokers": shop(ha="none"),
    "shared file": shop(),
    "jdbc": shop(ha="shared-jdbc", jdbc=jdbc("jdbc:postgresql://db/x")),
    "pure": shop(ha="pure", release="5.5.1"),
    "many pure": fleet(*pairs("orders", 9), ha="pure", release="5.5.1"),
    "multicast": fleet(*pairs("orders", 5), discovery="multicast"),
    "nodes of a pair linked": fleet("orders-mq01", pair_links="static"),
    "a node missing": fleet("orders-mq01", nodes="b"),
    "two groups": linked({"orders": 2, "billing": 2}, {"from": "orders", "to": "billing"}),
    "agents": with_agents(3),
    "no brokers": build_fleet({"oddone": {}}, {BROKERS: ["oddone"]}),
    "links between seven groups": linked(dict.fromkeys("abcdefg", 1), *between("abcdefg")),
    "links to groups far away": linked(dict.fromkeys("abcdefghijkl", 3), *between("alfg")),
    "more links between than lines": linked(dict.fromkeys("abcdefgh", 1), *between("abcdefgh")),
    "groups around one": star(30),
    "a hundred pairs": fleet(*(name for i in range(10) for name in pairs(f"group{i}", 10))),
} | {
    f"{topology} of {count}": fleet(*pairs("orders", count), topology=topology)
    for topology in TOPOLOGIES
    for count in (2, 3, 4, 5, 6, 7, 11, 23)
}  # fmt: skip

every_fleet = pytest.mark.parametrize("found", FLEETS.values(), ids=FLEETS)


@every_fleet
def test_every_group_pair_and_broker_is_named(found: Fleet) -> None:
    picture, chart = Picture(to_svg(found)), to_mermaid(found)

    for name in [group.name for group in found.groups] + [*found.pairs] + [b.identity.host for b in found.brokers]:
        assert name in picture.texts
        assert name in chart


@every_fleet
def test_nothing_lies_outside_and_no_cards_overlap(found: Fleet) -> None:
    picture = Picture(to_svg(found))

    for box in [*picture.boxes("card"), *picture.boxes("group-box")]:
        assert box.x >= 0
        assert box.y >= 0
        assert box.right <= picture.width
        assert box.bottom <= picture.height
    for css in ("card", "group-box"):
        boxes = picture.boxes(css)
        assert [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)] == []


@every_fleet
def test_no_link_crosses_a_card_or_another_group(found: Fleet) -> None:
    picture = Picture(to_svg(found))
    inside = [(link, card) for link in picture.links if link.pair is None for card in picture.boxes("card")]
    between = [(link, box) for link in picture.links if link.group is None for box in picture.boxes("group-box")]

    assert [link.points for link, box in [*inside, *between] if link.crosses(box)] == []


@every_fleet
def test_it_needs_nothing_from_anywhere(found: Fleet) -> None:
    svg = to_svg(found)
    tags = {etree.QName(element).localname for element in Picture(svg).root.iter()}

    assert tags <= {"svg", "title", "desc", "style", "g", "rect", "text", "path", "circle"}
    assert re.search(r"href|url\(|@import|@font-face|\son[a-z]+=", svg) is None


def test_the_order_of_the_inventory_changes_no_byte() -> None:
    found = hosts(*pairs("orders", 3), *pairs("billing", 2), links=[{"from": "orders", "to": "billing"}])
    backwards = dict(reversed(found.items()))

    assert to_svg(build_fleet(found, {})) == to_svg(build_fleet(backwards, {}))
    assert to_mermaid(build_fleet(found, {})) == to_mermaid(build_fleet(backwards, {}))


def renamed(name: str, message: str = "") -> Fleet:
    """A fleet of odd names: build_fleet refuses them, and a picture must not rely on that."""
    found = with_agents(1)
    broker = found.brokers[0]
    odd = replace(broker, identity=replace(broker.identity, name=f"{name}.example.com", group=name), address=name)
    pair = replace(found.groups[0].pairs[0], name=name, group=name, brokers=(odd,))
    finding = Finding(rule="T001", severity="error", host=broker.host, message=message, fix="", waived=message)
    return replace(
        found,
        brokers=(odd,),
        groups=(replace(found.groups[0], name=name, pairs=(pair,)),),
        agents=(replace(found.agents[0], host=name, pair=name),),
        findings=(finding,),
    )


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", "a&b;\"'", "x\x00\x1b\ud800", "]] --> end", "#quot;"])
def test_a_hostile_name_stays_text(hostile: str) -> None:
    picture, chart = Picture(to_svg(renamed(hostile))), to_mermaid(renamed(hostile))

    assert re.sub("[\x00\x1b\ud800]", "\ufffd", hostile) in picture.texts
    assert picture.root.find(".//{*}script") is None
    labels = re.findall(r'"([^"]*)"', chart)
    assert labels != []
    assert all(re.fullmatch(r"(?:[^#<>]|#\d+;|<br/>)*", text) for text in labels)
    assert re.fullmatch(r"flowchart LR subgraph g0\[\] p0\[\] end ", re.sub(r'"[^"]*"|\s+', _emptied, chart))


def _emptied(found: re.Match[str]) -> str:
    return " " if found[0].isspace() else ""


@given(st.text(min_size=1, max_size=300), st.text(max_size=300))
def test_any_name_and_any_message_give_well_formed_pictures(name: str, message: str) -> None:
    found = renamed(name, message)

    assert Picture(to_svg(found)).boxes("card")
    assert to_mermaid(found).isascii() or set(to_mermaid(found)) - set(map(chr, range(128))) <= set("★☆·→←↔⇄×")


@pytest.mark.parametrize("discovery", ["masterslave", "failover", "static"])
def test_a_link_is_drawn_by_its_kind_and_explained(discovery: str) -> None:
    picture = Picture(to_svg(shop(discovery=discovery)))

    assert {link.kind for link in picture.links} == {discovery}
    assert f"{discovery}: a link to" in picture.texts


@pytest.mark.parametrize(("count", "release", "ha"), [(2, "5.5.1", "pure"), (9, "6.3.1", "shared-file")])
def test_a_multicast_group_is_one_bus_and_not_a_line_from_each_to_each(count: int, release: str, ha: str) -> None:
    found = fleet(*pairs("orders", count), release=release, ha=ha, discovery="multicast")
    picture = Picture(to_svg(found))

    ways = 1 if ha == "pure" else 2
    assert {link.kind for link in picture.links} == {"multicast"}
    assert len(picture.links) == count * ways
    assert "multicast://224.1.2.3:6255?group=orders" in picture.texts


@pytest.mark.parametrize(
    ("topology", "lines", "heads"),
    [("mesh", 12, 12), ("hub", 3, 6), ("ring", 4, 8), ("chain", 3, 6), ("none", 0, 0)],
)
def test_lines_and_arrows_show_who_links_to_whom(topology: str, lines: int, heads: int) -> None:
    picture = Picture(to_svg(fleet(*pairs("orders", 4), topology=topology)))

    assert len(picture.links) == lines
    assert sum(link.heads for link in picture.links) == heads


def test_a_mesh_of_many_pairs_is_a_frame_that_says_so() -> None:
    picture = Picture(to_svg(fleet(*pairs("orders", 8))))

    assert picture.links == []
    assert "full mesh of 8 pairs: one link from each to each other, 56 links" in picture.texts
    assert "A full mesh: each pair inside" in picture.texts
    assert "One way" not in picture.texts


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ({"from": "orders", "to": "billing"}, ["each pair → each pair", "4 × masterslave"]),
        ({"from": "orders-mq01", "to": "billing-mq02", "duplex": True}, ["orders-mq01 ↔ billing-mq02"]),
        ({"from": "orders-mq01", "to": "billing", "include": ["a.>"]}, ["orders-mq01 → each pair", "only a.>"]),
    ],
)
def test_a_link_between_groups_says_which_pairs_and_what_it_carries(link: dict[str, Any], said: list[str]) -> None:
    found = linked({"orders": 2, "billing": 2}, link)
    texts, chart = Picture(to_svg(found)).texts, to_mermaid(found)

    for words in said:
        assert words in re.sub(r"\s+", " ", texts)
        assert words.replace(">", "#62;") in chart


def test_links_each_way_that_do_not_mirror_each_other_are_told_each() -> None:
    found = linked(
        {"billing": 3, "orders": 3}, {"from": "orders", "to": "billing"}, {"from": "billing-mq01", "to": "orders-mq01"}
    )
    shown = Picture(to_svg(found)).shown

    assert "billing-mq01 → orders-mq01 · each pair → each pair · 10 × masterslave" in shown


def test_a_long_caption_above_a_group_is_written_in_lines_and_not_cut() -> None:
    picture = Picture(to_svg(star(6, include=["queue://a.rather.long.name.>", "topic://another.>"])))

    assert "only a.rather.long.name.> and another.>" in picture.shown
    assert "…" not in picture.shown


def test_a_link_that_only_the_pure_master_has_duplex_is_shown_as_duplex() -> None:
    link = {"from": "orders", "to": "billing", "duplex": True}
    found = linked({"orders": 1, "billing": 1}, link, ha="pure", release="5.5.1", master_node="b")

    assert [line.heads for line in Picture(to_svg(found)).links if line.kind == "failover"] == []
    assert [line.heads for line in Picture(to_svg(found)).links if line.kind == "static"] == [2]


def test_more_links_between_groups_than_can_be_drawn_are_listed() -> None:
    picture = Picture(to_svg(FLEETS["more links between than lines"]))

    assert picture.links == []
    assert "Links between groups (28)" in picture.texts
    assert "a → h (masterslave)" in picture.texts


def test_many_groups_around_one_are_joined_to_it_by_one_trunk_and_each_line_is_told() -> None:
    picture = Picture(to_svg(star(30)))
    hub = next(box for box in picture.boxes("group-box") if box.title == "group hub")
    starts = {link.points[0] for link in picture.links}

    assert len(picture.links) == 30
    assert len(starts) == 1
    assert next(iter(starts))[0] == pytest.approx(hub.right, abs=10)
    assert all(f"shop{number:02}-mq01 ↔ hub-mq01" in picture.shown for number in range(30))


@pytest.mark.parametrize(
    "links",
    [
        [{"from": "a", "to": "hub"}, {"from": "a", "to": "hub", "duplex": True, "name": "again"}],
        [{"from": "hub", "to": "a"}],
    ],
)
def test_groups_around_one_whose_lines_differ_are_drawn_line_by_line(links: list[dict[str, Any]]) -> None:
    others = [{"from": name, "to": "hub"} for name in "bcdef"]
    picture = Picture(to_svg(linked(dict.fromkeys(["hub", *"abcdef"], 1), *others, *links)))

    assert len({link.points[0] for link in picture.links}) == len(picture.links) == len(others) + len(links)


def test_lines_of_different_links_never_run_over_each_other() -> None:
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


def test_pairs_are_counted_and_not_spelled() -> None:
    picture = Picture(to_svg(fleet(*pairs("orders", 101))))
    cards = sorted(picture.boxes("card"), key=lambda box: (box.y, box.x))

    assert [card.title for card in cards[-3:]] == ["pair orders-mq99", "pair orders-mq100", "pair orders-mq101"]


def test_what_all_groups_have_in_common_is_said_once() -> None:
    picture = Picture(to_svg(FLEETS["a hundred pairs"]))

    assert "all groups: 5.18.3 · shared file stores · full mesh" in picture.shown
    assert picture.shown.count("shared file stores") == 1


def test_a_release_that_differs_is_written_in_full_on_a_small_card() -> None:
    found = hosts(*pairs("orders", 20))
    found["orders-mq07-b.example.com"]["activemq_release"] = "5.17.6"
    shown = Picture(to_svg(build_fleet(found, {}))).shown.splitlines()

    assert "5.17.6" in shown


def test_groups_stand_in_the_order_in_which_messages_go() -> None:
    links = [{"from": "orders", "to": "billing"}, {"from": "billing", "to": "audit"}]
    picture = Picture(to_svg(linked({"audit": 1, "billing": 1, "orders": 1}, *links)))
    tops = [box.title for box in sorted(picture.boxes("group-box"), key=lambda box: (box.y, box.x))]

    assert tops == ["group orders", "group billing", "group audit"]


def test_the_preferred_master_has_the_filled_star() -> None:
    picture = Picture(to_svg(shop()))
    starred = [title for title in picture.titles_of("star") if title]

    assert [title.split(":")[0] for title in starred] == ["orders-mq01-a.example.com", "orders-mq02-a.example.com"]
    assert "preferred master of orders-mq01" in starred[0]


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"store_directory": "/mnt/store"}, "/mnt/store"),
        ({"ha": "pure", "release": "5.5.1"}, "replicates to its slave"),
        ({"ha": "none"}, "A single broker: no other takes over from it."),
    ],
)
def test_what_the_nodes_of_a_pair_share_is_shown(variables: dict[str, Any], said: str) -> None:
    assert said in Picture(to_svg(fleet("orders-mq01", **variables))).texts


def test_no_password_of_a_jdbc_url_is_shown() -> None:
    svg = to_svg(shop(ha="shared-jdbc", jdbc=jdbc("jdbc:mysql://db/x?user=u&password=topsecret")))

    assert "topsecret" not in svg
    assert "mysql" in svg


def test_a_finding_is_marked_on_its_host_and_told_in_words() -> None:
    found = build_fleet(hosts("orders-mq01", nodes="b") | {"oddone": {}}, {BROKERS: ["oddone"]})
    picture = Picture(to_svg(found))

    assert [title for title in picture.titles_of("badge-error") if title and "alone" in title] != []
    assert "the other node is missing" in picture.texts
    assert "oddone: is in activemq_brokers" in picture.texts
    assert "(T002)" in to_mermaid(found)


def finding(host: str, rule: str = "S002", message: str = "gets no fixes any more") -> Finding:
    return Finding(rule=rule, severity="warning", host=host, message=message, fix="upgrade")


def test_what_is_wrong_with_every_broker_is_said_once_and_marked_nowhere() -> None:
    found = shop()
    everywhere = replace(found, findings=tuple(finding(broker.host) for broker in found.brokers))
    picture = Picture(to_svg(everywhere))

    assert "all 4 brokers: gets no fixes any more" in picture.texts
    assert 'found["all 4 brokers: S002"]' in to_mermaid(everywhere)
    assert picture.shown.count("gets no fixes") == 1
    assert picture.boxes("thin") == []


def test_what_is_wrong_with_some_brokers_is_said_once_and_marked_at_each() -> None:
    found = fleet(*pairs("orders", 3))
    some = replace(found, findings=tuple(finding(broker.host) for broker in found.brokers[:5]))
    picture = Picture(to_svg(some))
    named = "orders-mq01-a.example.com, orders-mq01-b.example.com, orders-mq02-a.example.com and 2 more"

    assert f"{named}: gets no fixes any more" in picture.texts
    assert len(picture.boxes("thin")) == 5


def test_a_waived_finding_looks_waived() -> None:
    waiver = {"rule": "T002", "reason": "the other node is on its way", "hosts": ["*"]}
    picture = Picture(to_svg(fleet("orders-mq01", nodes="b", waivers=[waiver])))

    assert picture.boxes("badge-error") == []
    assert "waived: the other node is on its way" in picture.texts


@pytest.mark.parametrize(("count", "said"), [(1, "agent-0.example.com"), (3, "agent-2.example.com"), (14, "14 agents")])
def test_agents_hang_at_their_home_pair_and_many_are_counted(count: int, said: str) -> None:
    found = with_agents(count)
    picture = Picture(to_svg(found))

    assert said in picture.shown
    assert ("agent-0.example.com" in picture.shown) is (count <= 3)
    assert said in to_mermaid(found)


def test_it_has_a_title_a_description_and_a_dark_side() -> None:
    svg = to_svg(shop())
    root = Picture(svg).root

    assert root.get("aria-labelledby") == "fleet-title fleet-description"
    assert root.findtext("{*}title") == "ActiveMQ fleet: orders"
    assert "Pair orders-mq01: orders-mq01-a (preferred master)" in (root.findtext("{*}desc") or "")
    assert "@media screen and (prefers-color-scheme:dark)" in svg


def test_a_fleet_too_large_for_mermaid_is_drawn_by_its_groups() -> None:
    found = fleet(*(name for i in range(50) for name in pairs(f"group{i:02}", 10)), topology="chain")
    chart = to_mermaid(found)

    assert len(chart) < 50_000
    assert "group49" in chart
    assert "10 pairs" in chart


def test_a_thousand_brokers_take_less_than_a_second() -> None:
    found = fleet(*(name for i in range(50) for name in pairs(f"group{i:02}", 10)))
    began = time.process_time()
    to_svg(found)
    to_mermaid(found)

    assert time.process_time() - began < 1


def test_the_picture_in_the_documentation_is_that_of_the_example(golden: Golden, tmp_path: Path) -> None:
    example = tmp_path / "shared-store"
    shutil.copytree(REPOSITORY / "examples" / example.name, example, ignore=shutil.ignore_patterns(".secrets"))

    drawn = to_svg(load_fleet([str(example)]))
    replace(golden, directory=REPOSITORY / "docs" / "pictures").file("shared-store.svg", drawn)


def test_the_picture_of_a_hundred_pairs_in_the_documentation_is_drawn_so(golden: Golden) -> None:
    names = [f"region{number:02}" for number in range(25)]
    links = [{"from": f"{name}-mq01", "to": f"{names[0]}-mq01", "duplex": True} for name in names[1:]]
    found = hosts(*(pair for name in names for pair in pairs(name, 4)), release="6.3.1", links=links)
    found["region03-mq02-b.example.com"]["activemq_store_directory"] = "/elsewhere"
    found["region04-mq01-b.example.com"]["activemq_release"] = "5.18.3"
    del found["region05-mq03-b.example.com"]

    drawn = to_svg(build_fleet(found, {}))
    replace(golden, directory=REPOSITORY / "docs" / "pictures").file("hundred-pairs.svg", drawn)
