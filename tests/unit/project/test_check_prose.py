"""The check of prose in the lint tier: scripts.check_prose."""

from __future__ import annotations

import pytest

from scripts.check_prose import MOST_WORDS, Text, problems_of


def problems(prose: str) -> list[str]:
    return list(problems_of(Text("page.md", 1, prose)))


@pytest.mark.parametrize(
    ("prose", "problem"),
    [
        ("The way back is open.", 'page.md:1: "The way back": write rollback'),
        ("Text.\n\nIt restarts by itself.", 'page.md:3: "by itself": write automatically, by default, alone'),
        ("The index is built anew.", 'page.md:1: "anew": write again'),
        ("Nobody is active.", 'page.md:1: "Nobody": write the name of the actor'),
        ("It puts it back.", 'page.md:1: "puts it back": write roll back, restore'),
    ],
)
def test_banned_phrase_is_reported_with_its_line(prose: str, problem: str) -> None:
    assert problems(prose) == [problem]


@pytest.mark.parametrize(
    "prose",
    [
        "`beside` is a key.",
        "```\nnobody\n```",
        "[text](the/way/back)",
        "There is no copy, for good reason.",
        "Besides.",
    ],
)
def test_code_links_and_allowed_phrases_pass(prose: str) -> None:
    assert problems(prose) == []


def test_long_sentence_is_reported_and_a_list_is_not() -> None:
    words = "Word" + " word" * MOST_WORDS

    assert problems(f"Short one. {words}.") == [
        f"page.md:1: a sentence has {MOST_WORDS + 1} words: split it, {MOST_WORDS} at most"
    ]
    assert problems("\n".join(["- some words of a list"] * MOST_WORDS)) == []
