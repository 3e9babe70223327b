"""Find the only name that a misspelled name of an element or attribute can mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set

from activemq_fleet.releases import MISSPELT_ATTRIBUTES, is_element_of_any_release

# Names that releases corrected or misspelled later. Both names set the same property (see the setters of the tags).
_RENAMED = {
    **MISSPELT_ATTRIBUTES,
    "batchStatements": "batchStatments",
    "zkSessionTmeout": "zkSessionTimeout",
}
_CORRESPONDING_NAMES = {**_RENAMED, **{new: old for old, new in _RENAMED.items()}}
# A name of later releases whose meaning differs from that of the similar name of earlier releases.
_DIFFERENT_MEANING = frozenset({"findAllMessageIdsStatement"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LENGTH_FOR_ONE_MISTAKE, _LENGTH_FOR_TWO_MISTAKES = 3, 8  # minimum number of letters
# Settings whose effect cannot be undone. They are never proposed as the intended name.
_IRREVERSIBLE = frozenset({"deleteAllMessagesOnStartup", "purgeRecoveredXATransactionStrategy"})


def split_name_into_words(name: str) -> frozenset[str]:
    """Return the words of a camel-case name such as ``networkTTL``, in lowercase."""
    return frozenset(word.lower() for word in _WORD.findall(name))


def sole_similar_name(name: str, known: Iterable[str], words: Set[str]) -> str:
    """Return the only valid name of an XML element or attribute that is similar to a misspelled name, or "".

    The result is "" if no name, or more than one, is similar. Names that differ in case or in hyphens are close, and
    names with a mistake: a letter that is missing, added, wrong or exchanged with the next one; long names may have
    two. A name with a different word of ``words``, the words of all names of the schema, is not misspelled: it means
    something else, as ``dynamicallyExcludedDestinations`` does.
    """
    names = [other for other in known if other not in _IRREVERSIBLE]
    if _CORRESPONDING_NAMES.get(name) in names:
        return _CORRESPONDING_NAMES[name]
    equal = [other for other in names if _letters(other) == _letters(name)]
    if equal:
        return equal[0] if len(equal) == 1 else ""
    max_distance = 0 if len(name) < _LENGTH_FOR_ONE_MISTAKE else 1 if len(name) < _LENGTH_FOR_TWO_MISTAKES else 2
    close = [other for other in names if _edit_distance(_letters(name), _letters(other), max_distance) <= max_distance]
    if (
        len(close) != 1
        or name in _DIFFERENT_MEANING
        or is_element_of_any_release(name)
        or _has_other_word(name, close[0], words)
    ):
        return ""
    return close[0]


def _has_other_word(name: str, close: str, words: Set[str]) -> bool:
    """Return whether a name has a word of ``words`` that a close name lacks; the plural is the same word."""
    singular = {word.removesuffix("s") for word in split_name_into_words(close)}
    return any(word in words and word.removesuffix("s") not in singular for word in split_name_into_words(name))


def _letters(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _edit_distance(first: str, second: str, max_distance: int) -> int:
    """Return the edit distance of two names: the number of missing, added, wrong or exchanged letters.

    A distance above ``max_distance`` is returned as any number above ``max_distance``.
    """
    if abs(len(first) - len(second)) > max_distance:
        return max_distance + 1
    row_before_last: list[int] = []
    last_row = list(range(len(second) + 1))
    for row_number, letter in enumerate(first, 1):
        current_row = [row_number]
        for column, other in enumerate(second, 1):
            cost = min(last_row[column] + 1, current_row[-1] + 1, last_row[column - 1] + (letter != other))
            if row_number > 1 and column > 1 and (letter, first[row_number - 2]) == (second[column - 2], other):
                cost = min(cost, row_before_last[column - 2] + 1)
            current_row.append(cost)
        row_before_last, last_row = last_row, current_row
    return last_row[-1]
