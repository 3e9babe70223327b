"""Pictures of fleets: they contain every pair and broker, escape hostile names, and no line crosses a box."""

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
from tests.unit.drawn import FLEETS, fleet_with_agents, jdbc, pairs, shop
from tests.unit.fleets import fleet, hosts
from tests.unit.pictures import Picture
from tests.work import count_lines

REPOSITORY = Path(__file__).resolve().parents[2]
every_fleet = pytest.mark.parametrize("drawn_fleet", FLEETS.values(), ids=FLEETS)


@every_fleet
def test_diagram_names_every_group_pair_and_broker(drawn_fleet: Fleet) -> None:
    picture, chart = Picture(to_svg(drawn_fleet)), to_mermaid(drawn_fleet)

    for name in (
        [group.name for group in drawn_fleet.groups]
        + [*drawn_fleet.pairs_by_name]
        + [b.identity.short_host_name for b in drawn_fleet.brokers]
    ):
        assert name in picture.texts
        assert name in chart


@every_fleet
def test_boxes_of_diagram_are_inside_picture_and_do_not_overlap(drawn_fleet: Fleet) -> None:
    picture = Picture(to_svg(drawn_fleet))

    for box in [*picture.boxes("card"), *picture.boxes("group-box")]:
        assert box.x >= 0
        assert box.y >= 0
        assert box.right <= picture.width
        assert box.bottom <= picture.height
    for css in ("card", "group-box"):
        boxes = picture.boxes(css)
        assert [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)] == []


@every_fleet
def test_no_link_of_diagram_crosses_broker_card_or_other_group(drawn_fleet: Fleet) -> None:
    picture = Picture(to_svg(drawn_fleet))
    inside = [(link, card) for link in picture.links if link.pair is None for card in picture.boxes("card")]
    links_between_groups = [
        (link, box) for link in picture.links if link.group is None for box in picture.boxes("group-box")
    ]

    assert [link.points for link, box in [*inside, *links_between_groups] if link.crosses(box)] == []


@every_fleet
def test_svg_diagram_loads_no_external_resource(drawn_fleet: Fleet) -> None:
    svg = to_svg(drawn_fleet)
    tags = {etree.QName(element).localname for element in Picture(svg).root.iter()}

    assert tags <= {"svg", "title", "desc", "style", "g", "rect", "text", "path", "circle"}
    assert re.search(r"href|url\(|@import|@font-face|\son[a-z]+=", svg) is None


def test_order_of_inventory_does_not_change_diagrams() -> None:
    variables_by_host = hosts(*pairs("orders", 3), *pairs("billing", 2), links=[{"from": "orders", "to": "billing"}])
    reversed_variables = dict(reversed(variables_by_host.items()))

    assert to_svg(build_fleet(variables_by_host, {})) == to_svg(build_fleet(reversed_variables, {}))
    assert to_mermaid(build_fleet(variables_by_host, {})) == to_mermaid(build_fleet(reversed_variables, {}))


def fleet_with_name(name: str, message: str = "") -> Fleet:
    """Return a fleet with names that build_fleet refuses, because a picture must not rely on this refusal."""
    agent_fleet = fleet_with_agents(1)
    broker = agent_fleet.brokers[0]
    identity = replace(broker.identity, name=f"{name}.example.com", group=name, pair=name)
    renamed_broker = replace(broker, identity=identity, address=name)
    finding = Finding(rule="T001", severity="error", host=broker.host, message=message, fix="", waived=message)
    return replace(
        agent_fleet,
        brokers=(renamed_broker,),
        agents=(replace(agent_fleet.agents[0], host=name, pair=name),),
        findings=(finding,),
    )


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", "a&b;\"'", "x\x00\x1b\ud800", "]] --> end", "#quot;"])
def test_hostile_host_name_is_escaped_as_text_in_diagrams(hostile: str) -> None:
    picture, chart = Picture(to_svg(fleet_with_name(hostile))), to_mermaid(fleet_with_name(hostile))

    assert escape_unprintable(hostile) in picture.texts
    assert picture.root.find(".//{*}script") is None
    labels = re.findall(r'"([^"]*)"', chart)
    assert labels != []
    assert all(re.fullmatch(r"(?:[^#<>]|#\d+;|<br/>)*", text) for text in labels)
    assert re.fullmatch(r"flowchart LR subgraph g0\[\] p0\[\] end ", re.sub(r'"[^"]*"|\s+', _without_text, chart))


def _without_text(match: re.Match[str]) -> str:
    return " " if match[0].isspace() else ""


@given(st.text(min_size=1, max_size=300), st.text(max_size=300))
def test_any_host_name_and_finding_give_well_formed_diagrams(name: str, message: str) -> None:
    drawn_fleet = fleet_with_name(name, message)

    assert Picture(to_svg(drawn_fleet)).boxes("card")
    assert to_mermaid(drawn_fleet).isascii() or set(to_mermaid(drawn_fleet)) - set(map(chr, range(128))) <= set(
        "★☆·→←↔⇄×"
    )


def test_pairs_are_ordered_by_number_and_not_by_text() -> None:
    picture = Picture(to_svg(fleet(*pairs("orders", 101))))
    cards = sorted(picture.boxes("card"), key=lambda box: (box.y, box.x))

    assert [card.title for card in cards[-3:]] == ["pair orders-mq99", "pair orders-mq100", "pair orders-mq101"]


def test_settings_common_to_all_groups_are_shown_once() -> None:
    picture = Picture(to_svg(FLEETS["a hundred pairs"]))

    assert "all groups: 5.18.3 · shared file stores · full mesh" in picture.shown
    assert picture.shown.count("shared file stores") == 1


def test_different_release_is_shown_in_full_on_small_card() -> None:
    variables_by_host = hosts(*pairs("orders", 20))
    variables_by_host["orders-mq07-b.example.com"]["activemq_release"] = "5.17.6"
    shown = Picture(to_svg(build_fleet(variables_by_host, {}))).shown.splitlines()

    assert "5.17.6" in shown


def test_preferred_master_has_filled_star_in_diagram() -> None:
    picture = Picture(to_svg(shop()))
    starred = [title for title in picture.titles_of("star") if title]

    assert [title.split(":")[0] for title in starred] == ["orders-mq01-a.example.com", "orders-mq02-a.example.com"]
    assert "preferred master of orders-mq01" in starred[0]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"store_directory": "/mnt/store"}, "/mnt/store"),
        ({"ha": "pure", "release": "5.5.1"}, "master replicates to slave"),
        ({"ha": "none"}, "A single broker: no other broker takes over when it fails."),
    ],
)
def test_diagram_shows_how_nodes_of_pair_share_storage(variables: dict[str, Any], expected: str) -> None:
    assert expected in Picture(to_svg(fleet("orders-mq01", **variables))).texts


def test_diagram_does_not_show_password_of_jdbc_url() -> None:
    svg = to_svg(shop(ha="shared-jdbc", jdbc=jdbc("jdbc:mysql://db/x?user=u&password=topsecret")))

    assert "topsecret" not in svg
    assert "mysql" in svg


def test_diagram_marks_finding_on_its_host_and_describes_it() -> None:
    drawn_fleet = build_fleet(hosts("orders-mq01", nodes="b") | {"oddone": {}}, {BROKERS: ["oddone"]})
    picture = Picture(to_svg(drawn_fleet))

    assert [title for title in picture.titles_of("badge-error") if title and "only one node" in title] != []
    assert "the inventory lacks the other node" in picture.texts
    assert "oddone: the host is in activemq_brokers" in picture.texts
    assert "(T002)" in to_mermaid(drawn_fleet)


def finding(host: str, rule: str = "S002", message: str = "gets no fixes any more") -> Finding:
    return Finding(rule=rule, severity="warning", host=host, message=message, fix="upgrade")


def test_diagram_lists_finding_of_every_broker_once_without_marks() -> None:
    drawn_fleet = shop()
    fleet_with_findings = replace(drawn_fleet, findings=tuple(finding(broker.host) for broker in drawn_fleet.brokers))
    picture = Picture(to_svg(fleet_with_findings))

    assert "all 4 brokers: gets no fixes any more" in picture.texts
    assert 'found["findings of all 4 brokers: S002"]' in to_mermaid(fleet_with_findings)
    assert picture.shown.count("gets no fixes") == 1
    assert picture.boxes("thin") == []


def test_diagram_has_no_marks_of_rule_with_different_messages_on_all_brokers() -> None:
    drawn_fleet = shop()
    findings = [finding(b.host, message=f"gets no fixes as 5.{n // 2}") for n, b in enumerate(drawn_fleet.brokers)]
    picture = Picture(to_svg(replace(drawn_fleet, findings=tuple(findings))))

    assert picture.shown.count("gets no fixes") == 2
    assert picture.boxes("thin") == []


def test_diagram_lists_finding_of_some_brokers_once_and_marks_each_broker() -> None:
    drawn_fleet = fleet(*pairs("orders", 3))
    fleet_with_findings = replace(
        drawn_fleet, findings=tuple(finding(broker.host) for broker in drawn_fleet.brokers[:5])
    )
    picture = Picture(to_svg(fleet_with_findings))
    host_names = "orders-mq01-a.example.com, orders-mq01-b.example.com, orders-mq02-a.example.com and 2 more"

    assert f"{host_names}: gets no fixes any more" in picture.texts
    assert len(picture.boxes("thin")) == 5


def test_waived_finding_is_drawn_as_waived() -> None:
    waiver = {"rule": "T002", "reason": "the other node is not installed yet", "hosts": ["*"]}
    picture = Picture(to_svg(fleet("orders-mq01", nodes="b", waivers=[waiver])))

    assert picture.boxes("badge-error") == []
    assert "waived: the other node is not installed yet" in picture.texts


@pytest.mark.parametrize(
    ("count", "expected"), [(1, "agent-0.example.com"), (3, "agent-2.example.com"), (14, "14 agents")]
)
def test_few_agents_are_named_and_many_agents_are_counted(count: int, expected: str) -> None:
    drawn_fleet = fleet_with_agents(count)
    picture = Picture(to_svg(drawn_fleet))

    assert expected in picture.shown
    assert ("agent-0.example.com" in picture.shown) is (count <= 3)
    assert expected in to_mermaid(drawn_fleet)


def test_svg_has_title_description_and_dark_mode() -> None:
    svg = to_svg(shop())
    root = Picture(svg).root

    assert root.get("aria-labelledby") == "fleet-title fleet-description"
    assert root.findtext("{*}title") == "ActiveMQ fleet: orders"
    assert "Pair orders-mq01: orders-mq01-a (preferred master)" in (root.findtext("{*}desc") or "")
    assert "@media screen and (prefers-color-scheme:dark)" in svg


def test_large_fleet_is_drawn_by_groups_in_mermaid() -> None:
    drawn_fleet = fleet(*(name for i in range(50) for name in pairs(f"group{i:02}", 10)), topology="chain")
    chart = to_mermaid(drawn_fleet)

    assert len(chart) < 50_000
    assert "group49" in chart
    assert "10 pairs" in chart


def test_work_to_draw_fleet_grows_linearly_with_brokers() -> None:
    def count(groups: int) -> int:
        drawn = fleet(*(name for group in range(groups) for name in pairs(f"group{group:02}", 10)))
        return count_lines(lambda: (to_svg(drawn), to_mermaid(drawn)))

    assert count(10) < 2.5 * count(5)


def test_picture_in_documentation_matches_example(golden: Golden, tmp_path: Path) -> None:
    example = tmp_path / "shared-store"
    shutil.copytree(REPOSITORY / "examples" / example.name, example, ignore=shutil.ignore_patterns(".secrets"))

    example_fleet = load_fleet([str(example)])
    drawn = to_svg(fleet_with_lint_findings(example_fleet, render_activemq_xml_documents_by_host(example_fleet)))
    replace(golden, directory=REPOSITORY / "docs" / "pictures").file("shared-store.svg", drawn)


def test_picture_of_hundred_pairs_in_documentation_is_current(golden: Golden) -> None:
    names = [f"region{number:02}" for number in range(25)]
    links = [{"from": f"{name}-mq01", "to": f"{names[0]}-mq01", "duplex": True} for name in names[1:]]
    variables_by_host = hosts(*(pair for name in names for pair in pairs(name, 4)), release="6.3.1", links=links)
    variables_by_host["region03-mq02-b.example.com"]["activemq_store_directory"] = "/elsewhere"
    variables_by_host["region04-mq01-b.example.com"]["activemq_release"] = "5.18.3"
    del variables_by_host["region05-mq03-b.example.com"]

    drawn = to_svg(build_fleet(variables_by_host, {}))
    replace(golden, directory=REPOSITORY / "docs" / "pictures").file("hundred-pairs.svg", drawn)


def test_diagram_shows_optional_states_next_to_brokers() -> None:
    drawn_fleet = fleet("orders-mq01")
    states = {"orders-mq01-a.example.com": "active", "orders-mq01-b.example.com": "hung"}
    assert "master · active" in to_svg(drawn_fleet, states)
    assert "orders-mq01-b (preferred slave, hung)" in to_svg(drawn_fleet, states)
    assert "orders-mq01-b :61616 hung" in to_mermaid(drawn_fleet, states)
    large_fleet = fleet(*(f"orders-mq{number:02}" for number in range(1, 15)))
    assert ">hung</text>" in to_svg(large_fleet, states)
    assert to_svg(drawn_fleet, {}) == to_svg(drawn_fleet)
