"""docs/glossary.md follows from the words of scripts/glossary.py and from where the code defines them."""

from __future__ import annotations

import re

import pytest

from scripts import glossary


def test_every_link_of_the_page_leads_to_a_file_that_names_the_definition(capsys: pytest.CaptureFixture[str]) -> None:
    assert glossary.main(["--check"]) == 0, capsys.readouterr().err
    links = re.findall(r"\[`(\w+)`\]\(\.\./([\w/.]+)\)", glossary.PAGE.read_text(encoding="utf-8"))
    assert len(links) == sum(len(words) for words in glossary.CHAPTERS.values())
    for name, path in links:
        source = glossary.ROOT / path
        assert name == source.stem or name in source.read_text(encoding="utf-8"), path


def test_a_definition_that_is_gone_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = glossary.Word("ghost", "what nobody defines", "topology:Ghost")
    monkeypatch.setattr(glossary, "CHAPTERS", {"Ghosts": (gone,)})
    assert glossary.main(["--check"]) == 1
    assert "'Ghost'" in capsys.readouterr().err


def test_no_word_is_defined_twice() -> None:
    words = [word.word for chapter in glossary.CHAPTERS.values() for word in chapter]
    assert len(words) == len(set(words))
