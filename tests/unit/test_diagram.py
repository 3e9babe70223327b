"""The fleet as a picture: everybody is in it, nobody's name breaks it, and no line crosses a box."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from activemq_fleet.diagram import to_mermaid, to_svg
from activemq_fleet.findings import Finding
from activemq_fleet.inventory import load_fleet
from activemq_fleet.node.printable import escape_unprintable
from activemq_fleet.render import render_activemq_xml_documents_by_host
from activemq_fleet.topology import BROKERS, Fleet, build_fleet
from activemq_fleet.validation import fleet_with_lint_findings
from tests.golden_files import Golden
from tests.unit.drawn import FLEETS, jdbc, pairs, shop, with_agents
from tests.unit.fleets import fleet, hosts
from tests.unit.pictures import Picture
from tests.work import count_lines

REPOSITORY = Path(__file__).resolve().parents[2]
every_fleet = pytest.mark.parametrize("found", FLEETS.values(), ids=FLEETS)


@every_fleet
def test_every_group_pair_and_broker_is_named(found: Fleet) -> None:
    picture, chart = Picture(to_svg(found)), to_mermaid(found)

    for name in (
        [group.name for group in found.groups]
        + [*found.pairs_by_name]
        + [b.identity.short_host_name for b in found.brokers]
    ):
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
    identity = replace(broker.identity, name=f"{name}.example.com", group=name, pair=name)
    odd = replace(broker, identity=identity, address=name)
    finding = Finding(rule="T001", severity="error", host=broker.host, message=message, fix="", waived=message)
    return replace(
        found,
        brokers=(odd,),
        agents=(replace(found.agents[0], host=name, pair=name),),
        findings=(finding,),
    )


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", "a&b;\"'", "x\x00\x1b\ud800", "]] --> end", "#quot;"])
def test_a_hostile_name_stays_text(hostile: str) -> None:
    picture, chart = Picture(to_svg(renamed(hostile))), to_mermaid(renamed(hostile))

    assert escape_unprintable(hostile) in picture.texts
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


def test_the_preferred_master_has_the_filled_star() -> None:
    picture = Picture(to_svg(shop()))
    starred = [title for title in picture.titles_of("star") if title]

    assert [title.split(":")[0] for title in starred] == ["orders-mq01-a.example.com", "orders-mq02-a.example.com"]
    assert "preferred master of orders-mq01" in starred[0]


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"store_directory": "/mnt/store"}, "/mnt/store"),
        ({"ha": "pure", "release": "5.5.1"}, "master replicates to slave"),
        ({"ha": "none"}, "A single broker: no other broker takes over when it fails."),
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

    assert [title for title in picture.titles_of("badge-error") if title and "only one node" in title] != []
    assert "the inventory lacks the other node" in picture.texts
    assert "oddone: the host is in activemq_brokers" in picture.texts
    assert "(T002)" in to_mermaid(found)


def finding(host: str, rule: str = "S002", message: str = "gets no fixes any more") -> Finding:
    return Finding(rule=rule, severity="warning", host=host, message=message, fix="upgrade")


def test_what_is_wrong_with_every_broker_is_said_once_and_marked_nowhere() -> None:
    found = shop()
    everywhere = replace(found, findings=tuple(finding(broker.host) for broker in found.brokers))
    picture = Picture(to_svg(everywhere))

    assert "all 4 brokers: gets no fixes any more" in picture.texts
    assert 'found["findings of all 4 brokers: S002"]' in to_mermaid(everywhere)
    assert picture.shown.count("gets no fixes") == 1
    assert picture.boxes("thin") == []


def test_a_rule_that_every_broker_breaks_in_words_of_its_own_is_marked_nowhere() -> None:
    found = shop()
    findings = [finding(b.host, message=f"gets no fixes as 5.{n // 2}") for n, b in enumerate(found.brokers)]
    picture = Picture(to_svg(replace(found, findings=tuple(findings))))

    assert picture.shown.count("gets no fixes") == 2
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


def test_work_to_draw_a_fleet_grows_in_proportion_to_its_brokers() -> None:
    def count(groups: int) -> int:
        drawn = fleet(*(name for group in range(groups) for name in pairs(f"group{group:02}", 10)))
        return count_lines(lambda: (to_svg(drawn), to_mermaid(drawn)))

    assert count(10) < 2.5 * count(5)


def test_the_picture_in_the_documentation_is_that_of_the_example(golden: Golden, tmp_path: Path) -> None:
    example = tmp_path / "shared-store"
    shutil.copytree(REPOSITORY / "examples" / example.name, example, ignore=shutil.ignore_patterns(".secrets"))

    shown = load_fleet([str(example)])
    drawn = to_svg(fleet_with_lint_findings(shown, render_activemq_xml_documents_by_host(shown)))
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


def test_states_of_a_status_stand_beside_brokers_and_change_nothing_else() -> None:
    found = fleet("orders-mq01")
    states = {"orders-mq01-a.example.com": "active", "orders-mq01-b.example.com": "hung"}
    assert "master · active" in to_svg(found, states)
    assert "orders-mq01-b (preferred slave, hung)" in to_svg(found, states)
    assert "orders-mq01-b :61616 hung" in to_mermaid(found, states)
    many = fleet(*(f"orders-mq{number:02}" for number in range(1, 15)))
    assert ">hung</text>" in to_svg(many, states)
    assert to_svg(found, {}) == to_svg(found)
