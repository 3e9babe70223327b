"""The pictures of fleets, looked at in a real browser: what stands where, in light and in dark."""

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
# WCAG 2.1, success criterion 1.4.3, for text of ordinary size.
LEAST_CONTRAST = 4.5
# Glyphs begin a little outside their box in some fonts.
SLACK = 1.0


def regions(count: int, size: int) -> Fleet:
    """Groups of pairs around one, with findings and a release that differs."""
    names = [f"region{number:02}" for number in range(count)]
    links = [{"from": f"{name}-mq01", "to": f"{names[0]}-mq01", "duplex": True} for name in names[1:]]
    found = hosts(*(pair for name in names for pair in pairs(name, size)), links=links)
    found["region03-mq02-b.example.com"]["activemq_store_directory"] = "/elsewhere"
    found["region04-mq01-b.example.com"]["activemq_release"] = "5.17.6"
    del found["region05-mq03-b.example.com"]
    return build_fleet(found, {})


def tree() -> Fleet:
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
class Seen:
    """What the browser found in one scheme: by picture, as ``pictures.js`` tells it."""

    scheme: Scheme
    pictures: dict[str, dict[str, Any]]

    def texts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, picture in self.pictures.items():
            for text in picture["texts"]:
                yield name, text


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    """Chromium, or a skip that says what is missing; ``ACTIVEMQ_FLEET_BROWSER=required`` allows none."""
    try:
        return Browser.find(tmp_path_factory.mktemp("chromium"))
    except BrowserError as error:
        if os.environ.get("ACTIVEMQ_FLEET_BROWSER") == "required":
            pytest.fail(f"a browser is required here: {error}")
        pytest.skip(f"no browser checks the pictures: {error}")


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    """SVG by name: the examples, and fleets that are hard to draw."""
    return {path.name: to_svg(load_fleet([str(path)])) for path in EXAMPLES} | {
        name: to_svg(found) for name, found in FLEETS.items()
    }


@pytest.fixture(scope="module", params=[SCHEMES[0], *further(*SCHEMES[1:])])
def seen(
    request: pytest.FixtureRequest, browser: Browser, drawn: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Seen:
    """All pictures on one page, asked by a script, so that the browser starts once a scheme."""
    page = tmp_path_factory.mktemp("page") / "page.html"
    script = (Path(__file__).parent / "pictures.js").read_text()
    pictures = "".join(f'<div id="{html.escape(name)}">{svg}</div>' for name, svg in drawn.items())
    page.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{pictures}<script>{script}</script></body>')
    found = Seen(request.param, browser.ask(page, request.param))
    assert set(found.pictures) == set(drawn)
    return found


def test_every_text_stands_within_the_box_that_it_is_on(seen: Seen) -> None:
    outside = [
        (name, text["content"])
        for name, text in seen.texts()
        if not _contains(text["within"], text["box"])
    ]  # fmt: skip
    assert outside == []


def test_no_two_texts_overlap(seen: Seen) -> None:
    overlapping = [
        (name, one["content"], other["content"])
        for name, picture in seen.pictures.items()
        for one, other in _neighbours(picture["texts"])
        if _overlaps(one["box"], other["box"])
    ]
    assert overlapping == []


def test_no_line_runs_through_a_text(seen: Seen) -> None:
    assert {name: picture["crossed"] for name, picture in seen.pictures.items() if picture["crossed"]} == {}


def test_every_text_has_enough_contrast_to_what_it_stands_on(seen: Seen) -> None:
    faint = {
        (text["content"], round(contrast, 2))
        for _, text in seen.texts()
        if (contrast := contrast_of(_colour(text["fill"]), _colour(text["ground"]))) < LEAST_CONTRAST
    }
    assert faint == set()


def test_the_ground_is_light_or_dark_as_the_reader_wants_it(seen: Seen) -> None:
    grounds = {
        _luminance(_colour(text["ground"])) < 0.18 for _, text in seen.texts() if text["content"] == "ActiveMQ fleet"
    }
    assert grounds == {seen.scheme == "dark"}


@pytest.mark.parametrize("name", ["mesh of 100", "hub of 100", "25 groups of 4 pairs"])
def test_a_hundred_pairs_can_be_read_on_a_sheet(drawn: dict[str, str], name: str) -> None:
    """Its smallest letters are 11 pixels high: at least 1.2 mm on a sheet of A3 that lies on its side."""
    width, height = size_of(drawn[name])
    assert 11 * min(400 / width, 277 / height) >= 1.2


@in_every_situation
def test_a_photograph_shows_the_picture_in_both_schemes(
    browser: Browser, drawn: dict[str, str], tmp_path: Path
) -> None:
    svg = tmp_path / "fleet.svg"
    svg.write_text(drawn["shared-store"])
    colours = {}
    for scheme in SCHEMES:
        screenshot_svg(browser, svg, tmp_path / "fleet.png", scheme)
        colours[scheme] = _colours(tmp_path / "fleet.png")

    assert colours["light"][0] == (255, 255, 255)
    assert colours["dark"][0] == (13, 17, 23)
    # The master's blue is there, and each scheme has a blue of its own.
    assert (232, 241, 253) in colours["light"]
    assert (22, 48, 79) in colours["dark"]
    assert (232, 241, 253) not in colours["dark"]


def test_the_pictures_of_the_documentation_are_photographs_of_its_drawings() -> None:
    """Each is there twice, and in the proportions of its drawing."""
    drawings = sorted((REPOSITORY / "docs" / "pictures").glob("*.svg"))
    assert drawings != []
    for svg in drawings:
        width, height = size_of(svg.read_text())
        for picture in (svg.with_suffix(".png"), svg.with_name(f"{svg.stem}-dark.png")):
            dots = struct.unpack(">II", picture.read_bytes()[16:24])
            assert dots[0] / dots[1] == pytest.approx(width / height, rel=0.01), f"{picture.name}: run `make pictures`"


def test_pages_of_the_documentation_have_screenshots_of_their_first_screen() -> None:
    pages = sorted((REPOSITORY / "docs" / "pictures").glob("*.html"))
    assert pages != []
    for page in pages:
        for picture in (page.with_suffix(".png"), page.with_name(f"{page.stem}-dark.png")):
            size = struct.unpack(">II", picture.read_bytes()[16:24])
            assert size == tuple(side * PAGE_SCALE for side in FIRST_SCREEN), f"{picture.name}: run `make pictures`"


class TestTheseTests:
    """What looks for mistakes finds them."""

    def test_a_text_that_is_too_long_one_that_is_covered_and_one_that_is_faint_are_found(
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
        found = browser.ask(page, "light")["bad"]
        long, faint, _ = found["texts"]
        assert not _contains(long["within"], long["box"])
        assert contrast_of(_colour(faint["fill"]), _colour(faint["ground"])) < LEAST_CONTRAST
        assert _overlaps(long["box"], faint["box"])
        assert found["crossed"] == ["crossed"]

    def test_contrast_is_that_of_the_guideline(self) -> None:
        assert contrast_of((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
        assert contrast_of((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)


Colour = tuple[int, int, int]


def contrast_of(one: Colour, other: Colour) -> float:
    """1 to 21, as WCAG 2.1 defines it."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Colour) -> float:
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in (c / 255 for c in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _colour(css: str) -> Colour:
    red, green, blue = (int(number) for number in re.findall(r"\d+", css)[:3])
    return red, green, blue


def _contains(outer: dict[str, float], inner: dict[str, float]) -> bool:
    across = outer["left"] - SLACK <= inner["left"] and inner["right"] <= outer["right"] + SLACK
    # Above and below its letters a line of text has room that may hang over.
    return across and outer["top"] - 3 <= inner["top"] and inner["bottom"] <= outer["bottom"] + 3


def _overlaps(one: dict[str, float], other: dict[str, float]) -> bool:
    across = min(one["right"], other["right"]) - max(one["left"], other["left"])
    down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
    return across > SLACK and down > 3


def _neighbours(texts: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of texts that might overlap: those that begin above the end of the other."""
    ordered = sorted(texts, key=lambda text: text["box"]["top"])
    for position, one in enumerate(ordered):
        for other in ordered[position + 1 :]:
            if other["box"]["top"] > one["box"]["bottom"]:
                break
            yield one, other


def _colours(picture: Path) -> list[Colour]:
    """The colours of a PNG as Chromium writes it (8 bits, no interlacing), in the order of appearance."""
    data = picture.read_bytes()
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    size = {2: 3, 6: 4}[kind]
    packed, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        packed += data[at + 8 : at + 8 + length] if data[at + 4 : at + 8] == b"IDAT" else b""
        at += 12 + length
    rows, stride = zlib.decompress(packed), width * size + 1
    before, found = bytearray(width * size), dict[Colour, None]()
    for start in range(0, height * stride, stride):
        row = _unfiltered(rows[start], bytearray(rows[start + 1 : start + stride]), before, size)
        found |= dict.fromkeys((row[x], row[x + 1], row[x + 2]) for x in range(0, len(row), size))
        before = row
    return list(found)


def _unfiltered(filtering: int, row: bytearray, above: bytearray, size: int) -> bytearray:
    """One row of a PNG as it was before it was filtered (source: the PNG specification, chapter 9)."""
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
