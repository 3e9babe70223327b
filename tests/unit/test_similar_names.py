"""The function that selects the known name that a misspelt name means."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from activemq_fleet.similar_names import most_similar_name, similar_names

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("activemq_paar", ["activemq_pair", "activemq_parity"], "activemq_pair"),
        ("networkTll", ["networkTTL", "networkTtx"], "networkTTL"),
        ("5.118.3", ["5.11.3", "5.18.3"], "5.18.3"),
        ("chekc", ["check", "render"], "check"),
        ("xyz", ["check", "render"], None),
    ],
)
def test_misspelt_name_has_most_similar_known_name(name: str, known: list[str], expected: str | None) -> None:
    assert most_similar_name(name, known) == expected


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("mq-hambrug-2", "mq-hamburg-2", ["mq-hamburg-2"]),
        ("5.19.3", "5.18.3", ["5.18.3"]),
        ("keil", "kiel", ["kiel"]),
        ("kiel", "kiel", ["kiel"]),
        ("kohl", "kiel", []),
        ("activemq", "activemq_ha", []),
        ("orders", "others", []),
        ("minReconnectDelay", "maxReconnectDelay", []),
        ("maximumSize", "minimumSize", []),
    ],
)
def test_certainly_similar_name_differs_in_at_most_two_letters(name: str, known: str, expected: list[str]) -> None:
    assert similar_names(name, [known], certain=True) == expected


def test_only_modules_similar_names_search_for_similar_names() -> None:
    files = {
        str(path.relative_to(ROOT))
        for root in ("src", "plugins", "agent", "scripts")
        for path in (ROOT / root).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in {"get_close_matches", "SequenceMatcher"})
        or (isinstance(node, ast.alias) and node.name in {"get_close_matches", "SequenceMatcher"})
    }
    assert files == {"src/activemq_fleet/similar_names.py", "agent/src/activemq_agent/similar_names.py"}
