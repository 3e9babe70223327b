"""How a page reads: golden pages, width, secrets, colours, JSON."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.explain import explain_host_by_name, explanation_to_text
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
    def test_the_page_of_a_host_of_each_example_is_golden(
        self, example: str, host: str, golden: Golden, tmp_path: Path
    ) -> None:
        copy = tmp_path / example
        shutil.copytree(REPOSITORY / "examples" / example, copy, ignore=shutil.ignore_patterns(".secrets"))
        found = load_fleet([str(copy)])
        golden.file(
            f"explain/{host}.txt",
            explanation_to_text(explain_host_by_name(found, host, routes_without_refused_links(found))) + "\n",
        )

    def test_the_page_of_an_agent_is_golden(self, golden: Golden, tmp_path: Path) -> None:
        copy = tmp_path / "shared-store"
        shutil.copytree(REPOSITORY / "examples" / copy.name, copy, ignore=shutil.ignore_patterns(".secrets"))
        golden.file(
            "explain/shop01.txt", explanation_to_text(explain_host_by_name(load_fleet([str(copy)]), "shop01")) + "\n"
        )


class TestHowItReads:
    @pytest.mark.parametrize("found", FLEETS.values(), ids=FLEETS)
    @pytest.mark.parametrize("width", [80, 100])
    def test_no_line_is_too_long_but_for_a_word_that_is_whole(self, found: Fleet, width: int) -> None:
        for broker in found.brokers:
            for line in explanation_to_text(explain_host_by_name(found, broker.host), width=width).splitlines():
                assert len(line) <= width or " " not in line.strip(), line

    @pytest.mark.parametrize("found", FLEETS.values(), ids=FLEETS)
    def test_no_secret_is_told(self, found: Fleet) -> None:
        for host in [*(b.host for b in found.brokers), *(a.host for a in found.agents)]:
            story = explain_host_by_name(found, host)
            told = explanation_to_text(story) + json.dumps(story.to_dict())
            assert [secret for secret in ("a secret", "an agent's secret", "topsecret") if secret in told] == []

    def test_emphasis_adds_nothing_that_the_plain_page_does_not_say(self) -> None:
        story = explain_host_by_name(fleet("orders-mq01", nodes="a"), "orders-mq01-a")
        kinds = set()

        def mark(text: str, kind: str) -> str:
            kinds.add(kind)
            return f"\x1b[1m{text}\x1b[0m"

        styled = explanation_to_text(story, emphasis=mark)
        assert re.sub(r"\x1b\[\d+m", "", styled) == explanation_to_text(story)
        assert kinds >= {"title", "heading", "label", "variable", "error"}

    def test_nothing_that_a_terminal_would_obey_is_printed(self) -> None:
        found = fleet("orders-mq01", nodes="a")
        (finding,) = found.findings
        odd = replace(found, findings=(replace(finding, waived="\x1b[2J", message="\x07"),))
        assert not set(explanation_to_text(explain_host_by_name(odd, "orders-mq01-a"))) & set("\x1b\x07")

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
    def test_a_fleet_with_errors_has_pages_too(self, variables: dict[str, Any]) -> None:
        found = shop(**variables)
        for broker in found.brokers:
            assert explanation_to_text(explain_host_by_name(found, broker.host)).startswith(broker.host)

    def test_json_holds_every_entry_of_the_page(self) -> None:
        story = explain_host_by_name(shop(), "orders-mq01-a")
        told = json.loads(json.dumps(story.to_dict()))
        assert [section["name"] for section in told["sections"]] == [section.name for section in story.sections]
        assert told["kinds"] == ["broker"]
        ports = next(section for section in told["sections"] if section["name"] == "ports")
        assert {entry["label"]: entry["data"].get("port") for entry in ports["entries"]}["stomp"] == 61613
