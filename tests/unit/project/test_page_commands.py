"""A test executes each command block and sample of the documentation, or the block has a reason not to be executed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from activemq_fleet.cli.main import main
from activemq_fleet.validation import select_rules
from tests.support.command_blocks import COMMANDS, read_blocks, read_page, run_page
from tests.support.documentation_pages import (
    PAGES,
    REPOSITORY,
    SAMPLES,
    WITHOUT_BROKERS,
    documentation_pages,
    pages_of,
)

MAX_EXCLUDED = 5
TEXT = ("text", "mermaid")
"""Languages of blocks that contain output or a diagram."""
_TEXT_COMMAND = re.compile(r"^(?:\$ |activemq-fleet |ansible-playbook |systemctl )", re.MULTILINE)
_INDENTED = re.compile(r"(?<=\n\n)    (?! *[-*\d|])\S.*")


@pytest.mark.parametrize("page", pages_of(WITHOUT_BROKERS))
def test_commands_of_page_print_shown_output(page: str, tmp_path: Path) -> None:
    PAGES[page].prepare(tmp_path)

    run_page(read_page(REPOSITORY / page), tmp_path)


def test_every_page_with_commands_or_files_has_test() -> None:
    with_steps = {page for page in documentation_pages() if read_page(REPOSITORY / page).steps}

    assert with_steps <= PAGES.keys()


def test_test_of_each_page_reads_page() -> None:
    for page, executed in PAGES.items():
        text = (REPOSITORY / "tests" / executed.file).read_text()
        assert "pages_of(" in text or Path(page).name in text, page


def test_at_most_5_command_blocks_of_documentation_are_not_executed() -> None:
    reasons = [reason for page in documentation_pages() for reason in read_page(REPOSITORY / page).excluded]

    assert len(reasons) <= MAX_EXCLUDED
    assert all(len(reason.split()) > 3 for reason in reasons)


def test_every_sample_block_of_documentation_has_file_or_test() -> None:
    without_test = [
        f"{page}:{block.line}: {block.language or 'no language'}"
        for page, text in documentation_pages().items()
        for block in read_blocks(text)
        if not block.title and block.language not in (*COMMANDS, *TEXT) and (page, block.language) not in SAMPLES
    ]

    assert without_test == []
    assert all((REPOSITORY / "tests" / test).is_file() for test in SAMPLES.values())


def test_no_command_of_documentation_is_in_text_block() -> None:
    commands = [
        f"{page}:{block.line}: {command[0]}"
        for page, text in documentation_pages().items()
        for block in read_blocks(text)
        if not block.title and block.language in TEXT
        for command in [_TEXT_COMMAND.search(block.text)]
        if command
    ]
    indented = [
        f"{page}: {match[0]}" for page, text in documentation_pages().items() for match in _INDENTED.finditer(text)
    ]

    assert commands == []
    assert indented == []


def test_fences_of_every_page_are_read() -> None:
    for page, text in documentation_pages().items():
        assert 2 * len(read_blocks(text)) == len(re.findall(r"^ *```", text, re.MULTILINE)), page


@pytest.mark.parametrize("page", documentation_pages())
def test_yaml_of_page_is_valid(page: str) -> None:
    for block in read_blocks(documentation_pages()[page]):
        if block.language == "yaml":
            assert [*yaml.safe_load_all(block.text)], f"{page}:{block.line}"


def test_each_documented_naming_convention_matches_names_of_its_comment(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = (b for b in read_blocks(documentation_pages()["docs/names.md"]) if b.language == "yaml" and not b.title)
    options = {
        "activemq_naming_pattern": "--naming-pattern",
        "activemq_naming_parity": "--naming-parity",
        "activemq_master_node": "--master-node",
        "activemq_node": "--node",
    }
    conventions = block.text.split("---\n")

    for text in conventions:
        names = re.findall(r"[\w-]*\d[\w-]*", text.splitlines()[0].split(":")[0])
        values = [word for name, value in yaml.safe_load(text).items() for word in (options[name], str(value))]
        assert main(["names", *names, *values]) == 0, text
        output = capsys.readouterr().out
        assert all(name in output for name in names)

    assert len(conventions) > 5


def test_documented_waiver_of_topology_error_names_existing_rule() -> None:
    (block,) = (b for b in read_blocks(documentation_pages()["docs/topology-errors.md"]) if b.language == "yaml")

    for waiver in yaml.safe_load(block.text)["activemq_waivers"]:
        assert select_rules([waiver["rule"]], []).select == (waiver["rule"],)
