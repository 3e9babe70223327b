"""Test of the commands and the inventory of the README without edits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.command_blocks import Command, Page, read_page, run_lab_page
from tests.support.documentation_pages import copy_collected_files

README = Path(__file__).resolve().parents[2] / "README.md"
NEED_HOSTS = ("ansible-playbook ", "activemq-fleet status ")
"""Commands that require two hosts. The pages to which README links run them."""


def without_host_commands(page: Page) -> Page:
    """Return a page without its commands that need hosts."""
    steps: list[Command | tuple[str, str]] = []
    for step in page.steps:
        if isinstance(step, Command):
            lines = [line for line in step.line.splitlines() if not line.startswith(NEED_HOSTS)]
            steps += [replace(step, line="\n".join(lines))] if lines else []
        else:
            steps.append(step)
    return replace(page, steps=tuple(steps))


@pytest.mark.timeout(3000)
def test_readme_commands_and_inventory_work_unedited(tmp_path: Path) -> None:
    page = read_page(README)
    copy_collected_files(tmp_path)

    run_lab_page(without_host_commands(page), tmp_path)

    assert len(page.excluded) == 1
    assert len([*(tmp_path / "out").rglob("activemq.xml")]) == 2
