"""docs/glossary.md is generated from the words of scripts/glossary.py and the paths of their definitions."""

from __future__ import annotations

import re

import pytest

from scripts import glossary


def test_every_link_of_glossary_leads_to_file_that_names_definition(capsys: pytest.CaptureFixture[str]) -> None:
    assert glossary.main(["--check"]) == 0, capsys.readouterr().err
    links = re.findall(r"\[`(\w+)`\]\(\.\./([\w/.]+)\)", glossary.PAGE.read_text(encoding="utf-8"))
    assert len(links) == sum(len(terms) for terms in glossary.CHAPTERS.values())
    for name, path in links:
        source = glossary.ROOT / path
        assert name == source.stem or name in source.read_text(encoding="utf-8"), path


def test_glossary_refuses_term_whose_definition_does_not_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    undefined = glossary.Term("ghost", "a term without a definition", "topology:Ghost")
    monkeypatch.setattr(glossary, "CHAPTERS", {"Ghosts": (undefined,)})
    assert glossary.main(["--check"]) == 1
    assert "'Ghost'" in capsys.readouterr().err


def test_every_term_of_glossary_is_defined_once() -> None:
    terms = [term.name for chapter in glossary.CHAPTERS.values() for term in chapter]
    assert len(terms) == len(set(terms))
