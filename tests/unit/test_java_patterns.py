"""Regular expressions of Java: only patterns that Java refuses are reported."""

from __future__ import annotations

import pytest

from activemq_fleet.java_patterns import java_pattern_error

ACCEPTED_BY_JAVA = [
    "", "a", ".*", "a*?b++", "prices[.].*", "(a|b)*", "(|a)", "^*", "a{2,3}{4}", "{2}a", "|{3,}", r"\Q*(\E", r"\Q*(",
    r"\*a", "a}", "]", "(?<name>a)", "(?i)a", "[a[b]]", r"[\]*]", r"\p{L}\h", r"\x{41}", r"\c*",
]  # fmt: skip
REFUSED_BY_JAVA = [
    "*a", "+", "?", "a**", "a{1}*", "a*+*", "(*a)", "a|*", "(a", "a)", "((a)", "a{", "{a", "a{x}", "a{,3}", "[a",
    "a[^", "a\\",
]  # fmt: skip


@pytest.mark.parametrize("pattern", ACCEPTED_BY_JAVA)
def test_no_error_for_pattern_that_java_compiles(pattern: str) -> None:
    assert java_pattern_error(pattern) == ""


@pytest.mark.parametrize("pattern", REFUSED_BY_JAVA)
def test_error_for_pattern_that_java_refuses(pattern: str) -> None:
    assert java_pattern_error(pattern)
