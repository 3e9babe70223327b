"""Reader of the SVG pictures of this project: boxes, links and texts, in the coordinates of the page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from lxml import etree

_SLACK = 1.5
# The legend contains the same symbols, smaller than any box of the picture.
_SAMPLE = 40


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, and the title of the SVG group that contains it."""

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
    """A line that represents a link; ``group`` and ``pair`` are the titles of the SVG groups that contain it."""

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
    """A parsed SVG picture; the constructor raises an error for malformed XML."""

    def __init__(self, svg: str) -> None:
        self.root = etree.fromstring(svg.encode())
        self.width = float(self.root.get("width", ""))
        self.height = float(self.root.get("height", ""))

    @property
    def shown(self) -> str:
        """Return the visible texts of the picture, one per line."""
        return "\n".join(element.text or "" for element in self.root.iterfind(".//{*}text"))

    @property
    def texts(self) -> str:
        """Return the visible texts, the visible texts with wrapped lines joined, and the titles."""
        titles = "\n".join(element.text or "" for element in self.root.iterfind(".//{*}title"))
        return f"{self.shown}\n{self.shown.replace(chr(10), ' ')}\n{titles}"

    def boxes(self, css: str) -> list[Box]:
        boxes = []
        for element in self._elements_with_class("rect", css):
            dx, dy = _offset(element)
            x, y = float(element.get("x", "0")) + dx, float(element.get("y", "0")) + dy
            width, height = float(element.get("width", "")), float(element.get("height", ""))
            if width > _SAMPLE or css.startswith("badge"):
                boxes.append(Box(_title_of_group(element), x, y, x + width, y + height))
        return boxes

    def titles_of(self, css: str) -> list[str]:
        """Return the titles of the SVG groups that contain a symbol."""
        return [_title_of_group(element) for tag in ("path", "rect") for element in self._elements_with_class(tag, css)]

    @property
    def links(self) -> list[Link]:
        """Return the links of the picture, without the samples of the legend."""
        links = []
        for element in self._elements_with_class("path", "line"):
            kind = re.search(r"line-(\w+)", element.get("class", ""))
            around = [_title_of_element(parent) for parent in element.iterancestors("{*}g")]
            group = next((title for title in around if title.startswith("group ")), None)
            pair = next((title for title in around if title.startswith("pair ")), None)
            if kind is None or not (group or self._is_between_groups(element)):
                continue
            dx, dy = _offset(element)
            numbers = [float(text) for text in re.findall(r"-?[\d.]+", element.get("d", ""))]
            points = tuple((x + dx, y + dy) for x, y in zip(numbers[::2], numbers[1::2], strict=True))
            links.append(Link(kind[1], points, _heads(element), group, pair))
        return links

    @property
    def heads(self) -> list[Box]:
        """Return the areas of the arrowheads of links, without the samples of the legend."""
        boxes = []
        for element in self.root.iterfind(".//{*}path"):
            if element.get("class", "").startswith("head-") and _title_of_group(element):
                dx, dy = _offset(element)
                numbers = [float(text) for text in re.findall(r"-?[\d.]+", element.get("d", ""))]
                across, down = numbers[::2], numbers[1::2]
                boxes.append(
                    Box(_title_of_group(element), min(across) + dx, min(down) + dy, max(across) + dx, max(down) + dy)
                )
        return boxes

    def _is_between_groups(self, element: etree._Element) -> bool:
        """Return whether a link is between groups: such a link has a title, and samples of the legend have none."""
        return bool(_title_of_group(element))

    def _elements_with_class(self, tag: str, css: str) -> list[etree._Element]:
        return [element for element in self.root.iterfind(f".//{{*}}{tag}") if css in element.get("class", "").split()]


def _heads(line: etree._Element) -> int:
    """Return the number of arrowheads between a line and the next line."""
    count = 0
    for element in line.itersiblings():
        if not element.get("class", "").startswith("head-"):
            break
        count += 1
    return count


def _offset(element: etree._Element) -> tuple[float, float]:
    x = y = 0.0
    for parent in element.iterancestors("{*}g"):
        if translation := re.fullmatch(r"translate\((\S+) (\S+)\)", parent.get("transform", "")):
            x, y = x + float(translation[1]), y + float(translation[2])
    return x, y


def _title_of_element(element: etree._Element) -> str:
    return element.findtext("{*}title") or ""


def _title_of_group(element: etree._Element) -> str:
    """Return the title of the innermost SVG group with a title, or an empty text."""
    return next((title for parent in element.iterancestors("{*}g") if (title := _title_of_element(parent))), "")
