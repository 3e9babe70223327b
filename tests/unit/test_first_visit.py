"""Messages without a usable next step, which first-time users reported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet import InputError, Release, build_fleet, lint_file
from activemq_fleet.cli.main import main
from tests.hostile_files import document

ROOT = Path(__file__).resolve().parents[2]
PAGE = re.compile(r"\bdocs/[\w/-]+\.md")
SOURCES = [
    path
    for directory in ("src/activemq_fleet", "plugins", "agent/src")
    for path in sorted((ROOT / directory).rglob("*.py"))
    if not path.is_relative_to(ROOT / "src/activemq_fleet/node")
]
ROLE_FILES = [
    path
    for directory in ("roles", "playbooks")
    for path in sorted((ROOT / directory).rglob("*.yml"))
    if "meta" not in path.parts
]


def printed_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and content of each string in a module, except docstrings and other strings that are statements."""
    tree = ast.parse(path.read_text())
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.lineno, node.value


def test_no_message_names_page_that_is_not_installed() -> None:
    assert len(SOURCES) > 300
    references = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in SOURCES
        for line, text in printed_texts(path)
        if (match := PAGE.search(text))
    ]
    assert references == []


def test_no_task_names_page_that_is_not_installed() -> None:
    assert ROLE_FILES
    references = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in ROLE_FILES
        for line in path.read_text().splitlines()
        if PAGE.search(line.partition("#")[0])
    ]
    assert references == []


def test_error_about_missing_brokers_names_command_that_proposes_pattern() -> None:
    with pytest.raises(InputError, match=r"`activemq-fleet names -i INVENTORY`, or `activemq-fleet names HOST\.\.\.`"):
        build_fleet({"db1": {}}, {})


@pytest.mark.parametrize(("word", "command"), [("chekc", "check"), ("rules", "rule"), ("grpah", "graph")])
def test_error_about_misspelled_command_suggests_command(
    word: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    assert f"No such command '{word}'; did you mean {command}?" in capsys.readouterr().err


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
def test_finding_about_misspelled_attribute_suggests_attribute(release: str) -> None:
    link = '<networkConnectors><networkConnector name="a" uri="static:(tcp://a:1)" networkTll="2"/></networkConnectors>'
    (finding,) = lint_file(document(link), Release.of(release), select=["V002"])
    assert "has no attribute networkTll" in finding.message
    assert "did you mean networkTTL?" in finding.message


@pytest.mark.parametrize("content", [b"<beans>", b"<a>&b;</a>", b"<a><b></a>"])
def test_fix_of_file_that_is_not_xml_names_neither_release_nor_spelling(content: bytes) -> None:
    (finding,) = lint_file(content, Release.of("5.18.3"), select=["V002"])
    assert "run a release that has it" not in finding.fix
    assert "spelling" not in finding.fix


@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.15.16", "5.16.7", "5.18.3", "6.0.1", "6.2.7", "6.3.1"])
def test_release_that_finding_recommends_is_known_and_has_no_such_finding(release: str) -> None:
    activemq_xml = document(
        '<transportConnectors><transportConnector uri="tcp://0.0.0.0:61616"/></transportConnectors>'
    )
    findings = lint_file(activemq_xml, Release.of(release), schema_of=None, select=["S001", "S002"])
    assert findings
    for finding in findings:
        for recommended in re.findall(r"upgrade to (\d+\.\d+\.\d+)", finding.fix):
            known = Release.of(recommended)
            assert known.text == recommended
            assert lint_file(activemq_xml, known, schema_of=None, select=["S001", "S002"]) == ()
