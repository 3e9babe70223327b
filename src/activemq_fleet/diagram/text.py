"""Measure, shorten and wrap text by a table of character widths.

No font is available when the picture is made, and each viewer has another; the widths are those of DejaVu Sans, which
is wider than the other fonts of the style sheet, so that text that fits here fits there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from activemq_fleet.diagram.style import FONTS

# Hundredths of an em, rounded up, measured on DejaVu Sans 2.37; what is not named is _OTHER.
_REGULAR = (
    (28, "'ijl"), (30, "IJ"), (32, " ,.·"), (34, "/:;\\|"), (36, "f-"), (40, "()[]t!"), (42, "r"), (46, '"'),
    (50, "*_`"), (53, "sz?"), (55, "c"), (58, "LFk"), (60, "vxy"), (62, "PTYaoe"), (64, "Ehnu0123456789$Sbdgpq{}"),
    (66, "K"), (69, "AVXZB"), (70, "CR"), (74, "U"), (76, "HN"), (78, "DG&"), (79, "OQ"), (82, "w"),
    (84, "#+<=>^~→←↔⇄×"), (87, "M"), (90, "★☆"), (95, "%"), (98, "m"), (99, "W"), (100, "@…—"),
)  # fmt: skip
_BOLD = (
    (31, "'"), (35, "ijl "), (37, "/\\|IJ"), (38, ",.·"), (40, ":;"), (42, "-"), (46, "f!()[]"), (48, "t"),
    (50, "r_`"), (53, '"*'), (60, "cs?z"), (64, "Lx"), (66, "vyk"), (69, "EFTaeo"), (70, "0123456789$"),
    (72, "SYZbdgpqhnu{}"), (74, "CP"), (78, "ABKRVX"), (84, "UDGHN#+<=>^~→←↔⇄×"), (86, "OQ"), (88, "&"), (93, "w★☆"),
    (100, "%@M…—"), (105, "m"), (111, "W"),
)  # fmt: skip
_WIDTHS, _BOLD_WIDTHS = (
    {character: width for width, characters in table for character in characters} for table in (_REGULAR, _BOLD)
)
_OTHER, _BOLD_OTHER = 64, 72
_MONO_WIDTH = 60.3
# At least the number of a pair and the letter of a node: 02-a.
_NAME_END = 4
_WIDE_FROM = "\u2e80"


def width_of(text: str, font: str) -> float:
    """Return the width of a text in pixels, in a font named in ``style.FONTS``."""
    chosen = FONTS[font]
    if chosen.mono:
        hundredths = sum(100 if character >= _WIDE_FROM else _MONO_WIDTH for character in text)
    else:
        widths, other = (_BOLD_WIDTHS, _BOLD_OTHER) if chosen.weight >= 600 else (_WIDTHS, _OTHER)
        hundredths = sum(100 if c >= _WIDE_FROM else widths.get(c, other) for c in text)
    return hundredths / 100 * chosen.size


def shorten(text: str, font: str, width: float) -> str:
    """Return the text cut to ``width`` pixels: the whole text where it fits, else its beginning and an ellipsis."""
    if width_of(text, font) <= width:
        return text
    fits = bisect_right(range(len(text)), width, key=lambda length: width_of(text[:length] + "…", font))
    return text[: max(fits - 1, 0)] + "…"


def shorten_name(name: str, font: str, width: float, number: str = "") -> str:
    """Return the name cut in its middle to ``width`` pixels; its end from the pair's ``number`` on is kept."""
    if width_of(name, font) <= width:
        return name
    from_number = len(name) - name.rfind(number) if number and number in name else 0
    for length in (max(_NAME_END, from_number), _NAME_END):
        beginning = shorten(name[:-length], font, width - width_of(name[-length:], font))
        if len(beginning) > 1:
            return beginning + name[-length:]
    return shorten(name, font, width)


def wrap(words: Iterable[str], font: str, width: float, separator: str = " ") -> list[str]:
    """Return words joined to lines that fit into ``width`` pixels; a word too long for a line is shortened."""
    lines: list[str] = []
    for word in words:
        longer = f"{lines[-1]}{separator}{word}" if lines else word
        if lines and width_of(longer, font) <= width:
            lines[-1] = longer
        else:
            lines.append(shorten(word, font, width))
    return lines


def join_words(items: Iterable[str]) -> str:
    """Return the items joined as a phrase: ``a``, ``a and b`` or ``a, b and c``."""
    names = list(items)
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
