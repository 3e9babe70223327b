"""``graph``: marks of findings, use of a status, and counts of brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activemq_fleet.cli import warnings_and_schemas as shared
from activemq_fleet.cli.main import main


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "all: {hosts: {a-mq01-a: {activemq_broker_attributes: {deleteAllMessagesOnStartup: true}}, a-mq01-b: },\n"
        "      vars: {activemq_release: 5.18.3, activemq_network_username: net, activemq_network_password: s3cret}}\n"
    )
    return path


@pytest.mark.parametrize("suffix", ["svg", "mmd"])
def test_graph_marks_findings_of_rules(inventory: Path, tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"fleet.{suffix}"
    assert main(["graph", "-i", str(inventory), "-o", str(picture)]) == 0
    assert "L020" in picture.read_text()


def test_graph_loads_no_schema(inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*arguments: object, **options: object) -> None:
        pytest.fail("graph loaded a schema: it must mark the findings without one")

    monkeypatch.setattr(shared, "load_schema", load)
    assert main(["graph", "-i", str(inventory), "-o", str(tmp_path / "fleet.svg")]) == 0


def test_graph_refuses_status_of_another_fleet(
    inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = tmp_path / "status.json"
    broker_status = {"host": "b-mq01-a", "state": "active"}
    fleet_status = {"format": 1, "brokers": [broker_status], "agents": [], "balancers": [], "findings": []}
    status.write_text(json.dumps(fleet_status))
    assert main(["graph", "-i", str(inventory), "-o", str(tmp_path / "fleet.svg"), "--status", str(status)]) == 2
    assert f"{status} contains no broker of this inventory" in capsys.readouterr().err


SINGLE = "a-mq01-a: {activemq_ha: none}"
PAIR = "b-mq01-a: , b-mq01-b: "


@pytest.mark.parametrize(
    ("hosts", "numbers"),
    [
        (f"{SINGLE}, {PAIR}", "3 brokers, 1 pair, 1 single broker"),
        (f"{SINGLE}, a-mq02-a: {{activemq_ha: none}}", "2 single brokers"),
        (PAIR, "2 brokers, 1 pair"),
    ],
)
def test_graph_does_not_count_single_brokers_as_pairs(
    hosts: str, numbers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory, picture = tmp_path / "hosts.yml", tmp_path / "fleet.svg"
    variables = "activemq_release: 5.18.3, activemq_network_username: net, activemq_network_password: s3cret"
    inventory.write_text(f"all: {{hosts: {{{hosts}}}, vars: {{{variables}}}}}\n")

    assert main(["graph", "-i", str(inventory), "-o", str(picture)]) == 0

    assert capsys.readouterr().out == f"{picture}: {numbers}\n"
    drawing = picture.read_text()
    assert all(number in drawing for number in numbers.split(", "))
    if "pair" not in numbers:
        assert "Pair " not in drawing
        assert "preferred" not in drawing
