"""Find the errors for which Java cannot compile a regular expression.

Python's ``re`` is no replacement: Java also accepts ``\\p{L}``, ``\\Q…\\E`` and ``[a-z&&[^b]]``. Only errors that are
certain are found. The content of character classes and of ``\\Q…\\E``, and the text after ``(?`` or ``\\c``, are not
checked.

Source: java.util.regex.Pattern of Java 17.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
    (?P<quoted> \\Q .*? (?: \\E | $ ))
    | (?P<escape> \\ (?: [pPxN] \{ [^}]* \}? | .?))
    | (?P<repetition> \{ [0-9]{1,9} (?: ,[0-9]{0,9} )? \} [?+]?)
    | (?P<brace> \{)
    | (?P<quantifier> [*+?] [?+]?)
    | (?P<special_group> \( \?)
    | (?P<other> .)
    """,
    re.VERBOSE | re.DOTALL,
)
_UNCHECKED = frozenset({"[", "(?", "\\c"})
"""The tokens that begin a construct whose content is not checked."""


def java_pattern_error(pattern: str) -> str:
    """Return the reason why Java cannot compile a regular expression; "" if no reason is certain."""
    depth = 0
    has_atom = False
    for match in _TOKEN.finditer(pattern):
        text, kind = match[0], match.lastgroup
        if text == "[" and "]" not in pattern[match.end() :]:
            return f"the character class at position {match.start() + 1} is not closed"
        if text in _UNCHECKED:
            return ""
        if kind == "brace" or (kind == "quantifier" and not has_atom):
            return f"{text[0]!r} at position {match.start() + 1} repeats nothing"
        if text == "\\":
            return "it ends with a backslash"
        if text == ")" and depth == 0:
            return f"the parenthesis at position {match.start() + 1} closes no group"
        depth += {"(": 1, ")": -1}.get(text, 0)
        has_atom = text not in ("(", "|") and kind not in ("quantifier", "repetition")
    return "a group is not closed" if depth else ""
