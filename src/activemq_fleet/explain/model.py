"""What a page is made of: sections of entries, each with its reason and its variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from activemq_fleet.settings.broker import PREFIX, Settings

Origin = Literal["inventory", "default"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing said about a host.

    ``why`` is its reason in a few words; ``details`` are further lines, such as a URI. ``variable``
    decides the value and is what an operator changes; ``origin`` says whether the inventory sets it.
    ``data`` holds the same for programs.
    """

    label: str
    text: str
    why: str = ""
    details: tuple[str, ...] = ()
    variable: str = ""
    origin: Origin | None = None
    severity: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The entry for JSON."""
        return {
            "label": self.label,
            "text": self.text,
            "why": self.why,
            "details": list(self.details),
            "variable": self.variable or None,
            "origin": self.origin,
            "data": dict(self.data),
        }


@dataclass(frozen=True, slots=True)
class Section:
    """``name`` is for programs and never changes, ``title`` for people; ``intro`` holds for all entries.

    ``stacked`` entries have their label on a line of its own: for long names and longer URIs.
    """

    name: str
    title: str
    entries: tuple[Entry, ...]
    intro: str = ""
    stacked: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The section for JSON."""
        entries = [entry.to_dict() for entry in self.entries]
        return {"name": self.name, "title": self.title, "intro": self.intro, "entries": entries}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The page of one host. ``kinds`` are broker, agent and balancer; a host may be several."""

    host: str
    kinds: tuple[str, ...]
    title: str
    sections: tuple[Section, ...]

    def section(self, name: str) -> Section:
        """The section of that name. Raises KeyError where the page has none."""
        for section in self.sections:
            if section.name == name:
                return section
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """``{host, kinds, title, sections: [{name, title, intro, entries: [...]}]}``."""
        return {
            "host": self.host,
            "kinds": list(self.kinds),
            "title": self.title,
            "sections": [section.to_dict() for section in self.sections],
        }


def set_by(settings: Settings, name: str, label: str, text: str, **more: Any) -> Entry:
    """An entry whose value ``activemq_NAME`` decides."""
    origin: Origin = "inventory" if name in settings.model_fields_set else "default"
    return Entry(label, text, variable=PREFIX + name, origin=origin, **more)
