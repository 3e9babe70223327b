"""Makes the pictures of the documentation: ``python -m scripts.pictures`` (`make pictures`).

Each SVG that stands in docs/pictures is photographed in light and dark colours, so that one sees
what an operator sees, and so that places that show no SVG have a picture too.
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
# A picture as wide as this many dots is sharp on a page, and small enough for a repository.
_DOTS = 2000


def size_of(svg: str) -> tuple[int, int]:
    """Width and height of an SVG of ours in pixels, rounded up."""
    found = _SIZE.search(svg)
    if found is None:
        raise ValueError("is no SVG of ours: it has no width and height")
    width, height = (-int(-float(number) // 1) for number in found.groups())
    return width, height


def photograph(browser: Browser, svg: Path, picture: Path, scheme: Scheme) -> None:
    """Write ``picture`` (PNG), as an operator's browser shows ``svg``."""
    size = size_of(svg.read_text(encoding="utf-8"))
    browser.screenshot(svg, picture, size, scheme, scale=min(2.0, _DOTS / size[0]))


def main() -> int:
    """Photograph every SVG of docs/pictures. Exit 0, or 2 where there is no browser."""
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            browser = Browser.find(Path(profile))
            for svg in sorted(DIRECTORY.glob("*.svg")):
                for scheme in _SCHEMES:
                    picture = svg.with_name(f"{svg.stem}{'-dark' if scheme == 'dark' else ''}.png")
                    photograph(browser, svg, picture, scheme)
                    print(f"{picture.relative_to(DIRECTORY.parents[1])}: {picture.stat().st_size // 1024} KiB")
    except BrowserError as error:
        print(f"pictures: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
