"""What the roles say is one line each: a folded text of YAML keeps the ends of lines that are indented more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = sorted([*REPOSITORY.glob("roles/*/tasks/*.yml"), *REPOSITORY.glob("playbooks/**/*.yml")])


def messages(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for one in part:
            yield from messages(one)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in ("msg", "fail_msg", "success_msg") and isinstance(value, str):
                yield value
            else:
                yield from messages(value)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_a_message_has_no_end_of_a_line_but_in_an_expression(file: Path) -> None:
    found = [re.sub(r"\{\{.*?\}\}", "", text, flags=re.DOTALL) for text in messages(yaml.safe_load(file.read_text()))]
    assert [text for text in found if "\n" in text.strip()] == []
