"""The documentation keeps up with the code."""

from __future__ import annotations

import re
from pathlib import Path

from activemq_agent.config_keys import KEYS, format_value
from activemq_agent.metrics import _COUNTS
from activemq_fleet.settings.agent import VARIABLES

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_topology_error_has_its_row() -> None:
    library = REPOSITORY / "src" / "activemq_fleet"
    sources = [*(library / "topology").glob("*.py"), *(library / "planning").glob("*.py")]
    sources += [*(library / "profiles").glob("*.py"), library / "site_refusals.py"]
    fired = {rule for source in sources for rule in re.findall(r'"(T\d{3})"', source.read_text())}
    told = set(re.findall(r"^\| (T\d{3}) \|", (REPOSITORY / "docs" / "topology-errors.md").read_text(), re.MULTILINE))

    assert fired == told


def agent_keys() -> str:
    """The table of docs/agent.md, as the agent's own table of keys has it."""
    rows = ["| key | default | variable | |", "|---|---|---|---|"]
    for entry in KEYS:
        default = format_value(entry.default) if isinstance(entry.default, str | int | float | tuple) else ""
        variable = f"`{VARIABLES[entry.name]}`" if entry.name in VARIABLES else ""
        rows.append(
            f"| `{entry.name}` | {default} | {variable} | {entry.what} |".replace("|  |", "| |").replace("|  |", "| |")
        )
    return "\n".join(rows)


def test_every_key_of_the_agent_has_its_row() -> None:
    assert agent_keys() in (REPOSITORY / "docs" / "agent.md").read_text(), f"put this there:\n{agent_keys()}"


def test_every_metric_of_the_agent_is_told_of() -> None:
    text = (REPOSITORY / "docs" / "agent.md").read_text()
    source = (REPOSITORY / "agent" / "src" / "activemq_agent" / "metrics.py").read_text()
    counters = {f"{name}_total" for name in re.findall(r'_counter\(\s*"(\w+)"', source)}
    others = set(re.findall(r'MetricFamily\(\s*f"{PREFIX}_(\w+)"', source)) - {"connections", "failovers", "dropped"}
    names = counters | others | {name for name, _ in _COUNTS.values()} | {
        "connections_total", "failovers_total", "dropped_total",
    }  # fmt: skip

    assert len(names) > 20
    assert {name for name in names if not re.search(rf"`{name}[{{`]", text)} == set()
