"""Read the pages of the documentation that are installed with the library, and their sections."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from activemq_fleet.documentation_links import page_address_or_command

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]*)\)")
_PAGE = re.compile(r"([a-z-]+)\.md(?:#.*)?")
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) +(.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DocumentationPage:
    """A page that the command ``help`` prints: a Markdown page of the documentation.

    Its name is that of ``activemq-fleet help NAME``.
    """

    name: str
    text: str

    @property
    def title(self) -> str:
        """The title of the help page: its first heading."""
        heading = _HEADING.search(self.text)
        return heading[2] if heading else self.name

    def find_section(self, heading_text: str) -> str | None:
        """Return the section of the help page with a given heading, or None.

        The section can also be the row of a table whose first cell contains ``heading_text``.
        """
        return self._section_with_heading(heading_text) or self._table_row(heading_text)

    def _section_with_heading(self, heading_text: str) -> str | None:
        headings = list(_HEADING.finditer(self.text))
        for position, heading in enumerate(headings):
            if _normalize(heading[2]) == _normalize(heading_text):
                following = (later for later in headings[position + 1 :] if len(later[1]) <= len(heading[1]))
                end = next((later.start() for later in following), len(self.text))
                return self.text[heading.start() : end].strip()
        return None

    def _table_row(self, heading_text: str) -> str | None:
        titles: list[str] = []
        previous: list[str] = []
        for line in self.text.split("\n"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
            if cells and all(re.fullmatch(":?-+:?", cell) for cell in cells):
                titles = previous
            elif cells and titles and _normalize(heading_text) in map(_normalize, cells[0].split(",")):
                return "\n".join(f"- **{title}**: {cell}" for title, cell in zip(titles, cells, strict=False))
            elif not cells:
                titles = []
            previous = cells
        return None

    def section_names(self) -> list[str]:
        """Return the names of the help page's sections: the headings below its title."""
        return [heading[2] for heading in _HEADING.finditer(self.text)][1:]


def _normalize(text: str) -> str:
    return re.sub(r"[`*\s_-]+", "", replace_page_links_and_remove_pictures(text)).lower()


def _pages_directory() -> Path:
    return Path(str(files("activemq_fleet") / "docs"))


@cache
def help_page_names() -> tuple[str, ...]:
    """Return the sorted names of all help pages."""
    return tuple(sorted(path.stem for path in _pages_directory().glob("*.md")))


def read_help_page(name: str) -> DocumentationPage:
    """Return the Markdown page of the documentation that has the given name, as a DocumentationPage.

    ``help_page_names`` lists the names.
    """
    return DocumentationPage(name, _COMMENT.sub("", (_pages_directory() / f"{name}.md").read_text("utf-8")).strip())


def replace_page_links_and_remove_pictures(text: str) -> str:
    """Return a Markdown text without its pictures, and with the texts of links instead of the links.

    Links to web addresses stay as they are. For a page of the documentation the command that prints it is added. Files
    of a checkout, such as examples and tests, are not installed with the library, and have no address.
    """

    def replacement(link: re.Match[str]) -> str:
        picture, label, target = link.groups()
        if picture:
            return ""
        if "://" in target:
            return link[0]
        page = _PAGE.fullmatch(target)
        if page is None or page[1] not in help_page_names():
            return label
        reference = page_address_or_command(page[1])
        return reference if label == target else f"{label} (`{reference}`)"

    return _LINK.sub(replacement, text)
