"""Format of the pages of explain: golden pages, width, secrets, colors, JSON."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.explain import explanation_to_text
from activemq_fleet.explain.host_pages import explain_host_by_name
from activemq_fleet.inventory import load_fleet
from activemq_fleet.routes import routes_without_refused_links
from activemq_fleet.topology import Fleet
from tests.golden_files import Golden
from tests.unit.explained import JDBC, shop, with_agents
from tests.unit.fleets import fleet

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = {
    "bridged-pairs": "shop-mq01-a",
    "ha-network-5.5": "clustername-mq01-a",
    "shared-store": "orders-mq01-a",
    "single-machine": "office-mq01-b",
}
FLEETS = {
    "shared-file": shop(),
    "shared-jdbc": shop(ha="shared-jdbc", jdbc=JDBC),
    "pure": shop(ha="pure", release="5.5.1"),
    "none": shop(ha="none"),
    "agents": with_agents(30),
}


class TestGolden:
    @pytest.mark.parametrize(("example", "host"), GOLDEN.items(), ids=GOLDEN)
    def test_explain_page_of_host_of_each_example_matches_golden_file(
        self, example: str, host: str, golden: Golden, tmp_path: Path
    ) -> None:
        copy = tmp_path / example
        shutil.copytree(REPOSITORY / "examples" / example, copy, ignore=shutil.ignore_patterns(".secrets"))
        example_fleet = load_fleet([str(copy)])
        golden.file(
            f"explain/{host}.txt",
            explanation_to_text(explain_host_by_name(example_fleet, host, routes_without_refused_links(example_fleet)))
            + "\n",
        )

    def test_explain_page_of_agent_matches_golden_file(self, golden: Golden, tmp_path: Path) -> None:
        copy = tmp_path / "shared-store"
        shutil.copytree(REPOSITORY / "examples" / copy.name, copy, ignore=shutil.ignore_patterns(".secrets"))
        golden.file(
            "explain/shop01.txt", explanation_to_text(explain_host_by_name(load_fleet([str(copy)]), "shop01")) + "\n"
        )


class TestFormat:
    @pytest.mark.parametrize("explained_fleet", FLEETS.values(), ids=FLEETS)
    @pytest.mark.parametrize("width", [80, 100])
    def test_lines_of_explain_page_fit_width_unless_they_are_single_word(
        self, explained_fleet: Fleet, width: int
    ) -> None:
        for broker in explained_fleet.brokers:
            for line in explanation_to_text(
                explain_host_by_name(explained_fleet, broker.host), width=width
            ).splitlines():
                assert len(line) <= width or " " not in line.strip(), line

    @pytest.mark.parametrize("explained_fleet", FLEETS.values(), ids=FLEETS)
    def test_explain_page_contains_no_secret(self, explained_fleet: Fleet) -> None:
        for host in [*(b.host for b in explained_fleet.brokers), *(a.host for a in explained_fleet.agents)]:
            explanation = explain_host_by_name(explained_fleet, host)
            texts = explanation_to_text(explanation) + json.dumps(explanation.to_dict())
            assert [secret for secret in ("a secret", "an agent's secret", "topsecret") if secret in texts] == []

    def test_emphasis_does_not_change_text_of_explain_page(self) -> None:
        explanation = explain_host_by_name(fleet("orders-mq01", nodes="a"), "orders-mq01-a")
        kinds = set()

        def mark(text: str, kind: str) -> str:
            kinds.add(kind)
            return f"\x1b[1m{text}\x1b[0m"

        styled = explanation_to_text(explanation, emphasis=mark)
        assert re.sub(r"\x1b\[\d+m", "", styled) == explanation_to_text(explanation)
        assert kinds >= {"title", "heading", "label", "variable", "error"}

    def test_explain_page_contains_no_control_characters_of_terminals(self) -> None:
        plain_fleet = fleet("orders-mq01", nodes="a")
        (finding,) = plain_fleet.findings
        hostile_fleet = replace(plain_fleet, findings=(replace(finding, waived="\x1b[2J", message="\x07"),))
        assert not set(explanation_to_text(explain_host_by_name(hostile_fleet, "orders-mq01-a"))) & set("\x1b\x07")

    @pytest.mark.parametrize(
        "variables",
        [
            {"connectors": []},
            {"ha": "pure", "release": "5.18.3"},
            {"ha": "shared-jdbc", "release": "5.5.1", "jdbc": JDBC},
            {"links": [{"from": "orders", "to": "nowhere"}]},
            {"discovery": "multicast"},
            {"address": "one.example.com"},
            {"nodes": "b"},
        ],
        ids=str,
    )
    def test_hosts_of_fleet_with_errors_have_explain_pages(self, variables: dict[str, Any]) -> None:
        explained_fleet = shop(**variables)
        for broker in explained_fleet.brokers:
            assert explanation_to_text(explain_host_by_name(explained_fleet, broker.host)).startswith(broker.host)

    def test_json_of_explain_contains_every_section_of_page(self) -> None:
        explanation = explain_host_by_name(shop(), "orders-mq01-a")
        document = json.loads(json.dumps(explanation.to_dict()))
        assert [section["name"] for section in document["sections"]] == [
            section.name for section in explanation.sections
        ]
        assert document["kinds"] == ["broker"]
        ports = next(section for section in document["sections"] if section["name"] == "ports")
        assert {entry["label"]: entry["data"].get("port") for entry in ports["entries"]}["stomp"] == 61613
