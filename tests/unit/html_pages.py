"""A parser of HTML pages for tests, and data in which every text is hostile."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from typing import Any

EVIL = '"><script>alert(1)</script>\x00<img src=x onerror=alert(2)>'


class Page(HTMLParser):
    """A parser that checks the nesting of elements, and keeps tags with attributes, and texts with their classes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._classes: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)
            self._classes.append(dict(attrs).get("class") or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self._classes.pop()

    def handle_data(self, data: str) -> None:
        if data.strip() and self.open:
            self.texts.append((self._classes[-1], data.strip()))

    def texts_of_class(self, kind: str) -> list[str]:
        return [text for name, text in self.texts if name == kind]

    def elements(self, tag: str, kind: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag and attributes.get("class") == kind]


def assert_well_formed_and_inert(text: str) -> None:
    """Assert that the elements of the page are nested correctly, and that it loads and runs nothing."""
    page = Page(text)
    assert page.open == []
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object"}
    assert not any(
        name.startswith("on") or name in ("src", "href") for _, attributes in page.tags for name in attributes
    )
    assert not re.search(r"https?://|url\((?!#)|@import", text)


def with_evil_texts(data: Any, kept: Collection[str] = ()) -> Any:
    """Return the data with ``EVIL`` in place of every text, except in the fields ``kept``."""
    if isinstance(data, str):
        return EVIL
    if is_dataclass(data) and not isinstance(data, type):
        changed = [field.name for field in fields(data) if field.name not in kept]
        return replace(data, **{name: with_evil_texts(getattr(data, name), kept) for name in changed})
    if isinstance(data, Mapping):
        return {with_evil_texts(key): with_evil_texts(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_make"):
        return data._make(with_evil_texts(element, kept) for element in data)
    return type(data)(with_evil_texts(element, kept) for element in data) if isinstance(data, list | tuple) else data
