"""Completeness of the documentation compared with the code."""

from __future__ import annotations

import re
from pathlib import Path

from activemq_agent.config import KEYS, format_value
from activemq_agent.metrics import COUNTERS, GAUGES
from activemq_fleet.settings.agent import VARIABLES
from activemq_fleet.validation import select_rules

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_topology_rule_has_row_in_documentation_and_can_be_selected() -> None:
    library = REPOSITORY / "src" / "activemq_fleet"
    sources = [*(library / "topology").glob("*.py"), *(library / "planning").glob("*.py")]
    sources += [*(library / "profiles").glob("*.py"), library / "site_refusals.py", library / "validation.py"]
    sources += [library / "inventory.py", library / "inventory_structure.py"]
    rules_in_code = {rule for source in sources for rule in re.findall(r'"(T\d{3})"', source.read_text())}
    documented_rules = set(
        re.findall(r"^\| (T\d{3}) \|", (REPOSITORY / "docs" / "topology-errors.md").read_text(), re.MULTILINE)
    )

    assert rules_in_code - {"T000"} == documented_rules
    assert select_rules(sorted(documented_rules), []).select == tuple(sorted(documented_rules))


def expected_agent_rows() -> list[str]:
    """Return the expected beginnings of the rows of the table in docs/agent.md, from the keys of the agent."""
    key_rows = []
    for key in KEYS:
        default = format_value(key.default) if isinstance(key.default, str | int | float | tuple | Path) else ""
        variable = f"`{VARIABLES[key.name]}`" if key.name in VARIABLES else ""
        key_rows.append(f"| `{key.name}` | {default} | {variable} |".replace("|  |", "| |").replace("|  |", "| |"))
    return key_rows


def test_every_agent_key_has_row_in_documentation() -> None:
    lines = (REPOSITORY / "docs" / "agent.md").read_text().splitlines()
    first_row = lines.index("| key | default | variable | |") + 2
    documented_rows = [line[: line.rindex("|", 0, -2) + 1] for line in lines[first_row : first_row + len(KEYS)]]

    assert documented_rows == expected_agent_rows()
    assert not lines[first_row + len(KEYS)]


def test_every_agent_metric_is_documented() -> None:
    agent_page = (REPOSITORY / "docs" / "agent.md").read_text()
    source = (REPOSITORY / "agent" / "src" / "activemq_agent" / "metrics.py").read_text()
    labelled = set(re.findall(r'MetricFamily\(\s*f"{PREFIX}_(\w+)"', source))
    totals = {"connections", "failovers", "dropped"} | {counter[0] for counter in COUNTERS}
    names = (labelled - totals) | {gauge[0] for gauge in GAUGES} | {f"{name}_total" for name in totals}

    assert len(names) > 20
    assert {name for name in names if not re.search(rf"`{name}[{{`]", agent_page)} == set()


def test_every_test_linked_in_reliability_page_exists() -> None:
    reliability_page = (REPOSITORY / "docs" / "reliability.md").read_text()
    linked = re.findall(r"\[`(\w+)(?:\.py)?`\]\(\.\./(tests/[\w/]+\.py)\)", reliability_page)

    assert len(linked) == len(re.findall(r"\]\(\.\./tests/[^)]*\.py\)", reliability_page)) > 50
    assert [
        (name, path)
        for name, path in linked
        if name != Path(path).stem and f"def {name}(" not in (REPOSITORY / path).read_text()
    ] == []
    assert re.findall(r"^\| (\d+) \|", reliability_page, re.MULTILINE) == [str(number) for number in range(1, 51)]
