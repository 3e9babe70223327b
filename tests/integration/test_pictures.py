"""Tests of the pictures of fleets in a real browser: position, overlap and contrast of texts in both color schemes."""

from __future__ import annotations

import html
import os
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.diagram import to_svg
from activemq_fleet.inventory import load_fleet
from activemq_fleet.topology import Fleet, build_fleet
from scripts.browser import Browser, BrowserError, Scheme
from scripts.pictures import FIRST_SCREEN, PAGE_SCALE, screenshot_svg, size_of
from tests.situations import further, in_every_situation
from tests.unit.drawn import pairs
from tests.unit.fleets import fleet, hosts

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.parent for path in (REPOSITORY / "examples").glob("*/hosts.yml"))
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
# WCAG 2.1, success criterion 1.4.3, for text of normal size.
MIN_CONTRAST = 4.5
# Some fonts draw glyphs slightly outside their box.
SLACK = 1.0


def regions(count: int, size: int) -> Fleet:
    """Return groups of pairs that are linked to the first group, with findings and a release that differs."""
    names = [f"region{number:02}" for number in range(count)]
    links = [{"from": f"{name}-mq01", "to": f"{names[0]}-mq01", "duplex": True} for name in names[1:]]
    host_variables = hosts(*(pair for name in names for pair in pairs(name, size)), links=links)
    host_variables["region03-mq02-b.example.com"]["activemq_store_directory"] = "/elsewhere"
    host_variables["region04-mq01-b.example.com"]["activemq_release"] = "5.17.6"
    del host_variables["region05-mq03-b.example.com"]
    return build_fleet(host_variables, {})


def tree() -> Fleet:
    """Return groups of pairs whose links form a tree."""
    names = [f"region{number:02}" for number in range(14)]
    links = [{"from": names[i], "to": names[(i - 1) // 3], "include": ["queue://orders.>"]} for i in range(1, 14)]
    return fleet(*(pair for name in names for pair in pairs(name, 2)), links=links)


EACH_TO_EACH = [{"from": a, "to": b} for a in "abcdefg" for b in "abcdefg" if a < b]
UNEQUAL = [{"from": "orders", "to": "billing"}, {"from": "billing-mq01", "to": "orders-mq01"}]
TO_THE_HUB = [{"from": name, "to": "hub", "include": ["queue://orders.>", "topic://events.>"]} for name in "abcdef"]
FLEETS: dict[str, Fleet] = {
    "pure": fleet(*pairs("orders", 3), ha="pure", release="5.5.1"),
    "ports": fleet(*pairs("orders", 2), port_offset=10, address=None, discovery="failover", topology="hub"),
    "long names": fleet(*pairs("a-group-with-a-rather-long-name", 4), domain="messaging.internal.example.com"),
    "seven groups": fleet(*(f"{name}-mq01" for name in "abcdefg"), links=EACH_TO_EACH),
    "tree": tree(),
    "each way": fleet(*pairs("orders", 3), *pairs("billing", 3), links=UNEQUAL),
    "around a hub": fleet(*pairs("hub", 2), *(f"{name}-mq01" for name in "abcdef"), links=TO_THE_HUB),
    "25 groups of 4 pairs": regions(25, 4),
} | {
    f"{topology} of {count}": fleet(*pairs("orders", count), topology=topology)
    for count in (4, 100)
    for topology in ("mesh", "hub", "ring", "chain")
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MeasuredPictures:
    """The measurements of ``pictures.js`` in one scheme, by picture."""

    scheme: Scheme
    by_name: dict[str, dict[str, Any]]

    def texts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, picture in self.by_name.items():
            for text in picture["texts"]:
                yield name, text


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    """Return Chromium, or skip with the reason; ``ACTIVEMQ_FLEET_BROWSER=required`` fails the test instead."""
    try:
        return Browser.find(tmp_path_factory.mktemp("chromium"))
    except BrowserError as error:
        if os.environ.get("ACTIVEMQ_FLEET_BROWSER") == "required":
            pytest.fail(f"Chromium is required and cannot be used: {error}")
        pytest.skip(f"Chromium, which checks the pictures, cannot be used: {error}")


@pytest.fixture(scope="module")
def drawings() -> dict[str, str]:
    """Return the SVG files by name: the examples, and fleets that are difficult to draw."""
    return {path.name: to_svg(load_fleet([str(path)])) for path in EXAMPLES} | {
        name: to_svg(drawn_fleet) for name, drawn_fleet in FLEETS.items()
    }


@pytest.fixture(scope="module", params=[SCHEMES[0], *further(*SCHEMES[1:])])
def pictures(
    request: pytest.FixtureRequest, browser: Browser, drawings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> MeasuredPictures:
    """Measure all pictures on one page, so that the browser starts once per scheme."""
    page = tmp_path_factory.mktemp("page") / "page.html"
    script = (Path(__file__).parent / "pictures.js").read_text()
    divisions = "".join(f'<div id="{html.escape(name)}">{svg}</div>' for name, svg in drawings.items())
    page.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{divisions}<script>{script}</script></body>')
    measured = MeasuredPictures(request.param, browser.run_script(page, request.param))
    assert set(measured.by_name) == set(drawings)
    return measured


def test_each_text_of_drawing_is_inside_its_box(pictures: MeasuredPictures) -> None:
    outside = [
        (name, text["content"])
        for name, text in pictures.texts()
        if not _contains(text["within"], text["box"])
    ]  # fmt: skip
    assert outside == []


def test_texts_of_drawing_do_not_overlap(pictures: MeasuredPictures) -> None:
    overlapping = [
        (name, text["content"], neighbor["content"])
        for name, picture in pictures.by_name.items()
        for text, neighbor in _neighboring_texts(picture["texts"])
        if _overlaps(text["box"], neighbor["box"])
    ]
    assert overlapping == []


def test_lines_of_drawing_do_not_cross_texts(pictures: MeasuredPictures) -> None:
    assert {name: picture["crossed"] for name, picture in pictures.by_name.items() if picture["crossed"]} == {}


def test_each_text_of_drawing_has_enough_contrast_to_its_background(pictures: MeasuredPictures) -> None:
    faint = {
        (text["content"], round(contrast, 2))
        for _, text in pictures.texts()
        if (contrast := contrast_ratio(_color(text["fill"]), _color(text["ground"]))) < MIN_CONTRAST
    }
    assert faint == set()


def test_background_of_drawing_is_dark_only_in_dark_scheme(pictures: MeasuredPictures) -> None:
    is_dark_background = {
        _luminance(_color(text["ground"])) < 0.18 for _, text in pictures.texts() if text["content"] == "ActiveMQ fleet"
    }
    assert is_dark_background == {pictures.scheme == "dark"}


@pytest.mark.parametrize("name", ["mesh of 100", "hub of 100", "25 groups of 4 pairs"])
def test_drawing_of_100_pairs_is_legible_on_a3_sheet(drawings: dict[str, str], name: str) -> None:
    """The smallest letters are 11 pixels high: at least 1.2 mm on an A3 sheet in landscape format."""
    width, height = size_of(drawings[name])
    assert 11 * min(400 / width, 277 / height) >= 1.2


@in_every_situation
def test_screenshot_shows_drawing_in_each_scheme(browser: Browser, drawings: dict[str, str], tmp_path: Path) -> None:
    svg = tmp_path / "fleet.svg"
    svg.write_text(drawings["shared-store"])
    colors = {}
    for scheme in SCHEMES:
        screenshot_svg(browser, svg, tmp_path / "fleet.png", scheme)
        colors[scheme] = _colors_of_png(tmp_path / "fleet.png")

    assert colors["light"][0] == (255, 255, 255)
    assert colors["dark"][0] == (13, 17, 23)
    # The master is blue in both schemes, and the blue differs.
    assert (232, 241, 253) in colors["light"]
    assert (22, 48, 79) in colors["dark"]
    assert (232, 241, 253) not in colors["dark"]


def test_documentation_has_two_screenshots_of_each_drawing_in_its_proportions() -> None:
    drawings = sorted((REPOSITORY / "docs" / "pictures").glob("*.svg"))
    assert drawings != []
    for svg in drawings:
        width, height = size_of(svg.read_text())
        for picture in (svg.with_suffix(".png"), svg.with_name(f"{svg.stem}-dark.png")):
            pixels = struct.unpack(">II", picture.read_bytes()[16:24])
            assert pixels[0] / pixels[1] == pytest.approx(width / height, rel=0.01), (
                f"{picture.name}: run `make pictures`"
            )


def test_html_pages_of_documentation_have_screenshots_of_first_screen() -> None:
    pages = sorted((REPOSITORY / "docs" / "pictures").glob("*.html"))
    assert pages != []
    for page in pages:
        for picture in (page.with_suffix(".png"), page.with_name(f"{page.stem}-dark.png")):
            size = struct.unpack(">II", picture.read_bytes()[16:24])
            assert size == tuple(side * PAGE_SCALE for side in FIRST_SCREEN), f"{picture.name}: run `make pictures`"


class TestChecks:
    """Tests of the checks in this module."""

    def test_checks_of_drawings_detect_long_covered_faint_and_crossed_texts(
        self, browser: Browser, tmp_path: Path
    ) -> None:
        svg = (
            '<svg width="200" height="100"><rect width="200" height="100" fill="#fff"/><rect x="10" y="10" width="40"'
            ' height="20" fill="#ccc"/><text x="12" y="24">far too long for it</text><text x="20" y="26" fill="#bbb">'
            'faint</text><path class="line" d="M0 80H200" stroke="#000"/><text x="90" y="84">crossed</text></svg>'
        )
        script = (Path(__file__).parent / "pictures.js").read_text()
        page = tmp_path / "page.html"
        page.write_text(f'<!DOCTYPE html><body><div id="bad">{svg}</div><script>{script}</script></body>')
        picture = browser.run_script(page, "light")["bad"]
        long, faint, _ = picture["texts"]
        assert not _contains(long["within"], long["box"])
        assert contrast_ratio(_color(faint["fill"]), _color(faint["ground"])) < MIN_CONTRAST
        assert _overlaps(long["box"], faint["box"])
        assert picture["crossed"] == ["crossed"]

    def test_contrast_ratio_matches_wcag_definition(self) -> None:
        assert contrast_ratio((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
        assert contrast_ratio((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)


Color = tuple[int, int, int]


def contrast_ratio(first: Color, second: Color) -> float:
    """Return the contrast ratio of two colors, from 1 to 21, as WCAG 2.1 defines it."""
    dark, light = sorted((_luminance(first), _luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: Color) -> float:
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in (c / 255 for c in color)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _color(css: str) -> Color:
    red, green, blue = (int(number) for number in re.findall(r"\d+", css)[:3])
    return red, green, blue


def _contains(outer: dict[str, float], inner: dict[str, float]) -> bool:
    across = outer["left"] - SLACK <= inner["left"] and inner["right"] <= outer["right"] + SLACK
    # A line of text is higher than its letters, and the empty part may be outside the box.
    return across and outer["top"] - 3 <= inner["top"] and inner["bottom"] <= outer["bottom"] + 3


def _overlaps(first: dict[str, float], second: dict[str, float]) -> bool:
    across = min(first["right"], second["right"]) - max(first["left"], second["left"])
    down = min(first["bottom"], second["bottom"]) - max(first["top"], second["top"])
    return across > SLACK and down > 3


def _neighboring_texts(texts: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield pairs of texts that may overlap: the second text begins above the end of the first one."""
    ordered = sorted(texts, key=lambda unordered: unordered["box"]["top"])
    for position, text in enumerate(ordered):
        for neighbor in ordered[position + 1 :]:
            if neighbor["box"]["top"] > text["box"]["bottom"]:
                break
            yield text, neighbor


def _colors_of_png(picture: Path) -> list[Color]:
    """Return the colors of a PNG that Chromium wrote (8 bits, no interlacing), in the order of appearance."""
    png_bytes = picture.read_bytes()
    width, height, depth, kind = struct.unpack(">IIBB", png_bytes[16:26])
    assert depth == 8
    size = {2: 3, 6: 4}[kind]
    packed, at = b"", 8
    while at < len(png_bytes):
        (length,) = struct.unpack(">I", png_bytes[at : at + 4])
        packed += png_bytes[at + 8 : at + 8 + length] if png_bytes[at + 4 : at + 8] == b"IDAT" else b""
        at += 12 + length
    pixel_rows, stride = zlib.decompress(packed), width * size + 1
    previous_row, colors = bytearray(width * size), dict[Color, None]()
    for start in range(0, height * stride, stride):
        pixel_row = _unfilter_row(
            pixel_rows[start], bytearray(pixel_rows[start + 1 : start + stride]), previous_row, size
        )
        colors |= dict.fromkeys(
            (pixel_row[x], pixel_row[x + 1], pixel_row[x + 2]) for x in range(0, len(pixel_row), size)
        )
        previous_row = pixel_row
    return list(colors)


def _unfilter_row(filtering: int, row: bytearray, above: bytearray, size: int) -> bytearray:
    """Return a row of a PNG without its filter (source: the PNG specification, chapter 9)."""
    for x in range(len(row)):
        left, corner = (row[x - size], above[x - size]) if x >= size else (0, 0)
        up = above[x]
        if filtering == 1:
            row[x] = row[x] + left & 255
        elif filtering == 2:
            row[x] = row[x] + up & 255
        elif filtering == 3:
            row[x] = row[x] + (left + up) // 2 & 255
        elif filtering == 4:
            guess = left + up - corner
            nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
            row[x] = row[x] + nearest[2] & 255
    return row
