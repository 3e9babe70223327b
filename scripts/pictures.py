"""Makes the pictures of the documentation: ``python -m scripts.pictures`` (`make pictures`).

Each SVG and each page (HTML) that stands in docs/pictures is photographed in light and dark colours, so
that one sees what an operator sees, and so that places that show neither have a picture too.
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
_PAGE_WIDTH = 1064
_MEASURE = f"""<script>addEventListener("load", () => {{
  document.body.style.width = "{_PAGE_WIDTH}px";
  const found = document.createElement("pre"); found.id = "found";
  found.textContent = JSON.stringify(Math.ceil(document.querySelector("main").getBoundingClientRect().bottom));
  document.body.append(found);
}});</script>"""
# A picture as wide as this many dots is sharp on a page, and small enough for a repository.
_DOTS = 2000


def size_of(svg: str) -> tuple[int, int]:
    """Width and height of an SVG of ours in pixels, rounded up."""
    match = _SIZE.search(svg)
    if match is None:
        raise ValueError("is no SVG of ours: it has no width and height")
    width, height = (-int(-float(number) // 1) for number in match.groups())
    return width, height


def photograph(browser: Browser, svg: Path, picture: Path, scheme: Scheme) -> None:
    """Write ``picture`` (PNG), as an operator's browser shows ``svg``."""
    size = size_of(svg.read_text(encoding="utf-8"))
    browser.screenshot(svg, picture, size, scheme, scale=min(2.0, _DOTS / size[0]))


def photograph_page(browser: Browser, page: Path, picture: Path, scheme: Scheme) -> None:
    """The same of a whole page, as high as its ``<main>`` is."""
    with tempfile.TemporaryDirectory() as directory:
        measured = Path(directory) / "page.html"
        measured.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{_MEASURE}</body>"), encoding="utf-8")
        height = int(browser.ask(measured, scheme))
    browser.screenshot(page, picture, (_PAGE_WIDTH, height), scheme, scale=1.25)


def main() -> int:
    """Photograph every SVG and page of docs/pictures. Exit 0, or 2 where there is no browser."""
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            browser = Browser.find(Path(profile))
            for source in sorted([*DIRECTORY.glob("*.svg"), *DIRECTORY.glob("*.html")]):
                for scheme in _SCHEMES:
                    picture = source.with_name(f"{source.stem}{'-dark' if scheme == 'dark' else ''}.png")
                    take = photograph if source.suffix == ".svg" else photograph_page
                    take(browser, source, picture, scheme)
                    print(f"{picture.relative_to(DIRECTORY.parents[1])}: {picture.stat().st_size // 1024} KiB")
    except BrowserError as error:
        print(f"pictures: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
