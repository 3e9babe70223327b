"""Reads an SVG of ours back: boxes, links and texts, in the coordinates of the page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from lxml import etree

_SLACK = 1.5
# The legend draws the same signs, smaller than any box of the picture.
_SAMPLE = 40


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, and the title of the group of elements that it is in."""

    title: str
    x: float
    y: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        across = self.x < other.right - _SLACK and other.x < self.right - _SLACK
        return across and self.y < other.bottom - _SLACK and other.y < self.bottom - _SLACK


@dataclass(frozen=True, slots=True)
class Link:
    """A line that stands for a link; ``group`` and ``pair`` are the titles of what it is inside of."""

    kind: str
    points: tuple[tuple[float, float], ...]
    heads: int
    group: str | None
    pair: str | None

    def crosses(self, box: Box) -> bool:
        for (x1, y1), (x2, y2) in pairwise(self.points):
            segment = Box("", min(x1, x2) - 0.1, min(y1, y2) - 0.1, max(x1, x2) + 0.1, max(y1, y2) + 0.1)
            if (
                segment.x < box.right - _SLACK
                and box.x < segment.right - _SLACK
                and segment.y < box.bottom - _SLACK
                and box.y < segment.bottom - _SLACK
            ):
                return True
        return False


class Picture:
    """Fails for what is not well-formed XML."""

    def __init__(self, svg: str) -> None:
        self.root = etree.fromstring(svg.encode())
        self.width = float(self.root.get("width", ""))
        self.height = float(self.root.get("height", ""))

    @property
    def shown(self) -> str:
        """What stands in the picture, a text a line."""
        return "\n".join(element.text or "" for element in self.root.iterfind(".//{*}text"))

    @property
    def texts(self) -> str:
        """All that it says, titles included, with wrapped lines joined."""
        titles = "\n".join(element.text or "" for element in self.root.iterfind(".//{*}title"))
        return f"{self.shown}\n{self.shown.replace(chr(10), ' ')}\n{titles}"

    def boxes(self, css: str) -> list[Box]:
        found = []
        for element in self._with_class("rect", css):
            dx, dy = _offset(element)
            x, y = float(element.get("x", "0")) + dx, float(element.get("y", "0")) + dy
            width, height = float(element.get("width", "")), float(element.get("height", ""))
            if width > _SAMPLE or css.startswith("badge"):
                found.append(Box(_title(element), x, y, x + width, y + height))
        return found

    def titles_of(self, css: str) -> list[str]:
        """The titles of the groups of elements in which a sign is."""
        return [_title(element) for tag in ("path", "rect") for element in self._with_class(tag, css)]

    @property
    def links(self) -> list[Link]:
        """Those of the picture, without the samples of the legend."""
        found = []
        for element in self._with_class("path", "line"):
            kind = re.search(r"line-(\w+)", element.get("class", ""))
            around = [_own_title(parent) for parent in element.iterancestors("{*}g")]
            group = next((title for title in around if title.startswith("group ")), None)
            pair = next((title for title in around if title.startswith("pair ")), None)
            if kind is None or not (group or self._is_between(element)):
                continue
            dx, dy = _offset(element)
            numbers = [float(text) for text in re.findall(r"-?[\d.]+", element.get("d", ""))]
            points = tuple((x + dx, y + dy) for x, y in zip(numbers[::2], numbers[1::2], strict=True))
            found.append(Link(kind[1], points, _heads(element), group, pair))
        return found

    @property
    def heads(self) -> list[Box]:
        """What the heads of links take, without the samples of the legend."""
        found = []
        for element in self.root.iterfind(".//{*}path"):
            if element.get("class", "").startswith("head-") and _title(element):
                dx, dy = _offset(element)
                numbers = [float(text) for text in re.findall(r"-?[\d.]+", element.get("d", ""))]
                across, down = numbers[::2], numbers[1::2]
                found.append(Box(_title(element), min(across) + dx, min(down) + dy, max(across) + dx, max(down) + dy))
        return found

    def _is_between(self, element: etree._Element) -> bool:
        """Links between groups say their name; samples of the legend have none."""
        return bool(_title(element))

    def _with_class(self, tag: str, css: str) -> list[etree._Element]:
        return [element for element in self.root.iterfind(f".//{{*}}{tag}") if css in element.get("class", "").split()]


def _heads(line: etree._Element) -> int:
    """How many heads follow a line before the next one."""
    count = 0
    for element in line.itersiblings():
        if not element.get("class", "").startswith("head-"):
            break
        count += 1
    return count


def _offset(element: etree._Element) -> tuple[float, float]:
    x = y = 0.0
    for parent in element.iterancestors("{*}g"):
        if moved := re.fullmatch(r"translate\((\S+) (\S+)\)", parent.get("transform", "")):
            x, y = x + float(moved[1]), y + float(moved[2])
    return x, y


def _own_title(element: etree._Element) -> str:
    return element.findtext("{*}title") or ""


def _title(element: etree._Element) -> str:
    """Of the innermost group that has one; of the page none."""
    return next((title for parent in element.iterancestors("{*}g") if (title := _own_title(parent))), "")
