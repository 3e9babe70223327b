"""The check of prose in the lint tier: scripts.check_prose."""

from __future__ import annotations

import ast

import pytest

from scripts import check_prose
from scripts.check_prose import MAX_WORDS, Text, comments_of, docstrings_of, messages_of, problems_of, texts


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
        ("It broke for\ngood.", 'page.md:1: "for good": write permanently, indefinitely'),
    ],
)
def test_check_prose_reports_banned_phrase_with_line(prose: str, problem: str) -> None:
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
def test_check_prose_accepts_code_links_and_allowed_phrases(prose: str) -> None:
    assert problems(prose) == []


def test_check_prose_reports_long_sentence_and_accepts_long_list() -> None:
    words = "Word" + " word" * MAX_WORDS

    assert problems(f"Short one. {words}.") == [
        f"page.md:1: a sentence has {MAX_WORDS + 1} words: split it, {MAX_WORDS} at most"
    ]
    assert problems("\n".join(["- some words of a list"] * MAX_WORDS)) == []


def test_check_prose_checks_message_of_raise_statement() -> None:
    (statement,) = ast.parse('raise InputError(f"{host}: the way back is {state}: run " "it anew")').body
    assert isinstance(statement, ast.Raise)
    assert statement.exc is not None

    reported = [problem for text in messages_of(statement.exc, "a.py") for problem in problems_of(text)]

    assert reported == ['a.py:1: "the way back": write rollback', 'a.py:1: "anew": write again']


MODULE = '''
"""The module says it."""

LIMIT = 3
"""A line of its own."""
_LIMIT = 3
"""It stands here."""

class Shown:
    """Return a value that is looked up."""

    size: int
    """Who is asked."""

    def draw(self) -> None:
        """Draw the box beside the line.

        Fires on 5.18.3::

            <broker brokerName="nobody"/>
        """

def _hidden() -> None:
    """Tell it."""
'''


def test_check_prose_checks_docstrings_of_public_and_private_objects() -> None:
    tree = ast.parse(MODULE)

    reported = [problem for text in docstrings_of(tree, "src/a.py") for problem in problems_of(text)]

    assert reported == [
        'src/a.py:2: "says": write report, print, show, contain, distinguish',
        'src/a.py:5: "of its own": write separate',
        'src/a.py:7: "stands": write is, is located, represents, matches',
        'src/a.py:13: "asked": write query, request, call, require',
        'src/a.py:24: "Tell": write report, print, show, contain, distinguish',
        'src/a.py:16: "beside": write next to, in addition to',
    ]


def test_check_prose_joins_comments_on_following_lines() -> None:
    content = "size = 1  # bytes\n# It broke for\n# good.\n\n# It stands.\n"

    assert [problem for text in comments_of(content, "a.py") for problem in problems_of(text)] == [
        'a.py:5: "stands": write is, is located, represents, matches'
    ]


@pytest.fixture(scope="module")
def checked_paths() -> set[str]:
    """Return the files of all texts. The search for comments takes half of the time, and is tested above."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(check_prose, "comments_of", lambda _content, _path: ())
        return {text.path for text in texts()}


@pytest.mark.parametrize(
    "start",
    [
        "playbooks/",
        "plugins/action/collect.py",
        "plugins/module_utils/node/judge.py",
        "roles/broker/tasks/",
        "tests/unit/project/",
        "plugins/modules/",
        "agent/src/activemq_agent/cli.py",
        "agent/src/activemq_agent/connection_events.py",
        "src/activemq_fleet/audit/",
        "src/activemq_fleet/operations/__init__.py",
    ],
)
def test_check_prose_checks_tasks_plugins_messages_docstrings_and_tests(start: str, checked_paths: set[str]) -> None:
    assert any(path.startswith(start) for path in checked_paths)


def test_check_prose_accepts_table_of_files_in_docstring() -> None:
    table_lines = "\n".join(f"    STORE/file-{number}   holds one of the words" for number in range(20))
    tree = ast.parse(f'"""The files of a store.\n\n{table_lines}\n\nThe guards write them.\n"""\n')

    assert [problem for text in docstrings_of(tree, "src/a.py") for problem in problems_of(text)] == []
