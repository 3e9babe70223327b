"""Which networks are the same but for the number in their groups' names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import activemq_fleet
from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.pipeline.plan.context import Context
from activemq_fleet.pipeline.plan.renaming import LEADS, TAKEN, form_of, mark
from activemq_fleet.topology.model import KnownGroups

CONTEXT = Context(DEFAULT_PATTERN, KnownGroups((), 2))
ROOT = Path(activemq_fleet.__file__).parent
# What says something of a network, or writes its files; the rest of the program never sees one here.
ROOMS = ("lint", "releases", "render", "routes", "schema", "templates", "topology")
WITH_NUMBER = re.compile("[a-z][a-z-]*[0-9]")


def test_networks_of_one_form_differ_in_numbers_of_names_only() -> None:
    one = form_of({"store-0041"}, ["store-0041-mq01-a user-of-store-0041", "5.18.3"], CONTEXT)
    other = form_of({"store-0042"}, ["store-0042-mq01-a user-of-store-0042", "5.18.3"], CONTEXT)
    third = form_of({"store-0042"}, ["store-0042-mq01-a user-of-store-0042", "5.17.6"], CONTEXT)

    assert one is not None
    assert other is not None
    assert third is not None
    assert one.key == other.key != third.key
    assert other.names == ("store-0042",)


def test_several_names_keep_their_order() -> None:
    one = form_of({"shop12", "shop11"}, ["shop11 to shop12"], CONTEXT)
    other = form_of({"shop25", "shop99"}, ["shop25 to shop99"], CONTEXT)
    turned = form_of({"shop25", "shop99"}, ["shop99 to shop25"], CONTEXT)

    assert one is not None
    assert other is not None
    assert turned is not None
    assert one.key == other.key != turned.key
    assert one.names == ("shop11", "shop12")


def test_a_mark_is_as_long_as_the_name_and_like_no_other() -> None:
    marks = [mark(number, 8) for number in range(8)]

    assert {len(one) for one in marks} == {8}
    assert len(set(marks)) == 8


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ({"berlin"}, "berlin-mq01-a"),  # no number
        ({"Shop12"}, "Shop12-mq01-a"),  # names are compared in lower case too
        ({"s1"}, "s1-mq01-a"),  # too short to be a word of its own
        ({"log4j"}, "log4j-mq01-a"),  # a word of the program's
        ({"console-5"}, "console-5-mq01-a"),  # the program may put a five there
        ({"shop12"}, "shop12-mq01-a and shop123"),  # another name begins so
        ({"shop12"}, "shop12-mq01-a after shop9"),  # which of the two is first depends on the number
        ({"shop12"}, "shop12-mq01-a Shop12"),
        ({"shop12", "a-shop12"}, "shop12-mq01-a a-shop12-mq01-a"),  # one in the other
        ({"shop12"}, r"shop12-mq01-a \u0001"),  # could be a mark
        ({"shop12"}, "shop12-mq01-a shop&#49;2"),  # the name, to XML
        ({"shop12"}, "shop12-mq01-a %73hop12"),  # the name, in a URI
        (set(), ""),
        ({f"shop{number}" for number in range(10, 20)}, "shop10"),  # more than there are marks
    ],
)
def test_a_name_that_may_mean_more_than_itself_has_no_form(names: set[str], line: str) -> None:
    assert form_of(names, [line], CONTEXT) is None


def test_a_naming_pattern_of_the_user_s_own_may_read_numbers() -> None:
    assert form_of({"shop12"}, ["shop12-mq01-a"], Context("(?P<group>.*)", KnownGroups((), 2))) is None


def test_every_word_with_a_number_that_the_program_says_is_known() -> None:
    words = {word for text in _said() for word in re.findall("[a-z0-9-]{4,}", text) if WITH_NUMBER.search(word)}

    assert {"log4j2", "xxh32"} <= words  # of modules and of templates
    assert not {word for word in words if not any(word in taken for taken in TAKEN)}


def test_every_word_before_a_value_that_the_program_says_is_known() -> None:
    words = {word[0] for text in _before_values() if (word := re.search(r"[a-z](?:[a-z0-9-]*[a-z-])?\Z", text))}

    assert {"to-", "quiet"} <= words  # of modules and of templates
    assert words == set(LEADS)


def _before_values() -> Iterator[str]:
    for tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                for part, after in pairwise(node.values):
                    if isinstance(part, ast.Constant) and isinstance(after, ast.FormattedValue):
                        yield str(part.value)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.left, ast.Constant):
                yield str(node.left.value)
            elif isinstance(node, ast.Constant):
                yield from re.split("[%{]", str(node.value))[:-1]
    for template in _templates():
        yield from re.split("{[{%]", template)[:-1]


def _said() -> Iterator[str]:
    for tree in _modules():
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in docs:
                yield node.value.decode("latin-1") if isinstance(node.value, bytes) else str(node.value)
    yield from _templates()


def _modules() -> Iterator[ast.Module]:
    for module in [path for room in ROOMS for path in (ROOT / room).rglob("*.py")] + list(ROOT.glob("*.py")):
        yield ast.parse(module.read_text())


def _templates() -> Iterator[str]:
    for template in (ROOT / "templates").rglob("*"):
        if template.is_file():
            yield template.read_text()
