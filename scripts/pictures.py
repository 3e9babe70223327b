"""Take screenshots of the drawings and reports in docs/pictures: ``python -m scripts.pictures`` (`make pictures`).

Each SVG is shown completely, and of each HTML page the first screen, in light and in dark colors.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from scripts.browser import Browser, BrowserError, Scheme

DIRECTORY = Path(__file__).resolve().parents[1] / "docs" / "pictures"
_SCHEMES: tuple[Scheme, ...] = ("light", "dark")
_SIZE = re.compile(r'<svg [^>]*\bwidth="([\d.]+)" height="([\d.]+)"')
# Pixels of a page, and dots of its picture for each pixel.
FIRST_SCREEN = (1064, 760)
PAGE_SCALE = 1.25
# Pixels. This width is sharp on a page, and the file is small enough for a repository.
_DOTS = 2000


def size_of(svg: str) -> tuple[int, int]:
    """Return width and height of an SVG that `graph` wrote, in pixels, rounded up."""
    match = _SIZE.search(svg)
    if match is None:
        raise ValueError("the SVG has no width and height: only drawings of `graph` are supported")
    width, height = (-int(-float(number) // 1) for number in match.groups())
    return width, height


def screenshot_svg(browser: Browser, svg: Path, picture: Path, scheme: Scheme) -> None:
    """Write a screenshot of ``svg`` to ``picture`` (PNG)."""
    size = size_of(svg.read_text(encoding="utf-8"))
    browser.screenshot(svg, picture, size, scheme, scale=min(2.0, _DOTS / size[0]))


def screenshot_page(browser: Browser, page: Path, picture: Path, scheme: Scheme) -> None:
    """Write a screenshot of the first screen of an HTML page to ``picture`` (PNG)."""
    browser.screenshot(page, picture, FIRST_SCREEN, scheme, scale=PAGE_SCALE)


def main() -> int:
    """Take a screenshot of every SVG and page of docs/pictures. Exit 0, or 2 without a browser."""
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            browser = Browser.find(Path(profile))
            for source in sorted([*DIRECTORY.glob("*.svg"), *DIRECTORY.glob("*.html")]):
                for scheme in _SCHEMES:
                    picture = source.with_name(f"{source.stem}{'-dark' if scheme == 'dark' else ''}.png")
                    take = screenshot_svg if source.suffix == ".svg" else screenshot_page
                    take(browser, source, picture, scheme)
                    print(f"{picture.relative_to(DIRECTORY.parents[1])}: {picture.stat().st_size // 1024} KiB")
    except BrowserError as error:
        print(f"pictures: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
