"""Text that fits: measured by a table of widths, shortened and wrapped by it, and escaped.

No font is at hand when the picture is made, and each viewer has its own; the widths are those of
DejaVu Sans, wider than the others that the style sheet names, so what fits here fits there.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterable

from activemq_fleet.diagram.style import FONTS

# Hundredths of an em, measured on DejaVu Sans 2.37; what is not named is 63.
_WIDTHS = {
    character: width
    for characters, width in (
        ("ijlIJ'", 29), (" .,/:;|·", 33), ("()[]-frt!", 40), ('cszkvxyTYLF?*_"`', 57),
        ("ABEKPRSVXZU", 68), ("CDGHNOQ&", 77), ("mwMW@%", 95), ("→←↔⇄…×—#+<=>~^★", 84),
    )
    for character in characters
}  # fmt: skip
_MONO_WIDTH = 60
_BOLD = 1.09
# The other fonts are a tenth narrower; what this is too little for DejaVu Sans, the margins hold.
_USUAL = 0.95
_WIDE_FROM = "\u2e80"
# Neither XML 1.0 nor a reader has any use for these.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def escape(text: str) -> str:
    """Text for XML 1.0, in an element or an attribute; what XML cannot hold becomes U+FFFD."""
    return html.escape(_FORBIDDEN.sub("\ufffd", text), quote=True)


def width_of(text: str, font: str) -> float:
    """About how many pixels ``text`` takes in a font of ``style.FONTS``."""
    chosen = FONTS[font]
    hundredths: float
    if chosen.mono:
        hundredths = sum(100 if character >= _WIDE_FROM else _MONO_WIDTH for character in text)
    else:
        hundredths = _USUAL * sum(100 if c >= _WIDE_FROM else _WIDTHS.get(c, 63) for c in text)
    return hundredths / 100 * chosen.size * (_BOLD if chosen.weight >= 600 and not chosen.mono else 1)


def shorten(text: str, font: str, width: float) -> str:
    """``text``, or its beginning with an ellipsis, so that it fits into ``width`` pixels."""
    if width_of(text, font) <= width:
        return text
    fits = bisect_right(range(len(text)), width, key=lambda length: width_of(text[:length] + "…", font))
    return text[: max(fits - 1, 0)] + "…"


def wrap(words: Iterable[str], font: str, width: float, separator: str = " ") -> list[str]:
    """Lines of words that fit into ``width`` pixels; a word too long for a line is shortened."""
    lines: list[str] = []
    for word in words:
        longer = f"{lines[-1]}{separator}{word}" if lines else word
        if lines and width_of(longer, font) <= width:
            lines[-1] = longer
        else:
            lines.append(shorten(word, font, width))
    return lines


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """``1 pair``, ``4 pairs``, ``1,000 brokers``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def listed(items: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    names = list(items)
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
