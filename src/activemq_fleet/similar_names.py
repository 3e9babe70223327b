"""Find the names that a misspelled name may mean; the agent's distribution links this file."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

_MIN_RATIO = 0.6
"""The least ratio of difflib for a hint in an error that is reported anyway."""
_MIN_CERTAIN_RATIO = 0.8
"""The least ratio where only the similarity is evidence of a mistake, such as one wrong digit of 5.18.3."""
_LARGEST_LENGTH_DIFFERENCE = 2
"""The largest difference between the lengths of two names that are certainly similar."""


def similar_names(name: str, known: Iterable[str], *, certain: bool = False) -> list[str]:
    """Return the valid names, such as releases or XML elements, that are similar to a misspelled name.

    The most similar is first. Case is ignored. ``certain`` returns only those that differ in a letter or two. Equally
    similar names are in reverse alphabetical order, so that 5.18.3 precedes 5.11.3. A name with ``max`` in place of
    ``min``, or the reverse, is not similar: it means the opposite.
    """
    opposites = {name.lower().replace("min", "max"), name.lower().replace("max", "min")} - {name.lower()}
    matcher = SequenceMatcher()
    matcher.set_seq2(name.lower())  # the matcher keeps its index of the second text
    least = _MIN_CERTAIN_RATIO if certain else _MIN_RATIO
    ratios: list[tuple[float, str]] = []
    for candidate in set(known):
        if candidate.lower() in opposites:
            continue
        if certain and abs(len(candidate) - len(name)) > _LARGEST_LENGTH_DIFFERENCE:
            continue
        if _has_swapped_letters(name.lower(), candidate.lower()):
            ratios.append((1.0, candidate))
            continue
        matcher.set_seq1(candidate.lower())
        if min(matcher.real_quick_ratio(), matcher.quick_ratio()) >= least and matcher.ratio() >= least:
            ratios.append((matcher.ratio(), candidate))
    return [candidate for _, candidate in sorted(ratios, reverse=True)]


def _has_swapped_letters(name: str, candidate: str) -> bool:
    """Return whether two neighboring letters are swapped, for which difflib has a low ratio in short names."""
    if len(name) != len(candidate):
        return False
    differing = [index for index, letters in enumerate(zip(name, candidate, strict=True)) if letters[0] != letters[1]]
    first, last = (differing[0], differing[-1]) if differing else (0, 0)
    return last - first == 1 and name[first] == candidate[last] and name[last] == candidate[first]


def most_similar_name(name: str, known: Iterable[str], *, certain: bool = False) -> str | None:
    """Return the valid name, such as a group or an XML element, most similar to a misspelled name, or None."""
    return next(iter(similar_names(name, known, certain=certain)), None)
