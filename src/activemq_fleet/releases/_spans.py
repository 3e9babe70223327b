"""Spans of versions in which a feature exists, over branches that are maintained side by side."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

Version = tuple[int, int, int]


@cache
def parse_version(text: str) -> Version:
    """Return the version in a text as a tuple of integers: ``"5.18.3"`` becomes ``(5, 18, 3)``.

    The function raises ValueError for a text that is not three numbers.
    """
    major, minor, patch = (int(part) for part in text.split("."))
    return major, minor, patch


class VersionSpan(NamedTuple):
    """A span of ActiveMQ versions, for example all versions that have a feature.

    It consists of periods, each from its first version in every branch up to an end. One floor a maintained branch: a
    fix in 5.18.4 and 6.1.0 is in 5.19 but not in 6.0, which had branched before.
    """

    periods: tuple[tuple[tuple[Version, ...], Version | None], ...]

    @classmethod
    def parse(cls, text: str) -> VersionSpan:
        """Return the span of versions that a text describes: ``"5.3.0 !5.8.0"`` means 5.3.0 and later, before 5.8.0.

        The text has the first version of each release line, and after ``!`` the first version after the span.
        ``"5.17.7 5.18.4"`` means 5.17.7 and later 5.17.x, and 5.18.4 and later. Raises ValueError for other text.
        """
        periods: list[tuple[tuple[Version, ...], Version | None]] = []
        floors: tuple[Version, ...] = ()
        for word in text.split():
            if word.startswith("!"):
                periods.append((floors, parse_version(word[1:])))
                floors = ()
            else:
                floors += (parse_version(word),)
        if floors:
            periods.append((floors, None))
        return cls(tuple(periods))

    def includes(self, version: Version) -> bool:
        """Return whether the span of versions includes an ActiveMQ version."""
        return any(_is_at_floor(floors, version) and (end is None or version < end) for floors, end in self.periods)

    def versions_in_words(self) -> str:
        """Return the span of versions in words: ``5.6.0 to 5.9.x``, or ``5.18.6 and later 5.x, 6.2.0 and later``."""
        floors, end = self.periods[-1]
        by_major: dict[int, list[str]] = {}
        for floor in floors:
            by_major.setdefault(floor[0], []).append(_version_text(floor))
        *earlier, last = [(major, ", ".join(texts)) for major, texts in by_major.items()]
        first = "".join(f"{texts} and later {major}.x, " for major, texts in earlier) + last[1]
        return version_range_in_words(first, end) if end else f"{first} and later"

    def first_versions_of_release_lines(self) -> tuple[str, ...]:
        """Return the first version in each release line of the span of versions, as texts.

        For instance ``("5.18.4", "6.1.0")``: 5.18.4 and later of the 5.18 line have it, and so have 6.1.0 and later.
        """
        return tuple(".".join(map(str, floor)) for floors, _ in self.periods for floor in floors)


def _version_text(version: Version) -> str:
    return ".".join(map(str, version))


def version_range_in_words(first: str, end: Version) -> str:
    """Return the versions from ``first`` to the last one before ``end`` in words, such as ``5.6.0 to 5.9.x``.

    The last versions are all of the previous line or major version if ``end`` begins a line or a major version.
    """
    major, minor, patch = end
    if patch:
        last = _version_text((major, minor, patch - 1))
        return first if first == last else f"{first} to {last}"
    return f"{first} to {major}.{minor - 1}.x" if minor else f"{first} and later {major - 1}.x"


def _is_at_floor(floors: tuple[Version, ...], version: Version) -> bool:
    """Return whether ``version`` is at or after the floor of its branch."""
    below = [floor for floor in floors if floor[:2] <= version[:2]]
    if not below:
        return False
    floor = max(below)
    if floor[0] == version[0]:
        return version >= floor
    return not any(other[0] == version[0] for other in floors)
