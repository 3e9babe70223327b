"""Write SVG elements with every text escaped, and measure text: for the pictures of fleets and the charts of reports.

No font is available when a picture is written, and each viewer has another; widths are those of DejaVu Sans, which is
wider than the other fonts of the style sheet, so that text that fits here fits there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from activemq_fleet.node.printable import escape_html

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Font:
    """A font of an SVG picture.

    ``size`` is in pixels.
    """

    size: float
    weight: int = 400
    mono: bool = False


FONTS: Mapping[str, Font] = MappingProxyType({
    "title": Font(21, 600),
    "summary": Font(13),
    "heading": Font(13, 600),
    "group-name": Font(16, 600),
    "facts": Font(12),
    "pair-name": Font(13.5, 600),
    "pair-small": Font(12.5, 600),
    "host": Font(12.5, 600),
    "small": Font(11),
    "mono": Font(10.5, mono=True),
    "label": Font(11),
    "badge": Font(10, 600),
    "note": Font(12),
})  # fmt: skip
# The widths of characters in hundredths of an em, rounded up, measured with DejaVu Sans 2.37. Bold characters are about
# 9 hundredths wider.
_WIDTHS = {
    character: width
    for width, characters in (
        (28, "'ijl"), (30, "IJ"), (32, " ,.·"), (34, "/:;\\|"), (36, "f-"), (40, "()[]t!"), (42, "r"), (46, '"'),
        (50, "*_`"), (53, "sz?"), (55, "c"), (58, "LFk"), (60, "vxy"), (62, "PTYaoe"), (64, "Ehnu0123456789$Sbdgpq{}"),
        (66, "K"), (69, "AVXZB"), (70, "CR"), (74, "U"), (76, "HN"), (78, "DG&"), (79, "OQ"), (82, "w"),
        (84, "#+<=>^~→←↔⇄×"), (87, "M"), (90, "★☆"), (95, "%"), (98, "m"), (99, "W"), (100, "@…—"),
    )
    for character in characters
}  # fmt: skip
_OTHER_WIDTH, _MONO_WIDTH, _BOLD_EXTRA = 64, 60.3, 9
_WIDE_FROM = "\u2e80"
# The number of characters at the end of a host name that are never cut: the number of a pair and its node, as in 02-a.
_MINIMUM_END_LENGTH = 4


class SvgCanvas:
    """A canvas that collects the elements of an SVG picture.

    Each element is on one line; ``css`` is one or more classes, lengths are in pixels.
    """

    def __init__(self) -> None:
        self._elements: list[str] = []

    def add_element(self, tag: str, css: str, tooltip: str = "", text: str = "", **attributes: str | float) -> None:
        """Add an element to an SVG picture.

        ``tooltip`` and ``text`` are plain text; underscores in attribute names become hyphens.
        """
        attribute_text = "".join(
            f' {name.replace("_", "-")}="{escape_html(number) if isinstance(number, str) else format_decimal(number)}"'
            for name, number in attributes.items()
        )
        content = f"<title>{escape_html(tooltip)}</title>" if tooltip else ""
        content += escape_html(text)
        self._elements.append(f'<{tag} class="{css}"{attribute_text}' + (f">{content}</{tag}>" if content else "/>"))

    def add_elements_of(self, canvas: SvgCanvas) -> None:
        """Add all elements of another canvas to an SVG picture."""
        self._elements += canvas._elements

    def add_rect(
        self, css: str, x: float, y: float, width: float, height: float, tooltip: str = "", *, radius: float = 0
    ) -> None:
        """Add a rectangle to an SVG picture.

        Its upper left corner is at (x, y), and its corners are rounded by ``radius``.
        """
        rounded: dict[str, Any] = {"rx": radius} if radius else {}
        self.add_element("rect", css, tooltip, x=x, y=y, width=width, height=height, **rounded)

    def add_line(self, css: str, x: float, y: float, to_x: float, to_y: float, tooltip: str = "") -> None:
        """Add a straight line to an SVG picture."""
        self.add_element("line", css, tooltip, x1=x, y1=y, x2=to_x, y2=to_y)

    def add_text(self, css: str, x: float, y: float, text: str, anchor: str = "start", tooltip: str = "") -> None:
        """Add a text to an SVG picture.

        Its baseline is at ``y``; ``anchor`` is start, middle or end.
        """
        anchored: dict[str, Any] = {} if anchor == "start" else {"text_anchor": anchor}
        self.add_element("text", css, tooltip, text, x=x, y=y, **anchored)

    def add_path(self, css: str, d: str) -> None:
        """Add a path to an SVG picture.

        ``d`` is SVG path data.
        """
        self.add_element("path", css, d=d)

    def add_circle(self, css: str, x: float, y: float, radius: float) -> None:
        """Add a circle around (x, y) to an SVG picture."""
        self.add_element("circle", css, cx=x, cy=y, r=radius)

    @contextmanager
    def svg_group(self, title: str = "", position: Point | None = None) -> Iterator[None]:
        """Group the SVG elements that are added inside a ``with`` block.

        ``title`` is read by screen readers and shown as a tooltip.
        """
        transform = (
            f' transform="translate({format_decimal(position[0])} {format_decimal(position[1])})"' if position else ""
        )
        self._elements.append(f"<g{transform}>")
        if title:
            self._elements.append(f"<title>{escape_html(title)}</title>")
        yield
        self._elements.append("</g>")

    def __str__(self) -> str:
        return "\n".join(self._elements)


def format_decimal(number: float) -> str:
    """Return a number as decimal text, for the coordinates of a picture.

    It has at most one decimal place, so that the same picture has the same bytes everywhere.
    """
    text = f"{number:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def text_width(text: str, font: str) -> float:
    """Return the width of a text in pixels, in a given font.

    The font is named in ``FONTS``.
    """
    font_style = FONTS[font]
    extra = _BOLD_EXTRA if font_style.weight >= 600 else 0
    hundredths = 0.0
    for character in text:
        if character >= _WIDE_FROM:
            hundredths += 100
        else:
            hundredths += _MONO_WIDTH if font_style.mono else _WIDTHS.get(character, _OTHER_WIDTH) + extra
    return hundredths / 100 * font_style.size


def shorten_to_width(text: str, font: str, width: float) -> str:
    """Return a text shortened with an ellipsis to a width in pixels.

    The text is unchanged where it fits.
    """
    if text_width(text, font) <= width:
        return text
    fitting_length = bisect_right(range(len(text)), width, key=lambda length: text_width(text[:length] + "…", font))
    return text[: max(fitting_length - 1, 0)] + "…"


def cut_host_name_in_middle(name: str, font: str, width: float, number: str = "") -> str:
    """Return a host name cut in its middle so that it fits a width in pixels.

    Its end from the pair's ``number`` on is kept.
    """
    if text_width(name, font) <= width:
        return name
    from_number = len(name) - name.rfind(number) if number and number in name else 0
    for length in (max(_MINIMUM_END_LENGTH, from_number), _MINIMUM_END_LENGTH):
        beginning = shorten_to_width(name[:-length], font, width - text_width(name[-length:], font))
        if len(beginning) > 1:
            return beginning + name[-length:]
    return shorten_to_width(name, font, width)


def wrap_words(words: Iterable[str], font: str, width: float, separator: str = " ") -> list[str]:
    """Wrap words to lines that fit a width in pixels.

    A word too long for a line is shortened.
    """
    lines: list[str] = []
    for word in words:
        longer = f"{lines[-1]}{separator}{word}" if lines else word
        if lines and text_width(longer, font) <= width:
            lines[-1] = longer
        else:
            lines.append(shorten_to_width(word, font, width))
    return lines
